"""Traffic managers on the wire: their settings and the answer to a tick never reach a client together; who sleeps is woken."""

import contextlib
import socket
import threading
import time

import msgpack
import pytest

from samepath.simulator.carla.streams import WORLD_STREAM, ids_in
from samepath.simulator.server import traffic_managers as managers
from tests.support.serving import RawClient, RawListener, described, served

LONG_S, MOMENT_S = 15.0, 0.3


@pytest.fixture
def server(monkeypatch):
    """A server that is in no hurry: what waits does so for as long as the test needs to see it."""
    monkeypatch.setattr(managers, "_LONGEST_S", LONG_S)
    with served() as found:
        with RawClient(found) as client:
            settings = client.value("get_episode_settings")
            client.value("set_episode_settings", [True, settings[1], [True, 0.05], *settings[3:]])
        yield found


class Manager(RawClient):
    """A client that has a traffic manager, which makes the calls of its cycles."""

    def __init__(self, server, port=8000):
        super().__init__(server)
        assert self.value("add_traffic_manager_running", ["127.0.0.1", port]) is True

    def cycle(self):
        self.value("get_vehicle_light_states")
        self.value("get_weather_parameters")
        assert self.ask("apply_batch", [], False) == (None, [])

    def together(self, *names):
        """Send calls in one go, as two threads do; gives their names in the order of the answers."""
        sent = {}
        data = b""
        for name in names:
            self._id += 1
            sent[self._id] = name
            data += msgpack.packb([0, self._id, name, [[False]]])
        self.socket.sendall(data)
        return [sent[self.receive()[0]] for _ in names]


def test_settings_are_told_while_a_tick_is_made(server):
    with RawClient(server) as client:
        for _ in range(20):
            assert Manager.together(client, "tick_cue", "get_episode_settings") == ["get_episode_settings", "tick_cue"]


def test_settings_that_are_being_changed_are_told_afterwards(server):
    with RawClient(server) as client:
        settings = client.value("get_episode_settings")
        for step_s in (0.1, 0.2, 0.05):
            client._id += 2
            change = [0, client._id - 1, "set_episode_settings", [[False], [*settings[:2], [True, step_s], *settings[3:]]]]
            client.socket.sendall(msgpack.packb(change) + msgpack.packb([0, client._id, "get_episode_settings", [[False]]]))
            assert client.receive()[0] == client._id - 1
            number, _, answer = client.receive()
            assert (number, answer[0][1][2]) == (client._id, [True, step_s])


def test_a_tick_is_answered_after_the_settings_that_end_a_cycle_but_its_state_goes_out_at_once(server):
    with Manager(server) as client, RawListener(server, WORLD_STREAM) as listener:
        listener.message()
        for _ in range(5):
            client.cycle()
            tick = client.send("tick_cue")
            listener.message()  # today's state: the tick is made, and only its answer waits
            settings = client.send("get_episode_settings")
            assert [client.receive()[0], client.receive()[0]] == [settings, tick]


def test_between_settings_and_tick_there_is_a_moment(server, monkeypatch):
    monkeypatch.setattr(managers, "_APART_S", MOMENT_S)
    with Manager(server) as client:
        client.cycle()
        start_s = time.perf_counter()  # before they are asked for: the moment begins with their answer
        client.value("get_episode_settings")
        client.value("tick_cue")
        assert time.perf_counter() - start_s > 0.9 * MOMENT_S


def test_whoever_ticks_waits_for_the_cycles_of_all(server):
    with Manager(server) as client, Manager(server, 8001), RawClient(server) as ticker:
        ticker.value("tick_cue")
        client.cycle()
        tick = ticker.send("tick_cue")
        ticker.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            ticker.receive()
        client.value("get_episode_settings")
        ticker.socket.settimeout(LONG_S / 2)
        assert ticker.receive()[0] == tick


@pytest.mark.parametrize("how", ["none", "destroyed", "gone", "settled", "users own"])
def test_where_no_cycle_is_open_no_tick_waits(server, how):
    with RawClient(server, timeout_s=LONG_S / 2) as ticker:
        if how == "none":
            ticker.value("get_vehicle_light_states")
            assert isinstance(ticker.value("tick_cue"), int)
            return
        with Manager(server) as client:
            client.cycle()
            if how == "destroyed":
                client.value("destroy_traffic_manager", 8000)
            elif how != "gone":
                client.value("get_episode_settings")
            if how == "users own":
                client.value("get_vehicle_light_states")
            if how != "gone":
                assert isinstance(ticker.value("tick_cue"), int)
                return
        assert isinstance(ticker.value("tick_cue"), int)


def test_a_client_that_goes_lets_go_of_the_ticks_that_wait_for_it(server):
    with RawClient(server, timeout_s=LONG_S / 2) as ticker:
        with Manager(server) as client:
            client.cycle()
            tick = ticker.send("tick_cue")
            ticker.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                ticker.receive()
        ticker.socket.settimeout(LONG_S / 2)
        assert ticker.receive()[0] == tick


def test_a_traffic_manager_that_does_not_ask_is_waited_for_once(server, monkeypatch):
    monkeypatch.setattr(managers, "_LONGEST_S", 1.0)
    with Manager(server) as client:
        took_s = []
        for _ in range(6):
            client.cycle()
            start_s = time.perf_counter()
            client.value("tick_cue")
            took_s.append(time.perf_counter() - start_s)
        assert took_s[0] > 0.9
        assert sorted(took_s[1:])[2] < 0.9  # most of them: a busy machine may be late with one


LAYERS = 0xFFFF


def test_what_a_client_asks_for_while_it_loads_a_map_is_answered_when_it_has_its_new_world(server):
    with Manager(server) as client:
        client.cycle()
        load = client.send("load_new_episode", "double-mini-roundabout", True, LAYERS)
        first = client.send("get_weather_parameters")  # of the traffic manager's thread, before the load is answered
        assert client.receive()[0] == load
        second = client.send("get_vehicle_light_states")  # and after it
        for name, arguments in (("version", []), ("get_episode_info", []), ("get_sensor_token", [WORLD_STREAM])):
            number = client.send(name, *arguments)
            assert client.receive()[0] == number
        assert [client.receive()[0], client.receive()[0]] == [first, second]
        assert client.value("get_map_info")[0].endswith("double-mini-roundabout")


@pytest.mark.parametrize("name", ["double-mini-roundabout", "no such map"])
def test_a_client_that_does_not_enter_its_new_world_is_answered_all_the_same(server, name, monkeypatch):
    monkeypatch.setattr(managers, "_ENTER_S", MOMENT_S)
    with Manager(server) as client:
        load = client.send("load_new_episode", name, True, LAYERS)
        other = client.send("get_weather_parameters")
        assert client.receive()[0] == load
        assert client.receive()[0] == other
        number = client.send("get_weather_parameters")
        assert client.receive()[0] == number


def test_whose_client_loads_nothing_or_has_no_traffic_manager_does_not_wait_for_a_load(server, monkeypatch):
    monkeypatch.setattr(managers, "_ENTER_S", LONG_S * 10)
    with Manager(server) as loader, Manager(server, 8001) as other, RawClient(server, timeout_s=LONG_S) as plain:
        assert loader.ask("load_new_episode", "", True, LAYERS)[0] is None
        other.socket.settimeout(LONG_S)
        other.value("get_weather_parameters")
        plain.value("get_weather_parameters")
        assert plain.ask("load_new_episode", "", True, LAYERS)[0] is None
        plain.value("get_weather_parameters")


def test_a_client_that_gives_up_its_traffic_manager_or_goes_while_it_loads_leaves_nothing_behind(server, monkeypatch):
    monkeypatch.setattr(managers, "_ENTER_S", LONG_S * 10)
    with Manager(server) as client:
        load = client.send("load_new_episode", "", True, LAYERS)
        other = client.send("get_weather_parameters")
        assert client.receive()[0] == load
        client.send("destroy_traffic_manager", 8000)
        assert client.receive()[0] == other
    with Manager(server) as client:
        assert client.ask("load_new_episode", "", True, LAYERS)[0] is None
        client.send("get_weather_parameters")
    assert until(lambda: not server._rpc.managers._managers)
    with RawClient(server) as client:
        assert client.value("version") == "0.9.16"
    assert server.failures.empty()


class Departure:
    """A free traffic manager in its cycle, a listener to states, and a car whose end another client asks for."""

    def __init__(self, server, *, free=True):
        self.client, self.other = Manager(server), RawClient(server)
        self.listener = RawListener(server, WORLD_STREAM)
        self.heard = []
        if free:
            for _ in range(10):
                self.client.value("get_episode_settings")
        place = self.other.value("get_map_info")[1][0]
        self.car = self.other.value("spawn_actor", described("vehicle.audi.tt"), place)[0]
        self.other.value("tick_cue")
        while self.car not in self.state():
            pass
        self.client.value("get_vehicle_light_states")

    def state(self):
        return ids_in(self.listener.message()).tolist()

    def end(self):
        """Take the car out and tick; the number of the tick's call."""
        assert self.other.value("destroy_actor", self.car) is True
        return self.other.send("tick_cue")

    def hears_nothing(self):
        self.listener.socket.settimeout(MOMENT_S)
        with pytest.raises(TimeoutError):
            self.listener.message()
        self.listener.socket.settimeout(LONG_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in (self.client, self.other, self.listener):
            each.socket.close()


@pytest.fixture
def patient(monkeypatch, server):
    """Cycles may take as long as the test does, and ticks are held back by nothing else."""
    monkeypatch.setattr(managers, "_CYCLE_S", LONG_S * 10)
    monkeypatch.setattr(managers, "_LONGEST_S", 0.001)
    return server


def test_a_state_without_somebody_waits_for_the_cycle_of_a_free_traffic_manager(patient):
    with Departure(patient) as at:
        tick = at.end()
        at.hears_nothing()
        # Its cycle goes on, and comes to its end.
        at.client.value("get_weather_parameters")
        assert at.client.ask("apply_batch", [], False) == (None, [])
        at.hears_nothing()
        settings = at.client.send("get_episode_settings")
        assert at.car not in at.state()
        assert at.other.receive()[0] == tick
        assert at.client.receive()[0] == settings


def test_settings_are_told_a_moment_after_such_a_state(patient, monkeypatch):
    monkeypatch.setattr(managers, "_TAKEN_S", MOMENT_S)
    with Departure(patient) as at:
        at.end()
        at.hears_nothing()
        start_s = time.perf_counter()
        at.client.value("get_episode_settings")
        assert time.perf_counter() - start_s > 0.9 * MOMENT_S
        assert at.car not in at.state()


def test_what_follows_such_a_state_waits_behind_it_in_order(patient):
    with Departure(patient) as at:
        at.end()
        place = at.client.value("get_map_info")[1][1]
        spawn = at.client.send("spawn_actor", described("vehicle.audi.tt"), place)
        weather = at.client.send("get_weather_parameters")
        assert at.client.receive()[0] == weather  # the spawn is answered after the state, as ever
        settings = at.client.send("get_episode_settings")
        assert [at.client.receive()[0], at.client.receive()[0]] == [spawn, settings]


@pytest.mark.parametrize("why", ["nobody left", "not free", "its own client is gone", "it loads a map"])
def test_a_state_waits_for_nothing_else(patient, why):
    with Departure(patient, free=why != "not free") as at:
        if why == "its own client is gone":
            at.client.socket.close()
            assert until(lambda: not patient._rpc.managers._managers)
        elif why == "it loads a map":
            at.client.value("get_weather_parameters")
            assert at.client.ask("load_new_episode", "double-mini-roundabout", False, LAYERS)[0] is None
            at.other.value("tick_cue")
            assert at.car not in at.state()
            return
        tick = at.other.send("tick_cue") if why == "nobody left" else at.end()
        assert (at.car in at.state()) == (why == "nobody left")
        assert at.other.receive()[0] == tick


@pytest.mark.parametrize("how", ["gone", "late", "too much"])
def test_a_state_that_waits_is_given_out_when_its_traffic_manager_goes_or_takes_too_long(patient, how, monkeypatch):
    if how == "late":
        monkeypatch.setattr(managers, "_CYCLE_S", MOMENT_S)
    elif how == "too much":
        monkeypatch.setattr(managers, "_MOST_BEHIND_BYTES", 100)
    with Departure(patient) as at:
        tick = at.end()
        if how == "gone":
            at.hears_nothing()
            at.client.socket.close()
        assert at.car not in at.state()
        assert at.other.receive()[0] == tick
        if how == "late":  # it is not waited for a second time
            monkeypatch.setattr(managers, "_CYCLE_S", LONG_S * 10)
            place = at.other.value("get_map_info")[1][0]
            at.car = at.other.value("spawn_actor", described("vehicle.audi.tt"), place)[0]
            at.other.value("tick_cue")
            assert at.car in at.state()
            at.end()
            assert at.car not in at.state()


def test_who_asks_and_then_loads_a_map_while_a_state_waits_for_somebody_else_is_told_all_the_same(patient):
    with Departure(patient) as at, Manager(patient, 8001) as second:
        for _ in range(10):
            second.value("get_episode_settings")
        at.end()
        at.hears_nothing()
        settings = second.send("get_episode_settings")
        assert until(lambda: any(manager.asked for manager in patient._rpc.managers._managers.values()))
        load = second.send("load_new_episode", "", True, LAYERS)
        at.client.send("get_episode_settings")
        assert at.car not in at.state()
        assert second.receive()[0] == load
        for name, arguments in (("version", []), ("get_episode_info", []), ("get_sensor_token", [WORLD_STREAM])):
            assert second.send(name, *arguments) == second.receive()[0]
        assert second.receive()[0] == settings


def test_a_traffic_manager_whose_client_ticks_on_during_a_cycle_is_free(patient):
    with Departure(patient, free=False) as at:
        for _ in range(3):
            at.client.value("tick_cue")
            at.state()
        at.end()
        at.hears_nothing()
        at.client.value("get_episode_settings")
        assert at.car not in at.state()


def test_a_synchronous_traffic_manager_is_not_waited_for_however_its_calls_fall(patient):
    with Departure(patient, free=False) as at:
        at.client.value("get_episode_settings")
        for _ in range(10):  # the tick is asked for before the settings that end the cycle, and the client asks for them, too
            at.client.cycle()
            at.client.together("tick_cue", "get_episode_settings", "get_episode_settings")
            at.state()
        at.end()
        assert at.car not in at.state()


class ListeningManager:
    """The port of a traffic manager: takes calls down and answers them, where it is told to wait only when it may."""

    def __init__(self):
        self.calls, self.may_answer, self.may_greet = [], threading.Event(), threading.Event()
        self.may_answer.set()
        self.may_greet.set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            unpacker = msgpack.Unpacker()
            with connection:
                while data := connection.recv(4096):
                    unpacker.feed(data)
                    for kind, number, name, arguments in unpacker:
                        assert kind == 0
                        self.calls.append((name, *arguments))
                        if name == "set_synchronous_mode":
                            self.may_answer.wait(LONG_S)
                        elif name == "health_check_remote_TM":
                            self.may_greet.wait(LONG_S)
                        connection.sendall(msgpack.packb([1, number, None, None]))

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


ALIVE = [("health_check_remote_TM",)]
WOKEN = [*ALIVE, ("set_synchronous_mode", False), ("set_synchronous_mode", True)]


@pytest.fixture
def listening(monkeypatch):
    for name, value in {"_SILENT_S": 0.3, "_SURE_S": 0.3, "_LOOK_S": 0.05}.items():
        monkeypatch.setattr(managers, name, value)
    found = ListeningManager()
    yield found
    found.close()


def until(condition):
    end_s = time.perf_counter() + LONG_S
    while not condition() and time.perf_counter() < end_s:
        time.sleep(0.01)
    return condition()


def tick_after_a_cycle(client):
    client.cycle()
    client.value("get_episode_settings")
    client.value("tick_cue")


def test_a_traffic_manager_that_misses_its_cycle_is_woken_and_its_calls_wait_for_that(server, listening):
    with Manager(server, listening.port) as client:
        listening.may_answer.clear()
        tick_after_a_cycle(client)
        assert until(lambda: listening.calls == WOKEN[:2])
        number = client.send("get_vehicle_light_states")
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.receive()
        client.socket.settimeout(LONG_S)
        listening.may_answer.set()
        assert client.receive()[0] == number
        assert listening.calls == WOKEN
        assert until(lambda: any("was woken" in line for line in server.lines))


def test_a_traffic_manager_that_ended_its_cycle_after_the_tick_was_answered_is_woken_too(server, listening, monkeypatch):
    monkeypatch.setattr(managers, "_LONGEST_S", 0.01)
    with Manager(server, listening.port) as client:
        client.cycle()
        client.value("tick_cue")
        client.value("get_episode_settings")  # of the cycle before: on a machine with much to do its thread comes late
        assert until(lambda: listening.calls == WOKEN)
        assert until(lambda: any("was woken" in line for line in server.lines))


def test_a_traffic_manager_that_was_only_late_is_left_alone(server, listening):
    with Manager(server, listening.port) as client:
        listening.may_greet.clear()
        tick_after_a_cycle(client)
        assert until(lambda: listening.calls == ALIVE)
        client.cycle()  # while it is being asked whether it is alive
        listening.may_greet.set()
        assert until(lambda: not any(manager.waking for manager in server._rpc.managers._managers.values()))
        assert listening.calls == ALIVE
        assert not any("woken" in line for line in server.lines)


@pytest.mark.parametrize(
    "how", ["no tick", "no cycle", "its cycle follows", "after a late one", "another client ticks", "two of them"]
)
def test_a_traffic_manager_is_not_disturbed_where_no_cycle_is_missed(server, listening, how, monkeypatch):
    if how == "after a late one":
        monkeypatch.setattr(managers, "_LONGEST_S", 0.01)
    if how in ("its cycle follows", "after a late one"):
        monkeypatch.setattr(managers, "_SILENT_S", LONG_S)  # however long this thread takes until it does
    with Manager(server, listening.port) as client, RawClient(server) as ticker:
        if how == "two of them":
            client.value("add_traffic_manager_running", ["127.0.0.1", 8001])
        if how != "no cycle":
            client.cycle()
        if how not in ("no cycle", "after a late one"):
            client.value("get_episode_settings")
        if how != "no tick":
            (ticker if how == "another client ticks" else client).value("tick_cue")
        if how == "after a late one":
            client.value("get_episode_settings")
        if how in ("its cycle follows", "after a late one"):
            client.cycle()
            monkeypatch.setattr(managers, "_SILENT_S", 0.3)
        time.sleep(1.0)
        assert listening.calls == []


def test_a_traffic_manager_that_cannot_be_reached_is_a_line_in_the_log(server, listening):
    listening.close()
    with Manager(server, listening.port) as client:
        tick_after_a_cycle(client)
        assert until(lambda: any("cannot be woken" in line for line in server.lines))
        assert client.value("version") == "0.9.16"
