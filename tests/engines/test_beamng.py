"""BeamNG.tech through BeamNGpy, against a stand-in that speaks the program's wire format: the program is not here.

What the stand-in answers is written from what BeamNGpy documents and takes. These tests show that the adapter asks as
documented and copes with what may come; how the program itself behaves they cannot show.
"""

import json
import stat
import sys
from importlib.util import find_spec

import pytest
from scipy.spatial.transform import Rotation

from samepath.core.errors import InputError, SimulatorError, StudyError
from samepath.engines.beamng import BeamNG
from samepath.engines.beamng.engine import observed_of, offset_of, start_of, state_of
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.interface import DURATION, Preset, RunRequest
from samepath.engines.registry import create
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.study.plan import make_plan
from samepath.scenarios.scripts import PlanarState, Pose2D, read_script
from tests.support import ROOT, SUPPORT
from tests.support.beamng_peer import NODE_AHEAD_M, BeamNGPeer
from tests.support.driven import collisions, free_port
from tests.support.peer_cars import EXCHANGES, Fault, listening
from tests.support.processes_left import wait_until_gone
from tests.support.shared_runs import share_runs
from tests.support.write_exchanges import REQUEST, SHORT

MISSING = "" if find_spec("beamngpy") else "beamngpy is not installed: pip install 'samepath[beamng]'"
needs_client = pytest.mark.skipif(bool(MISSING), reason=MISSING)
# On an error BeamNGpy opens another socket, and leaves the one before to be collected.
leaves_sockets = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
RUNS = {}


def go(peer, settings=None, duration_s=0.5, scenario="table1-test2", on_tick=lambda tick: None):
    simulator = BeamNG({"port": peer.port, **SHORT, **(settings or {})})
    return run_request(Preset(simulator, {}), RunRequest(scenario, 0, duration_s=duration_s), on_tick)


@pytest.fixture(scope="module")
def beamng():
    with listening(BeamNGPeer()) as peer:
        yield peer


@needs_client
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_beamng_conforms_against_its_stand_in(check, monkeypatch, beamng):
    share_runs(monkeypatch, RUNS, "beamng")
    check(lambda: Preset(BeamNG({"port": beamng.port, **SHORT}), {}, ["table1-test2"]))


@needs_client
def test_the_client_asks_for_what_the_exchange_has_and_in_its_order():
    with listening(BeamNGPeer(exchange="beamng.json")) as peer:
        repeat = run_request(BeamNG({"port": peer.port, **SHORT}), REQUEST)
    assert peer.exchange.wrong == []
    assert peer.exchange.left == 0
    pairs = json.loads((EXCHANGES / "beamng.json").read_text())["exchange"]
    told = [answer for (who, request), answer in pairs if who == "car2" and request["type"] == "SensorRequest"]
    last = repeat.values[(repeat.actor == 2) & (repeat.tick == 5)][0]
    x, y, z = told[-1]["data"]["state"]["state"]["pos"]
    assert (repeat.end.tick, repeat.end.reason) == (5, DURATION)
    assert last[:3].tolist() == [x, -y, z], "64 bits, as they came"


@needs_client
def test_another_request_than_the_exchanges_is_noticed():
    with listening(BeamNGPeer(exchange="beamng.json")) as peer:
        run_request(BeamNG({"port": peer.port, **SHORT, "steer_sign": -1, "steps_per_second": 120}), REQUEST)
    assert "'fps': 60" in peer.exchange.wrong[0]


@needs_client
def test_the_cars_drive_from_their_starts_meet_and_the_scenario_is_left(beamng):
    beamng.log.clear()
    repeat = go(beamng, duration_s=None)
    (hit,) = collisions(repeat)
    assert (hit.actor, hit.other, hit.impulse_ns) == (1, 2, None)
    assert hit.detail == "told by damage; the program tells no impulse"
    assert 200 < hit.tick < 300
    for role in read_script("table1-test2").roles:
        x_m, y_m, *_, yaw_deg = repeat.values[repeat.actor == role.number][0, :6].tolist()
        middle = observed_of({"x_m": x_m, "y_m": y_m, "yaw_deg": yaw_deg, "vx_mps": 0, "vy_mps": 0}, (-NODE_AHEAD_M, 0.0))
        assert middle[:3] == pytest.approx((role.start.x_m, role.start.y_m, role.start.yaw_deg), abs=0.01)
    assert [request["type"] for (_, request), _ in beamng.log[-2:]] == ["Resume", "StopScenario"]


@needs_client
def test_what_is_told_alike_is_recorded_alike(beamng):
    assert go(beamng).digest == go(beamng).digest


@needs_client
@pytest.mark.parametrize(("unturned", "sense"), [(90.0, 1), (0.0, -1), (-90.0, -1)])
def test_cars_are_aimed_whichever_way_the_program_turns_them(unturned, sense):
    with listening(BeamNGPeer(unturned=unturned, sense=sense)) as peer:
        repeat = go(peer, duration_s=0.05)
    assert repeat.values[:, 5] == pytest.approx([role.start.yaw_deg for role in read_script("table1-test2").roles])


@needs_client
def test_a_program_that_runs_by_itself_is_recorded_as_it_comes():
    loop = {"mode": "game-loop", "frame_rate_hz": 200.0}
    with listening(BeamNGPeer(pace=20.0)) as peer:
        repeats = [go(peer, loop, duration_s=6.0) for _ in range(3)]
    assert [repeat.end.reason for repeat in repeats] == [DURATION] * 3
    assert all(any("resampled" in event.detail for event in repeat.events) for repeat in repeats)
    assert len({repeat.digest for repeat in repeats}) == 3, "what goes by the wall clock is asked at other moments each time"


@needs_client
def test_steps_that_are_not_as_long_as_was_asked_for_are_told_of():
    with (
        listening(BeamNGPeer(clock=2.0)) as peer,
        pytest.raises(SimulatorError, match=r"clock went 0\.1 s in 1 ticks of 0\.05 s"),
    ):
        go(peer)


@needs_client
def test_damage_far_from_the_other_is_a_collision_with_scenery(beamng):
    def dent(tick):
        if tick == 5:
            beamng.dent("car1")

    (hit,) = collisions(go(beamng, on_tick=dent))
    assert (hit.tick, hit.actor, hit.other) == (6, 1, None)


def test_numbers_come_into_our_frame():
    turn = Rotation.from_euler("ZYX", [-30, -10, -5], degrees=True)  # against the clock, nose up, left side down
    told = {"pos": [1, 2, 3], "vel": [4, 5, 6], "dir": turn.apply([1, 0, 0]).tolist(), "up": turn.apply([0, 0, 1]).tolist()}
    state = state_of(told)
    assert [state[name] for name in ("x_m", "y_m", "z_m")] == [1.0, -2.0, 3.0]
    assert [state[name] for name in ("yaw_deg", "pitch_deg", "roll_deg")] == pytest.approx([30.0, 10.0, -5.0])
    assert [state[name] for name in ("vx_mps", "vy_mps", "vz_mps")] == [4.0, -5.0, 6.0]


def test_drivers_see_the_centre_of_gravity():
    told = {"pos": [10.0, 20.0, 0.3], "dir": [0.0, -1.0, 0.0], "up": [0.0, 0.0, 1.0], "vel": [0.0, 0.0, 0.0]}
    offset = offset_of(told, (9.5, 21.0, 0.5))  # a metre behind the node; half a metre to the right, as it looks along -y
    assert offset == pytest.approx((-1.0, 0.5))
    assert observed_of(state_of(told), offset) == pytest.approx(PlanarState(9.5, -21.0, 90.0, 0.0, 0.0))
    assert start_of(Pose2D(9.5, -21.0, 90.0), offset) == Pose2D(*map(pytest.approx, (10.0, -20.0, 90.0)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "realtime"}, "synchronous or game-loop was wanted"),
        ({"steps_per_second": 50}, "a multiple of 20 was wanted"),
        ({"steer_sign": 0}, "1 or -1 was wanted"),
        ({"vehicles": ""}, "a model of BeamNG's was wanted"),
        ({"home": "/opt/beamng", "host": "192.0.2.7"}, "listens at 127.0.0.1 only"),
        ({"level": ""}, "a level of BeamNG's was wanted"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_study_begins(settings, words):
    with pytest.raises(InputError, match=words):
        BeamNG().described(settings)


def test_it_promises_nothing_and_says_that_it_was_not_run_against_the_program():
    info = create("beamng").info()
    assert "not run against the real program" in info.summary
    assert not info.capabilities.deterministic
    assert info.capabilities.lossless
    assert not BeamNG().described({"mode": "game-loop"}).capabilities.lossless


def test_a_missing_client_is_told_in_one_line(monkeypatch):
    for module in ("in_process", "remote"):
        monkeypatch.setattr(f"samepath.engines.{module}.installed_version", lambda package: "")
    assert BeamNG().info().version == "client beamngpy not installed"
    assert BeamNG().unavailable({}) == "beamngpy is not installed: pip install 'samepath[beamng]'"


@needs_client
def test_a_program_that_is_not_there_is_refused_before_the_study_begins(tmp_path):
    port = free_port()
    reason = BeamNG().unavailable({"port": port})
    assert reason.startswith(f"BeamNG.tech does not answer at 127.0.0.1:{port} (Connection refused): start it with -tcom")
    assert "\n" not in reason
    study = f"name: one\ndesign: {{simulators: beamng, scenarios: table1-test2, repeats: 2}}\nsettings: {{port: {port}}}\n"
    with pytest.raises(StudyError, match=r"BeamNG\.tech does not answer at"):
        check_plan(make_plan(study, "one"))
    assert BeamNG().unavailable({"home": str(tmp_path)}).startswith("BeamNG.tech is not installed (")


@needs_client
@leaves_sockets
@pytest.mark.parametrize(
    ("kind", "at", "request_type", "words"),
    [
        ("hang", 6, "Step", r"gave no answer during the run within 5 s: does it hang\? timeout_s sets the limit$"),
        ("hang", 12, "SensorRequest", r"gave no answer during the run within 5 s"),
        ("hang", 2, "Hello", r"gave no answer before the run within 5 s"),
        ("drop", 12, "SensorRequest", r"is gone during the run: The simulator ended the connection\.$"),
        ("garbage", 12, "SensorRequest", r"failed during the run: \w+Error"),
        ("nonsense", 12, "SensorRequest", r"^BeamNG\.tech sent .* was wanted$"),
        ("error", 6, "Step", r"failed during the run: no such vehicle$"),
    ],
)
def test_a_program_that_misbehaves_ends_the_run_with_the_reason(kind, at, request_type, words):
    with listening(BeamNGPeer(fault=Fault(kind, at, request_type))) as peer, pytest.raises(SimulatorError, match=words) as told:
        go(peer, {"timeout_s": 5.0 if kind == "hang" else 20.0})
    assert "\n" not in str(told.value)


@needs_client
def test_another_protocol_is_told_of_in_one_line():
    with listening(BeamNGPeer(protocol="v1.20")) as peer, pytest.raises(SimulatorError, match=r"v1\.27 .*v1\.20$") as told:
        go(peer)
    assert "\n" not in str(told.value)


@pytest.fixture
def home(tmp_path):
    """Make a home with a program in it: the stand-in, or whatever is given; it writes down who it is."""

    def make(body):
        path = tmp_path / "BinLinux" / "BeamNG.tech.x64"
        path.parent.mkdir(exist_ok=True)
        mark = f"import os, runpy, sys, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        path.write_text(f"#!{sys.executable}\n{mark}{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {"home": str(tmp_path), "port": free_port(), **SHORT}

    yield make
    wait_until_gone([int((tmp_path / "pid").read_text())])


def stand_in(fault=""):
    path = SUPPORT / "beamng_peer.py"
    return (
        f"sys.path.insert(0, {str(ROOT)!r})\nsys.argv += ['-fault', {fault!r}]\n"
        f"runpy.run_path({str(path)!r}, run_name='__main__')"
    )


@needs_client
def test_a_program_in_its_home_is_started_for_a_run_and_ended_with_it(home):
    settings = home(stand_in())
    assert BeamNG().unavailable(settings) == ""
    repeat = run_request(BeamNG(), RunRequest("table1-test2", 0, settings=settings, duration_s=0.5))
    assert repeat.end.reason == DURATION


@needs_client
@leaves_sockets
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('no licence')", r"^BeamNG\.tech ended before it listened.*no licence$"),
        ("time.sleep(3600)", r"^BeamNG\.tech does not listen at .* after 5 s"),
        (stand_in("crash:Teleport"), r"^BeamNG\.tech is gone before the run: it .*exit code 3.*Lua stack overflow$"),
        (stand_in("hang:Teleport"), r"^BeamNG\.tech gave no answer before the run within 10 s, and was stopped"),
    ],
)
def test_a_started_program_that_fails_is_told_of_and_nothing_of_it_is_left(home, body, words):
    # The program has to start within these limits, too, and to say who it is, on a busy machine.
    settings = {**home(body), "timeout_s": 10.0 if "no answer" in words else 5.0 if "after 5" in words else 20.0}
    with pytest.raises(SimulatorError, match=words):
        run_request(BeamNG(), RunRequest("table1-test2", 0, settings=settings))


@needs_client
def test_a_port_that_is_taken_is_not_mistaken_for_the_program_that_was_to_be_started(tmp_path, beamng):
    (tmp_path / "BinLinux").mkdir()
    (tmp_path / "BinLinux" / "BeamNG.tech.x64").touch()
    with pytest.raises(SimulatorError, match=r"somebody listens at .* already"):
        go(beamng, {"home": str(tmp_path)})
