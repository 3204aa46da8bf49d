"""AirSim through its published client, against a stand-in that speaks the program's wire format: the program is not here.

What the stand-in answers is written from AirSim's documentation and sources. These tests show that the adapter asks as
documented and copes with what may come; how the program itself behaves they cannot show.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from samepath.core.errors import InputError, SimulatorError, StudyError
from samepath.engines.airsim import AirSim
from samepath.engines.airsim.engine import VehicleHome, homes_of, state_of
from samepath.engines.airsim.simulator import read_settings
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.interface import DURATION, Preset, RunRequest
from samepath.engines.registry import create
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.study.plan import make_plan
from samepath.scenarios.scripts import read_script
from tests.support.airsim_peer import HOMES, AirSimPeer
from tests.support.driven import collisions, free_port
from tests.support.peer_cars import EXCHANGES, Fault, alike, listening
from tests.support.shared_runs import share_runs
from tests.support.write_exchanges import REQUEST, SHORT

MISSING = "" if find_spec("cosysairsim") else "cosysairsim is not installed: pip install 'samepath[airsim]'"
needs_client = pytest.mark.skipif(bool(MISSING), reason=MISSING)
RUNS = {}


def go(peer, settings=None, duration_s=0.5, scenario="table1-test2", on_tick=lambda tick: None):
    simulator = AirSim({"port": peer.port, **SHORT, **(settings or {})})
    return run_request(Preset(simulator, {}), RunRequest(scenario, 0, duration_s=duration_s), on_tick)


@pytest.fixture(scope="module")
def airsim():
    with listening(AirSimPeer()) as peer:
        yield peer


@needs_client
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_airsim_conforms_against_its_stand_in(check, monkeypatch, airsim):
    share_runs(monkeypatch, RUNS, "airsim")
    check(lambda: Preset(AirSim({"port": airsim.port, **SHORT}), {}, ["table1-test2"]))


@needs_client
def test_the_client_asks_for_what_the_exchange_has_and_in_its_order():
    with listening(AirSimPeer(exchange="airsim.json")) as peer:
        repeat = run_request(AirSim({"port": peer.port, **SHORT}), REQUEST)
    assert peer.exchange.wrong == []
    assert peer.exchange.left == 0
    pairs = json.loads((EXCHANGES / "airsim.json").read_text())["exchange"]
    told = [answer for request, answer in pairs if request == ["getCarState", ["Car2"]]]
    last = repeat.values[(repeat.actor == 2) & (repeat.tick == 5)][0]
    place = told[-2]["kinematics_estimated"]["position"]
    assert (repeat.end.tick, repeat.end.reason) == (5, DURATION)
    assert last[0] == HOMES["Car2"][0] + place["x_val"], "32 bits are widened, not rounded"
    assert last[1] == HOMES["Car2"][1] + place["y_val"]
    assert last[2] == -place["z_val"]


@needs_client
def test_another_request_than_the_exchanges_is_noticed():
    with listening(AirSimPeer(exchange="airsim.json")) as peer:
        run_request(AirSim({"port": peer.port, **SHORT, "anchor": "0,0,0"}), REQUEST)
    assert "was wanted, but" in peer.exchange.wrong[0]
    assert not alike({"a": 1.0}, {"a": 1.1})
    assert not alike([1], [1.0])


@needs_client
def test_the_cars_drive_from_their_starts_and_meet(airsim):
    repeat = RUNS["airsim"][0][1] if RUNS else go(airsim, duration_s=None)
    (hit,) = collisions(repeat)
    assert (hit.actor, hit.other, hit.impulse_ns, hit.detail) == (1, 2, None, "the program tells no impulse")
    assert 200 < hit.tick < 300
    for role in read_script("table1-test2").roles:
        first = repeat.values[repeat.actor == role.number][0]
        assert first[:2] == pytest.approx((role.start.x_m, role.start.y_m), abs=0.01)
        assert first[5] == pytest.approx(role.start.yaw_deg, abs=0.1)


@needs_client
def test_the_program_is_left_running_and_its_cars_free(airsim):
    airsim.log.clear()
    go(airsim, duration_s=0.05)
    last = [request for request, _ in airsim.log[-3:]]
    assert last == [["enableApiControl", [False, "Car1"]], ["enableApiControl", [False, "Car2"]], ["simPause", [False]]]


@needs_client
@pytest.mark.parametrize("way", ["time", "frames"])
def test_what_is_told_alike_is_recorded_alike(airsim, way):
    assert go(airsim, {"continue_for": way}).digest == go(airsim, {"continue_for": way}).digest


@needs_client
def test_a_program_that_pauses_late_is_resampled_by_its_own_clock():
    with listening(AirSimPeer(frame_s=0.02)) as peer:  # three frames, 0.06 s, for every 0.05 s that are asked for
        repeat = go(peer, duration_s=6.0)
    bound_m = repeat.values[:, repeat.channels.index("resampling_m")]
    (note,) = [event.detail for event in repeat.events if event.kind == "note"]
    assert np.nanmax(bound_m) > 0
    assert "resampled" in note
    assert "longest gap between frames 0.06 s" in note
    assert repeat.end.tick == 120
    assert repeat.time_s[-1] == pytest.approx(6.0)
    assert not AirSim().info().capabilities.lossless
    assert not AirSim().info().capabilities.deterministic


@needs_client
def test_a_program_that_runs_by_itself_is_recorded_as_it_comes():
    loop = {"mode": "game-loop", "time_scale": 20.0, "frame_rate_hz": 400.0}
    with listening(AirSimPeer(settings={"ClockSpeed": 20.0, "ClockType": ""})) as peer:
        repeats = [go(peer, loop, duration_s=6.0) for _ in range(3)]
    assert [repeat.end.reason for repeat in repeats] == [DURATION] * 3
    assert len({repeat.digest for repeat in repeats}) == 3, "what goes by the wall clock is asked at other moments each time"


@needs_client
def test_touching_scenery_is_a_collision_with_its_name_and_what_touched_before_is_none(airsim):
    airsim.touch("Car2", "Kerb")

    def touch(tick):
        if tick == 5:
            airsim.touch("Car1", "Cone_7")

    (hit,) = collisions(go(airsim, on_tick=touch))
    assert (hit.actor, hit.other, hit.detail) == (1, None, "Cone_7; the program tells no impulse")
    assert 5 <= hit.tick <= 7


@needs_client
def test_the_client_leaves_the_path_of_modules_alone():
    words = "import sys; before = list(sys.path); from samepath.engines.airsim.engine import _imported; _imported()"
    subprocess.run([sys.executable, "-P", "-c", f"{words}; assert sys.path == before"], check=True)


@needs_client
def test_an_anchor_moves_the_whole_scenario(airsim):
    repeat = go(airsim, {"anchor": "10, 20, 90"})
    assert repeat.values[0, [0, 1, 5]] == pytest.approx((10.0, 20.0, 90.0), abs=0.01)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"SimMode": "Multirotor"}, '"SimMode": "Car" was wanted'),
        ({"ClockType": ""}, '"SteppableClock" was wanted'),
        ({"ClockSpeed": 2.0}, "ClockSpeed is 2, but time_scale is 1"),
        ({"Vehicles": {"Car1": {}}}, "a vehicle Car2 was wanted, but it has Car1"),
        ({"Vehicles": ["Car1"]}, "cannot be read"),
    ],
)
def test_settings_json_that_a_study_cannot_be_run_with_is_refused(found, words):
    good = {"SimMode": "Car", "ClockType": "SteppableClock", "Vehicles": {"Car1": {}, "Car2": {"X": 3}}}
    settings, script = read_settings(AirSim().info().settings), read_script("table1-test2")
    assert homes_of(script, settings, json.dumps(good))[2] == VehicleHome("Car2", 3.0, 0.0)
    with pytest.raises(SimulatorError, match=words):
        homes_of(script, settings, json.dumps({**good, **found}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "synchronus"}, "did you mean synchronous"),
        ({"vehicles": "Car1, Car1"}, "vehicles: distinct names"),
        ({"continue_for": "steps"}, "time or frames was wanted"),
        ({"timeout_s": 0.5}, "timeout_s: a number from 1 "),
        ({"anchor": "here"}, "anchor: x,y,yaw"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_study_begins(settings, words):
    with pytest.raises(InputError, match=words):
        AirSim().described(settings)


def test_numbers_come_into_our_frame():
    turn = Rotation.from_euler("ZYX", [30, 10, -5], degrees=True)  # yaw, pitch and roll as NED has them
    x, y, z, w = turn.as_quat()
    state = state_of(VehicleHome("Car1", 100.0, 200.0), (1.0, 2.0, -3.0), (w, x, y, z), (4.0, 5.0, 6.0))
    assert [state[name] for name in ("x_m", "y_m", "z_m")] == [101.0, 202.0, 3.0]
    assert [state[name] for name in ("yaw_deg", "pitch_deg", "roll_deg")] == pytest.approx([30.0, 10.0, -5.0])
    assert [state[name] for name in ("vx_mps", "vy_mps", "vz_mps")] == [4.0, 5.0, -6.0]


def test_it_says_of_itself_that_it_was_not_run_against_the_program():
    assert "not run against the real program" in create("airsim").info().summary


def set_version(monkeypatch, version):
    """Let the client seem to be installed in a version, or not at all."""
    for module in ("in_process", "remote"):
        monkeypatch.setattr(f"samepath.engines.{module}.installed_version", lambda package: version)


def test_a_missing_client_is_told_in_one_line(monkeypatch):
    set_version(monkeypatch, "")
    assert AirSim().info().version == "client cosysairsim not installed"
    assert AirSim().unavailable({}) == "cosysairsim is not installed: pip install 'samepath[airsim]'"
    set_version(monkeypatch, "2.9")
    assert AirSim().unavailable({}).startswith("cosysairsim 3.0 or newer was wanted, but 2.9 is installed")


@needs_client
def test_a_program_that_is_not_there_is_refused_before_the_study_begins():
    port = free_port()
    reason = AirSim().unavailable({"port": port})
    assert reason.startswith(f"AirSim does not answer at 127.0.0.1:{port} (Connection refused): start AirSim in car mode")
    assert "\n" not in reason
    study = f"name: one\ndesign: {{simulators: airsim, scenarios: table1-test2, repeats: 2}}\nsettings: {{port: {port}}}\n"
    with pytest.raises(StudyError, match="AirSim does not answer at"):
        check_plan(make_plan(study, "one"))


def reason_of(kind):
    """Let something go wrong at the eighth state, and return what the run ended with."""
    with listening(AirSimPeer(fault=Fault(kind, 8, "getCarState"))) as peer, pytest.raises(SimulatorError) as told:
        # A machine that does not run the peer for seconds must not look like one that hangs.
        go(peer, {"timeout_s": 20.0 if kind in ("nonsense", "error") else 5.0})
    return str(told.value)


@needs_client
def test_a_program_that_misbehaves_ends_the_run_with_the_reason(capfd):
    wanted = {
        "hang": r"gave no answer that can be read during the run within 5 s: does it hang\? timeout_s sets the limit$",
        "drop": r"gave no answer that can be read during the run within 5 s",
        "gone": r"is gone during the run: it gave no answer, and nobody listens there any more$",
        "garbage": r"gave no answer that can be read during the run within 5 s",
        "nonsense": r"^AirSim sent 'nonsense' where the state of a car was wanted$",
        "error": r"failed during the run: rpclib: function 'getCarState' threw an exception$",
    }
    with ThreadPoolExecutor() as pool:  # side by side: the client's time-outs take seconds
        for kind, reason in zip(wanted, pool.map(reason_of, wanted), strict=True):
            assert re.search(wanted[kind], reason), (kind, reason)
            assert "\n" not in reason
    assert "Traceback" not in capfd.readouterr().err


@needs_client
def test_a_program_that_wants_a_newer_client_or_lacks_the_level_is_refused():
    with listening(AirSimPeer(version=9)) as peer, pytest.raises(SimulatorError, match="wants a client of version 9"):
        go(peer)
    with listening(AirSimPeer()) as peer, pytest.raises(SimulatorError, match="could not load the level Moon"):
        go(peer, {"level": "Moon"})


@needs_client
def test_a_program_whose_clock_stands_still_is_told_of():
    with (
        listening(AirSimPeer(frame_s=3600.0)) as peer,
        pytest.raises(SimulatorError, match="stood still for 5 s: is it paused"),
    ):
        go(peer, {"mode": "game-loop", "timeout_s": 5.0, "settle_s": 0.0})
