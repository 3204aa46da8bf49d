"""Driving a world from Python by ticket, on a good day."""

import re
import threading
from pathlib import Path

import pytest

from samepath.client import Settings, Status, TicketError, Transform, Vector, VehicleControl, WalkerControl, connect
from samepath.core.errors import InputError, UnknownNameError
from samepath.simulator.carla.blueprints import find
from tests.support.serving import served

DOCS = Path(__file__).parents[3] / "docs" / "client.md"
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def server():
    with served() as found:
        yield found


@pytest.fixture
def world(server):
    with connect(f"127.0.0.1:{server.port}") as found:
        found.load()
        found.apply_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)).result(LIMIT_S)
        yield found


def test_the_example_of_the_documentation_prints_what_it_says(capsys):
    example, output = re.findall(r"```(?:python|text)\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)[:2]
    with served() as server:
        exec(compile(example.replace("127.0.0.1:2000", f"127.0.0.1:{server.port}"), "docs/client.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_actors_come_drive_and_go(world):
    points = world.spawn_points().result(LIMIT_S)
    car = world.spawn("vehicle.tesla.model3", points[0], role_name="hero", color="10,20,30").result(LIMIT_S)
    assert isinstance(points[0], Transform)
    assert car.description.get("role_name") == "hero"
    assert car.bounding_box.extent.x > 2.0
    control = VehicleControl(throttle=1.0)
    world.control(car.id, control)
    for _ in range(40):
        tick = world.tick()
    frame = tick.result(LIMIT_S)
    assert world.last_control(car.id).result(LIMIT_S) == control
    assert world.call("get_telemetry_data", car.id).result(LIMIT_S)[0] > 3.0
    assert world.settings().result(LIMIT_S).synchronous_mode
    assert frame == tick.frame
    sensor = world.spawn("sensor.other.gnss", Transform(Vector(z=2.0)), parent=car.id, noise_seed=7).result(LIMIT_S)
    assert sensor.parent_id == car.id
    assert len(sensor.stream_token) == 24
    walker = world.spawn("walker.pedestrian.0001", Transform(Vector(20.0, 20.0, 2.0)), is_invincible=False).result(LIMIT_S)
    assert walker.description.get("is_invincible") == "false"
    assert world.walk(walker.id, WalkerControl(speed=1.0)).result(LIMIT_S) is None
    assert world.destroy(car.id).result(LIMIT_S) is True
    assert world.last_control(car.id).future.exception(LIMIT_S).args == (f"actor {car.id} not found",)


@pytest.mark.usefixtures("world")  # a synchronous one, whoever was here before: no frame comes between two calls
def test_a_ticket_has_a_name_and_says_how_long_it_took_and_when_it_was_done(server):
    name = f"{7:032x}"

    class Clock:
        """Each look at it is a second later."""

        now_s = 0.0

        def monotonic_s(self):
            self.now_s += 1.0
            return self.now_s

    with connect(f"127.0.0.1:{server.port}", client_id=name, clock=Clock()) as world:
        first, second = world.settings(), world.settings()
        world.wait([first, second], LIMIT_S)
        assert [(value.client, value.number) for value in (first, second)] == [(name, 1), (name, 2)]
        assert first.latency_s == int(first.latency_s) >= 1.0
        assert first.frame == second.frame > 0
        assert repr(first) == f"<ticket 1 of client {name}: get_episode_settings, success>"


def test_the_same_id_twice_is_the_same_client(server):
    """Who takes over an id begins where it began: it gets the answers of then, and nothing is done again."""
    with connect(f"127.0.0.1:{server.port}", client_id="b" * 32) as world:
        actor = world.spawn("sensor.other.gnss", Transform()).result(LIMIT_S)
    with connect(f"127.0.0.1:{server.port}", client_id="b" * 32) as world:
        assert world.spawn("sensor.other.gnss", Transform()).result(LIMIT_S) == actor


def test_callbacks_come_in_order_and_may_call_but_not_wait(world):
    seen, over = [], threading.Event()

    def chained(ticket):
        follow = world.settings()
        with pytest.raises(TicketError, match="a callback cannot wait for a result"):
            follow.result()
        follow.when_done(lambda item: (seen.append(item.status), over.set()))

    for number in range(5):
        world.tick().when_done(lambda ticket, number=number: seen.append((number, ticket.result() - ticket.frame)))
    last = world.tick()
    last.when_done(chained)
    assert over.wait(LIMIT_S)
    assert seen == [*((number, 0) for number in range(5)), Status.SUCCESS]
    last.when_done(lambda ticket: seen.append(ticket.number))
    assert seen[-1] == last.number


def test_calls_from_several_threads_keep_their_numbers_apart(world):
    found = []

    def work():
        found.extend([world.spawn("sensor.other.gnss", Transform()) for _ in range(50)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.wait(found, LIMIT_S)
    by_number = sorted(found, key=lambda item: item.number)
    ids = [item.result().id for item in by_number]
    assert ids == list(range(ids[0], ids[0] + 200))


def test_leaving_waits_for_what_is_pending(server):
    with connect(f"127.0.0.1:{server.port}") as world:
        tickets = [world.settings() for _ in range(300)]
    assert {ticket.status for ticket in tickets} == {Status.SUCCESS}


def test_what_makes_no_sense_is_refused_before_it_is_sent(world):
    before = world.settings().number
    with pytest.raises(UnknownNameError, match="model3"):
        world.spawn("vehicle.tesla.model4", Transform())
    with pytest.raises(UnknownNameError, match="color"):
        world.spawn("vehicle.tesla.model3", Transform(), colour="1,2,3")
    with pytest.raises(InputError, match="plain values were wanted"):
        world.call("version", object())
    with pytest.raises(InputError, match="arguments of at most"):
        world.call("copy_opendrive_to_file", "x" * (32 << 20))
    with pytest.raises(InputError, match="an address was wanted"):
        connect()
    with pytest.raises(TicketError, match="was done, but its answer cannot be read"):
        world._call("version", (), lambda _: find("no such blueprint")).result(LIMIT_S)
    assert world.settings().number == before + 2


def test_an_id_that_is_none_is_refused():
    with pytest.raises(InputError, match="client_id: 32 hexadecimal digits were wanted, but 'me' came"):
        connect("127.0.0.1:2000", client_id="me")
