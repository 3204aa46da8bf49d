"""What nobody expected ends the episode: it is logged, written down and told; nothing half-done is sent or goes on."""

import asyncio
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import ClassVar

import msgpack
import pytest

from samepath.core.errors import EpisodeFailedError, InputError
from samepath.simulator.server import ticking
from samepath.simulator.server.commands import WorldStep, apply
from samepath.simulator.server.journal_files import RecordKind, part_path, read_part
from samepath.simulator.server.methods import methods
from samepath.simulator.server.resume import JournalConfig
from samepath.simulator.server.rpc import Connection
from samepath.simulator.server.runner import EpisodeHealth, RealTimePace
from samepath.simulator.server.streams import StreamHub
from samepath.simulator.server.ticking import TickFailedError
from tests.support.journal_scenario import Desk, resumed
from tests.support.rpc import RawRpc
from tests.support.serving import RawClient, call, episode, served

WAIT_S = 60.0
SYNCHRONOUS = [True, False, [True, 0.05], True, 0.01, 10, 0.0, False, 0.0, 0.0, True]


class Panic(BaseException):
    """What Rapier's bindings raise is no ``Exception`` either."""


def raises(error):
    def fail(*_arguments, **_named):
        raise error

    return fail


def asked(client, name, *arguments):
    """The answer to a call: 1 and the value, or 0 and the error."""
    error, result = client.ask(name, *arguments)
    assert error is None
    return result[0]


def synchronous(client):
    settings = asked(client, "get_episode_settings")[1]
    asked(client, "set_episode_settings", [True, *settings[1:]])


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), MemoryError(), Panic("unwrap on None"), InputError("in a tick")])
@pytest.mark.parametrize("where", ["_step", "_carry", "sense", "_record", "publish"])
def test_whatever_is_raised_in_a_tick_ends_the_episode_and_is_told(monkeypatch, where, error):
    with served() as server, RawClient(server) as client:
        synchronous(client)
        asked(client, "tick_cue")
        monkeypatch.setattr(ticking, where, raises(error))
        answer = asked(client, "tick_cue")
        assert answer[0] == 0  # an error, in CARLA's shape: whoever asked need not guess
        assert "the episode has ended" in str(answer[1])
        name = "TickFailedError" if isinstance(error, InputError) else type(error).__name__
        assert name in server.failures.get(timeout=WAIT_S)
        assert "the episode has ended" in server.health().complaint(60.0)
        assert any(line.startswith("Traceback") for line in server.lines)


def test_a_tick_of_the_wall_clock_that_fails_ends_the_episode_too(monkeypatch):
    with served() as server:
        monkeypatch.setattr(ticking, "_carry", raises(Panic("ours")))
        assert "in a tick of" in server.failures.get(timeout=WAIT_S)


def test_an_error_of_ours_in_a_call_that_changes_the_world_ends_the_episode(monkeypatch):
    with served() as server, RawClient(server) as client:
        synchronous(client)
        monkeypatch.setattr(server._runner.episode.actors, "find", raises(KeyError("ours")))
        assert asked(client, "destroy_actor", 1)[0] == 0
        assert "destroy_actor" in server.failures.get(timeout=WAIT_S)


def test_an_error_of_ours_in_a_call_that_only_reads_is_answered_and_the_world_goes_on(monkeypatch):
    with served() as server, RawClient(server) as client:
        synchronous(client)
        monkeypatch.setattr(server._runner.episode.actors, "get", raises(KeyError("ours")))
        assert "internal error" in str(asked(client, "samepath_control", 1))
        monkeypatch.undo()
        assert asked(client, "tick_cue")[0] == 1
        assert server.failures.empty()


def test_the_end_of_memory_in_a_call_that_only_reads_is_the_end_all_the_same(monkeypatch):
    with served() as server, RawClient(server) as client:
        monkeypatch.setattr(server._runner.episode.actors, "get", raises(MemoryError()))
        assert asked(client, "samepath_control", 1)[0] == 0
        assert "MemoryError" in server.failures.get(timeout=WAIT_S)


def test_a_thread_that_reads_files_answers_whatever_happens(monkeypatch, tmp_path):
    with served(data_folder=tmp_path) as server, RawClient(server) as client:
        monkeypatch.setattr("samepath.simulator.server.methods.recorder._log", raises(Panic("while reading")))
        assert "while reading" in str(asked(client, "show_recorder_file_info", "x.log", False))
        assert asked(client, "version")[1] == "0.9.16"


def test_an_error_in_the_event_loop_on_the_way_to_somebody_ends_the_server(monkeypatch):
    with served() as server, RawClient(server) as client:
        asked(client, "version")
        monkeypatch.setattr(StreamHub, "send", raises(ZeroDivisionError("ours")))
        assert "event loop" in server.failures.get(timeout=WAIT_S)


def test_an_error_in_one_connection_costs_that_connection_alone(monkeypatch):
    with served() as server, RawClient(server) as good, RawClient(server) as bad:
        asked(bad, "version")
        real = Connection._take

        def fail_for_bad(self, call, ready):
            if call.method.name == "get_available_maps":
                raise ZeroDivisionError("ours")
            real(self, call, ready)

        monkeypatch.setattr(Connection, "_take", fail_for_bad)
        bad.send("get_available_maps")
        assert bad.is_closed()
        assert asked(good, "version")[1] == "0.9.16"
        assert server.failures.empty()


def test_nothing_of_the_command_that_failed_is_sent_but_what_came_before_is(monkeypatch):
    desk = Desk(map_name="t-junction")
    desk.ask("set_episode_settings", SYNCHRONOUS)
    desk.ask("tick_cue")
    frame = desk.episode.frame
    failures = []
    desk.runner._failed = failures.append
    monkeypatch.setattr(ticking, "_record", raises(Panic("after state and sensors")))
    with pytest.raises(Panic) as raised:
        desk.runner._apply(WorldStep(0.05))
    desk.runner._stop_at(raised.value)
    assert desk.events == []
    assert desk.episode.frame == frame + 1  # which is why nobody may go on with it
    assert failures == [desk.runner.failure]


def test_the_journal_stands_before_the_command_that_failed_and_keeps_it_for_whoever_looks_for_the_cause(monkeypatch, tmp_path):
    desk = Desk(JournalConfig(tmp_path / "journal"), map_name="t-junction")
    desk.runner._failed = lambda failure: None
    desk.ask("set_episode_settings", SYNCHRONOUS)
    spot = desk.ask("get_map_info")[1][0]
    desk.ask("spawn_actor", [0, "vehicle.audi.tt", []], spot)
    for _ in range(5):
        desk.ask("tick_cue")
    wanted = desk.state()
    with monkeypatch.context() as broken:
        broken.setattr(ticking, "_carry", raises(Panic("unwrap on None")))
        with pytest.raises(Panic) as raised:
            desk.send("tick_cue")
        desk.runner._stop_at(raised.value)
    desk.close()
    failed = [record for record in read_part(part_path(tmp_path / "journal", 0)).records if record.kind is RecordKind.FAILED]
    assert len(failed) == 1
    what, raw, words = failed[0].fields
    assert what.startswith("the call tick_cue of")
    assert msgpack.unpackb(raw)[2] == "tick_cue"
    assert "unwrap on None" in words
    assert "Traceback" in words
    after = Desk(resumed(tmp_path / "journal"), map_name="t-junction")
    assert after.state() == wanted
    after.ask("tick_cue")
    assert after.episode.frame == wanted[0] + 1


def test_what_fails_when_it_is_played_again_is_not_swallowed(monkeypatch, tmp_path):
    desk = Desk(JournalConfig(tmp_path / "journal"), map_name="t-junction")
    desk.ask("set_episode_settings", SYNCHRONOUS)
    desk.ask("tick_cue")
    desk.close()
    monkeypatch.setattr(ticking, "_carry", raises(ZeroDivisionError("ours")))
    with pytest.raises(InputError, match="cannot be resumed"):
        Desk(resumed(tmp_path / "journal"), map_name="t-junction")


def test_no_client_can_mend_a_tick_so_its_errors_are_none_of_a_clients(monkeypatch):
    host = episode()
    monkeypatch.setattr(ticking, "_carry", raises(InputError("a file")))
    with pytest.raises(TickFailedError, match="was not finished: a file"):
        apply(host, WorldStep(0.05))


def test_a_replay_that_cannot_be_played_to_its_end_is_stopped_and_the_world_goes_on(monkeypatch):
    host = episode()

    class Broken:
        is_over = False
        stopped: ClassVar[list] = []
        tick = staticmethod(raises(InputError("a packet is damaged")))

        def stop(self, host, *, keep):
            self.stopped.append(keep)

    host.player = Broken()
    call(host, "tick_cue")
    assert host.player is None
    assert Broken.stopped == [True]
    assert "the replay ends: a packet is damaged" in host.context.outbox.lines


def test_every_method_that_may_change_the_world_is_marked_so():
    """A method that reads may be answered after an error of ours; calling one must leave the world's bytes as they were."""
    from samepath.simulator.server import snapshot

    host = episode()
    car = call(host, "spawn_actor", *_car(host)).id
    call(host, "tick_cue")
    before = snapshot.take(host)
    given = {
        "get_actors_by_id": ([car],), "get_actor_bounding_box": (car,), "samepath_control": (car,),
        "get_physics_control": (car,),
        "get_vehicle_light_state": (car,), "get_wheel_steer_angle": (car, 0), "get_telemetry_data": (car,),
        "get_ackermann_controller_settings": (car,), "get_all_level_BBs": (0,), "get_environment_objects": (0,),
        "project_point": ([0, 0, 5], [0, 0, -1], 10.0), "cast_ray": ([0, 0, 5], [0, 0, -5]),
        "is_traffic_manager_running": (8000,),
        "get_traffic_manager_running": (8000,),
        "get_required_files": ("",), "request_file": ("x",),
        "samepath_ticket": ("a" * 32, 1), "is_sensor_enabled_for_ros": (1,), "are_gbuffers_enabled": (car,),
        "get_group_traffic_lights": (1,), "get_light_boxes": (1,),
        "get_actor_component_names": (car,), "get_actor_component_world_transform": (car, "body"),
        "get_actor_component_relative_transform": (car, "body"), "get_actor_bone_names": (car,),
        "get_actor_bone_world_transforms": (car,), "get_actor_bone_relative_transforms": (car,),
        "get_vehicle_bone_world_transforms": (car,), "get_bones_transform": (car,), "get_actor_socket_names": (car,),
        "get_actor_socket_world_transforms": (car,), "get_actor_socket_relative_transforms": (car,),
    }  # fmt: skip
    asked = [method for method in methods().values() if method.reads and method.handler is not None and not method.aside]
    assert len(asked) > 25
    for method in asked:
        try:
            call(host, method.name, *given.get(method.name, ()))
        except Exception as error:  # refused is answered, too; a wrong number of arguments would test nothing
            assert "arguments" not in str(error), method.name
    assert snapshot.take(host) == before
    changes = ("set_", "apply_", "add_", "spawn_", "destroy_", "enable_", "freeze_", "reset_", "load_")
    assert not [name for name, method in methods().items() if method.handler and method.reads and name.startswith(changes)]


def _car(host):
    from tests.support.serving import described

    return described("vehicle.audi.tt"), host.map.spawn_points[0]


HEALTHY = EpisodeHealth(7, True, last_tick_age_s=900.0, busy_s=0.0, has_ended=False)


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (HEALTHY, ""),  # a synchronous world waits for its clients for as long as they like
        (HEALTHY._replace(synchronous=False, last_tick_age_s=2.0), ""),
        (HEALTHY._replace(synchronous=False), "the last tick, frame 7, is 900 s old"),
        (HEALTHY._replace(busy_s=61.0), "the episode has been busy for 61 s at frame 7"),
        (HEALTHY._replace(loop_age_s=61.0), "the event loop has not run for 61 s"),
        (HEALTHY._replace(has_ended=True), "the episode's thread has ended"),
        (HEALTHY._replace(has_ended=True, failure="it broke"), "it broke"),
    ],
)
def test_probes_look_at_the_episode_itself(health, words):
    assert health.complaint(60.0) == words


def test_a_probe_shows_the_pace_in_real_time():
    from samepath.core.service import probe_words

    assert HEALTHY.notes() == ""
    slow = HEALTHY._replace(synchronous=False, last_tick_age_s=0.1, pace=RealTimePace(8.8, 10.0, 10.0))
    assert slow.notes() == "real time: 8.8 s simulated in 10.0 s, simulated/wall 0.88, expected 1"
    assert probe_words(slow.complaint(60.0), slow.notes()) == f"ok\n{slow.notes()}"
    assert probe_words("it hangs", slow.notes()) == "it hangs"


def test_a_call_that_hangs_is_seen_from_other_threads(monkeypatch):
    go_on, inside = threading.Event(), threading.Event()

    def hang(_episode):
        inside.set()
        assert go_on.wait(WAIT_S)

    with served() as server, RawClient(server) as client:
        synchronous(client)
        monkeypatch.setattr(ticking, "_carry", hang)
        client.send("tick_cue")
        assert inside.wait(WAIT_S)
        try:
            assert "busy" in server.health()._replace(loop_age_s=0.0).complaint(0.0)
        finally:
            go_on.set()
        client.receive()
        assert server.health().complaint(60.0) == ""


SERVE = """
import sys, threading
from samepath.cli.app import main
from samepath.simulator.server import ticking
def fail(episode):
    raise MemoryError("planted")
real = ticking._carry
def carry(episode):
    return fail(episode) if episode.frame >= 5 and episode.settings.synchronous_mode else real(episode)
ticking._carry = carry
sys.argv = ["samepath", "serve", "--port", "0", "--probe-port", "0", *sys.argv[1:]]
main()
"""


def test_the_process_ends_with_a_code_of_its_own_and_its_probe_fails_before(tmp_path):
    command = [sys.executable, "-c", SERVE, "--journal", str(tmp_path / "journal"), "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stderr.readline(), process.stderr.readline()]
            url = lines[0].split("probe: ")[1].strip()
            port = int(lines[1].split(" on ")[1].split(",")[0].rpartition(":")[2])
            with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
                assert answer.read() == b"ok\n"
            with RawRpc("127.0.0.1", port, WAIT_S) as client:
                synchronous(client)
                while asked(client, "tick_cue")[0] == 1:
                    pass
            rest = process.stderr.read()
            assert process.wait(WAIT_S) == EpisodeFailedError.exit_code == 70
        finally:
            process.kill()
    assert "MemoryError: planted" in rest
    assert "Traceback" in rest
    assert rest.strip().splitlines()[-1].startswith("samepath: the episode has ended at frame")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=WAIT_S)


def test_the_probe_says_what_is_wrong():
    from samepath.core.service import serve_probe

    async def ask(complaint, request):
        probe = await serve_probe(lambda: complaint, "127.0.0.1", 0, lambda line: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", probe.port)
        writer.write(request)
        found = await reader.read()
        writer.close()
        probe.close()
        return found

    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    assert asyncio.run(ask("", get)).startswith(b"HTTP/1.1 200 OK")
    assert asyncio.run(ask("it hangs", get)).startswith(b"HTTP/1.1 503 ")
    assert asyncio.run(ask("it hangs", get)).endswith(b"\r\n\r\nit hangs\n")
    assert asyncio.run(ask("", b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
    assert asyncio.run(ask("", b"x" * 10_000)) == b""
