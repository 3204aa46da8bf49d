"""An accepted call makes every later tick fail: a resumed server goes on before it, and logs what it left out."""

import subprocess
import sys

import msgpack
import pytest

from samepath.core.errors import InputError
from samepath.simulator.server import ticking
from samepath.simulator.server.journal import JournalSettings
from samepath.simulator.server.journal_files import RecordKind, numbers_of, part_path, read_part
from samepath.simulator.server.resume import JournalConfig
from tests.support.driven import free_port
from tests.support.journal_scenario import Desk, kept, resumed
from tests.support.rpc import RawRpc
from tests.support.serving import described

WAIT_S = 60.0
POISON = 97  # of max_substeps: a number that no client uses


def settings_with(substeps):
    return [True, False, [True, 0.05], True, 0.01, substeps, 0.0, False, 0.0, 0.0, True]


class PanicError(BaseException):
    """What Rapier's bindings raise is no ``Exception`` either."""


@pytest.fixture(autouse=True)
def closed():
    yield
    while Desk.open:
        Desk.open.pop().close()


def plant(monkeypatch, fails):
    """Make ticks fail in which ``fails`` of the episode is true."""
    real = ticking._carry

    def carry(episode):
        if fails(episode):
            raise PanicError("planted,\nof two lines")
        return real(episode)

    monkeypatch.setattr(ticking, "_carry", carry)


def is_poisoned(episode):
    return episode.settings.max_substeps == POISON


def desk_of(config):
    desk = Desk(config, map_name="t-junction")
    desk.failures = []
    desk.runner._failed = desk.failures.append
    return desk


def begun(folder, ticks=6, **settings):
    """A desk with a car that has made some ticks."""
    desk = desk_of(kept(folder, **settings))
    desk.ask("set_episode_settings", settings_with(10))
    desk.ask("spawn_actor", [0, "vehicle.audi.tt", []], desk.ask("get_map_info")[1][0])
    for _ in range(ticks):
        desk.ask("tick_cue")
    return desk


def fail(desk):
    """Tick until the episode has failed, as a server does that then ends."""
    with pytest.raises(PanicError) as raised:
        for _ in range(200):
            desk.send("tick_cue")
    desk.runner._stop_at(raised.value)
    desk.close()


@pytest.mark.parametrize("every_ticks", [2, 4, 1000])
def test_a_call_after_which_the_next_tick_fails_is_left_out(monkeypatch, tmp_path, every_ticks):
    plant(monkeypatch, is_poisoned)
    desk = begun(tmp_path, every_ticks=every_ticks)
    wanted = desk.state()
    desk.ask("set_weather_parameters", [1.0] * 14)
    desk.ask("set_episode_settings", settings_with(POISON))
    fail(desk)
    after = desk_of(resumed(tmp_path))
    assert after.state() == wanted
    line = after.lines[0]
    assert line.startswith(
        "the next tick fails at the end of the journal (PanicError: planted, of two lines): going on at frame 7"
    )
    assert "0 ticks and 2 calls (1 set_weather_parameters, 1 set_episode_settings)" in line
    assert "\n" not in line
    for _ in range(5):
        after.ask("tick_cue")
    wanted = after.state()
    after.close()
    # From then on it is a journal like any other.
    again = desk_of(resumed(tmp_path))
    assert again.state() == wanted
    assert not [line for line in again.lines if "left out" in line or "going on" in line]


def test_what_was_left_out_is_kept_for_whoever_looks_for_the_cause(monkeypatch, tmp_path):
    plant(monkeypatch, is_poisoned)
    desk = begun(tmp_path, every_ticks=4)
    desk.ask("set_episode_settings", settings_with(POISON))
    fail(desk)
    desk_of(resumed(tmp_path)).close()
    (lost,) = tmp_path.glob("*.lost")
    calls = [record.fields[1] for record in read_part(lost).records if record.kind is RecordKind.CALL]
    assert msgpack.unpackb(calls[-1])[2:] == ["set_episode_settings", [[False], settings_with(POISON)]]


@pytest.mark.parametrize("delay", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("every_ticks", [2, 1000])
def test_a_call_after_which_a_later_tick_fails_is_left_out_within_a_few_failures(monkeypatch, tmp_path, delay, every_ticks):
    """All snapshots may hold what the call did by then, and the first tick after a resume may succeed."""
    since = {}

    def fails(episode):
        if not is_poisoned(episode):
            return False
        key = episode.frame - since.setdefault("frame", episode.frame)
        return key >= delay

    plant(monkeypatch, fails)
    desk = begun(tmp_path, ticks=20, every_ticks=every_ticks)
    desk.ask("set_episode_settings", settings_with(POISON))
    fail(desk)
    desk = desk_of(resumed(tmp_path))
    for _ in range(3):  # a supervisor gives up at the fifth failure
        if is_poisoned(desk.episode):
            fail(desk)
            desk = desk_of(resumed(tmp_path))
    assert not is_poisoned(desk.episode)
    desk.ask("set_episode_settings", settings_with(10))  # a new world ticks by the wall clock
    frame = desk.episode.frame
    for _ in range(3 * delay):
        desk.ask("tick_cue")
    assert desk.episode.frame == frame + 3 * delay
    (line,) = [line for line in desk.lines if "going on" in line]
    assert "1 set_episode_settings" in line or "new world" in line


def test_a_failure_that_does_not_come_again_leaves_nothing_out(monkeypatch, tmp_path):
    desk = begun(tmp_path, every_ticks=4)
    desk.ask("spawn_actor", described("sensor.other.imu"), [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    wanted = desk.state()
    with monkeypatch.context() as broken:
        plant(broken, lambda _: True)
        fail(desk)
    after = desk_of(resumed(tmp_path))
    assert after.state() == wanted
    assert not list(tmp_path.glob("*.lost"))


def test_where_memory_runs_out_while_the_next_tick_is_tried_nothing_is_left_out(monkeypatch, tmp_path):
    desk = begun(tmp_path, every_ticks=1)
    desk.ask("set_weather_parameters", [1.0] * 14)
    wanted = desk.state()
    desk.close()

    def carry(_):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(ticking, "_carry", carry)
        after = desk_of(resumed(tmp_path))
    assert after.state() == wanted


def test_a_world_in_which_no_tick_succeeds_is_refused_in_one_line(monkeypatch, tmp_path):
    begun(tmp_path, every_ticks=1).close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    plant(monkeypatch, lambda _: True)
    with pytest.raises(InputError, match="the next tick fails even in a new world: PanicError: planted, of two lines"):
        desk_of(resumed(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_snapshots_do_not_pile_up_where_a_server_is_resumed_again_and_again(tmp_path):
    begun(tmp_path, every_ticks=4).close()
    for _ in range(12):
        desk_of(resumed(tmp_path)).close()
    assert len(numbers_of(tmp_path)[1]) == 5
    desk = desk_of(JournalConfig(tmp_path, JournalSettings(every_s=None, every_ticks=4), resume=True))
    for _ in range(6):
        desk.ask("tick_cue")
    assert len(numbers_of(tmp_path)[1]) == 2


SERVE = f"""
import sys
from samepath.cli import serve
from samepath.cli.app import main
from samepath.core import service
from samepath.simulator.server import ticking
real = ticking._carry
def carry(episode):
    if episode.settings.max_substeps == {POISON}:
        raise RuntimeError("planted")
    return real(episode)
ticking._carry = carry
# The supervisor's children are to have the fault as well.
popen = service.subprocess.Popen
def child(command, **more):
    return popen([sys.executable, "-c", open({{script!r}}).read(), *command[3:]], **more)
service.subprocess.Popen = child
sys.argv = ["samepath", *sys.argv[1:]]
main()
"""


def test_a_supervised_server_goes_on_before_the_call_and_lives(tmp_path):
    port = free_port()
    script = tmp_path / "serve.py"
    script.write_text(SERVE.replace("{script!r}", repr(str(script))), encoding="utf-8")
    arguments = ["serve", "--port", str(port), "--restart", "--journal", str(tmp_path / "journal")]
    command = [sys.executable, "-c", script.read_text("utf-8"), *arguments, "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines = []

        def wait_for(words):
            for line in process.stderr:
                lines.append(line)
                if words in line:
                    return
            raise AssertionError("".join(lines))

        try:
            wait_for("serving map")
            with RawRpc("127.0.0.1", port, WAIT_S) as client:
                client.ask("set_episode_settings", settings_with(10))
                client.ask("tick_cue")
                frame = client.ask("tick_cue")[1][0][1]
                client.ask("set_episode_settings", settings_with(POISON))
                assert client.ask("tick_cue")[1][0][0] == 0
            wait_for("serving map")
            with RawRpc("127.0.0.1", port, WAIT_S) as client:
                assert client.ask("tick_cue")[1][0] == [1, frame + 1]
        finally:
            process.terminate()
            process.wait(WAIT_S)
    failed = [line for line in lines if "it is started again from its journal" in line]
    assert len(failed) == 1
    assert any("1 set_episode_settings" in line for line in lines)
    parts, _ = numbers_of(tmp_path / "journal")
    assert not any(record.kind is RecordKind.FAILED for record in read_part(part_path(tmp_path / "journal", parts[-1])).records)
