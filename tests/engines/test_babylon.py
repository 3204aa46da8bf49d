"""Babylon.js: what is refused before it is started, what a misbehaving one leads to, and what the real one does."""

import base64
import json
import stat
import struct
import sys

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError, StudyError
from samepath.engines.babylon import Babylon
from samepath.engines.babylon.engine import PROJECT, BabylonReader, pinned
from samepath.engines.babylon.simulator import CHANNELS, RESAMPLED_CHANNELS
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.interface import DURATION, Preset, RunRequest
from samepath.engines.subprocess.project import GREETING, ProjectEnd, ReceivedStates, SubprocessContact
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.study.plan import load_plan
from samepath.scenarios.scripts import read_script
from tests.support.driven import check_arrivals, columns_of
from tests.support.odd_engines import check_misbehaviour, check_pedestrians_are_refused
from tests.support.processes_left import broken_off
from tests.support.shared_runs import share_runs

MISSING = Babylon().unavailable({})
needs_babylon = pytest.mark.skipif(bool(MISSING), reason=MISSING)
QUICK = {"time_scale": 4}
LOCKSTEP = {"mode": "lockstep", **QUICK}
DEFAULTS = {"mode": "defaults", **QUICK}


def go(settings=None, duration_s=None, scenario="table1-test2", on_tick=lambda tick: None):
    return run_request(Babylon(settings or {}), RunRequest(scenario, 0, duration_s=duration_s), on_tick)


@pytest.fixture
def engine(tmp_path):
    """Make a Node that tells a version and otherwise does what it is made of, and modules that tell theirs."""

    def make(body="", node="v20.0.0", **versions):
        path = tmp_path / "node"
        text = f"import os, signal, sys, time\nif '--version' in sys.argv: print({node!r}); sys.exit()\n"
        hello = f"print('a banner', flush=True); print({GREETING.decode()!r}, flush=True)\n"
        path.write_text(f"#!{sys.executable} -IS\n{text}{hello}{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        for package, version in pinned().items():
            folder = tmp_path / "modules" / "node_modules" / package
            folder.mkdir(parents=True, exist_ok=True)
            told = {"version": versions.get(package.split("/")[1], version)}
            (folder / "package.json").write_text(json.dumps(told))
        return {"program": str(path), "modules": str(tmp_path / "modules")}

    return make


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "lock-step"}, "did you mean lockstep"),
        ({"controller": "external"}, "physics or frame was wanted"),
        ({"mode": "lockstep", "time_scale": 8}, "time_scale: a number from 1 to 4"),
        ({"mode": "lockstep", "time_scale": 3}, "1, 2 or 4 was wanted, but 3 came"),
        ({"time_scale": 2}, "take 1, or mode defaults or lockstep"),
        ({"settle_s": -1}, "settle_s: a number from 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_study_begins(settings, words):
    with pytest.raises(InputError, match=words):
        Babylon().described(settings)


def test_only_synchronous_promises_bits_and_only_the_defaults_are_resampled():
    told = {mode: Babylon().described({"mode": mode}) for mode in ("synchronous", "lockstep", "defaults")}
    assert [info.capabilities.deterministic for info in told.values()] == [True, False, False]
    assert [info.capabilities.lossless for info in told.values()] == [True, True, False]
    assert ["resampling_m" in info.channels for info in told.values()] == [False, False, True]


def test_missing_modules_are_told_in_one_line_and_break_no_description(monkeypatch, engine, tmp_path):
    monkeypatch.setenv("SAMEPATH_BABYLON", str(tmp_path / "nowhere"))
    program = {"program": engine()["program"]}
    assert Babylon(program).info().version == "not installed"
    reason = Babylon(program).unavailable({})
    assert reason.startswith("Babylon.js is not installed (no @babylonjs/core in ")
    assert f"npm install --prefix {tmp_path / 'nowhere'} @babylonjs/core@9." in reason
    assert "\n" not in reason
    with pytest.raises(SimulatorError, match="is not installed"):
        go(program)


def test_a_missing_node_is_told_and_a_study_is_refused_before_it_begins(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Babylon().unavailable({}).startswith("Node.js is not installed (nodejs was not found): apt-get install nodejs npm")
    with pytest.raises(StudyError, match=r"^cell 'engine defaults, cpu_load 0 %': Node.js is not installed"):
        check_plan(load_plan("lockstep-cure"))


def test_the_usual_folder_is_in_the_users_data(monkeypatch, engine, tmp_path):
    monkeypatch.delenv("SAMEPATH_BABYLON", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert f"--prefix {tmp_path / 'samepath' / 'babylon'} " in Babylon().unavailable({"program": engine()["program"]})


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"node": "v16.20.2"}, "Node.js 18 or newer was wanted, but '16.20.2' came"),
        ({"node": "hello"}, "Node.js 18 or newer was wanted, but 'hello' came"),
        ({"core": "8.1.0"}, "Babylon.js 9 was wanted, but '8.1.0' came: npm install"),
        ({"havok": "1.2.1"}, "Havok 1.3 was wanted, but '1.2.1' came: npm install"),
    ],
)
def test_another_version_is_refused(engine, versions, words):
    settings = engine(**versions)
    assert words in Babylon().unavailable(settings)
    with pytest.raises(SimulatorError, match=words):
        go(settings)


def test_modules_that_are_broken_are_told_of(engine, tmp_path):
    settings = engine()
    (tmp_path / "modules" / "node_modules" / "@babylonjs" / "havok" / "package.json").write_text("{")
    assert Babylon().unavailable(settings).startswith("Havok: ")


def test_the_version_is_that_of_all_three(engine):
    settings = engine(core="9.0.1", havok="1.3.0")
    assert Babylon().unavailable(settings) == ""
    assert Babylon().described(settings).version == "9.0.1 (Havok 1.3.0, Node.js 20.0.0)"


def test_pedestrians_are_refused_by_name(tmp_path, engine):
    check_pedestrians_are_refused(go, engine(), tmp_path)


STILL = (0.0,) * 6 + (1.0,) + (0.0,) * 9


def state(steps, time_s, *cars):
    return b"S " + base64.b64encode(struct.pack("<2d", steps, time_s) + b"".join(struct.pack("<16d", *car) for car in cars))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("time.sleep(3600)", r"^Babylon\.js wrote nothing for 5 s, and was stopped"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"^Babylon\.js was ended by signal 11"),
        ("print('Uncaught TypeError', flush=True); time.sleep(9)", r"^Babylon\.js wrote b'Uncaught TypeError' where"),
        ("sys.stderr.write('heap out of memory\\n'); sys.exit(134)", r"exit code 134; its last words: heap out of memory$"),
        ("print('E over 0')", r"^Babylon\.js ended the run before its first tick$"),
        ("sys.exit(0)", r"^Babylon\.js ended before the run did$"),
        (f"print({state(6, 0.1, STILL, STILL).decode()!r})", r"a state of step 6 where step 3, which is tick 1, was wanted$"),
        (f"print({state(3, 0.05, STILL).decode()!r})", r"where a state, a contact or the end was wanted$"),
        (f"print({state(3, 0.05, STILL, STILL).decode()!r}); print('E over 2')", r"at tick 2, but had written 1$"),
        (
            f"print({state(3, 0.05, STILL, STILL).decode()!r}); print('E over 1', flush=True)\n"
            "if os.fork() == 0: time.sleep(3600)\nos._exit(0)",
            r"^Babylon\.js left a process running when it ended \(.*\): killed$",
        ),
    ],
)
def test_a_node_that_misbehaves_is_told_of_and_nothing_of_it_is_left(engine, tmp_path, monkeypatch, body, words):
    check_misbehaviour(go, engine, "samepath-babylon", tmp_path, monkeypatch, body, words)


def first_car(reader, channels):
    return [dict(zip(channels, cars[0], strict=True)) for cars in reader.values().tolist()]


def test_numbers_come_into_our_units_unrounded():
    roles = read_script("table1-test2").roles
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    half = 0.5**0.5
    # Looks along y: turned by 90 degrees about the axis that points up.
    car = (tenth, 2.0, 1.0, 0, 0, half, half, 0, tenth, 0, 0, 0, 1.0, 0.1, -0.2, 0.3)
    # Nose up by 45 degrees, and leaning to the right by 45 degrees, each about its own axis.
    climbing = (0.0, 0.0, 1.0, 0, -np.sin(np.pi / 8), 0, np.cos(np.pi / 8), *STILL[7:])
    leaning = (0.0, 0.0, 1.0, -np.sin(np.pi / 8), 0, 0, np.cos(np.pi / 8), *STILL[7:])
    reader = BabylonReader(roles, variable_step=False)
    for tick, pose in enumerate((car, climbing, leaning), 1):
        assert reader.read(state(3 * tick, 0.05 * tick, pose, STILL)) == ReceivedStates((tick,))
    row, up, over = first_car(reader, CHANNELS)
    assert (row["x_m"], row["y_m"], row["vy_mps"]) == (tenth, 2.0, tenth)
    assert row["z_m"] == pytest.approx(1.0 - 0.38 * roles[0].body.height_m)
    assert [row[name] for name in ("yaw_deg", "pitch_deg", "roll_deg")] == pytest.approx([90.0, 0.0, 0.0])
    assert row["wz_degps"] == pytest.approx(57.29578), "to the right, yaw rises"
    assert (row["throttle_ratio"], row["steer_ratio"], row["brake_ratio"]) == (0.1, -0.2, 0.3)
    assert (up["pitch_deg"], over["roll_deg"]) == (pytest.approx(45.0), pytest.approx(45.0))


def test_frames_of_any_length_become_ticks_with_a_bound_and_commands_of_the_frame_that_reaches_them():
    reader = BabylonReader(read_script("table1-test2").roles, variable_step=True)
    # A car at 10 m/s along x; in the middle of the last frames it is stopped dead.
    frames = [(0.0, 0.0), (0.04, 0.4), (0.08, 0.8), (0.14, 1.4), (0.16, 1.4)]
    for step, (time_s, x_m) in enumerate(frames):
        told = reader.read(state(step, time_s, (x_m, *STILL[1:13], step, 0.0, 0.0), STILL))
    assert told == ReceivedStates((3,))
    ticks = first_car(reader, RESAMPLED_CHANNELS)
    assert [row["x_m"] for row in ticks] == pytest.approx([0.5, 1.0, 1.4])
    assert [row["throttle_ratio"] for row in ticks] == [2, 3, 4]
    assert ticks[0]["resampling_m"] == pytest.approx(0.0, abs=1e-9)
    assert ticks[1]["resampling_m"] == pytest.approx(10 * 0.06 / 4)
    assert "at most 0.2 m off (tick 3, actor 1); longest gap between frames 0.06 s" in reader.note, "nothing after the last gap"
    with pytest.raises(SimulatorError, match=r"at 0\.1 s after one at 0\.16 s"):
        reader.read(state(5, 0.1, STILL, STILL))


def test_a_state_that_is_no_number_is_told_of():
    reader = BabylonReader(read_script("table1-test2").roles, variable_step=False)
    for tick, x_m in ((1, 0.0), (2, float("nan"))):
        reader.read(state(3 * tick, 0.05 * tick, STILL, (x_m, *STILL[1:])))
    with pytest.raises(SimulatorError, match=r"at 0\.100 s that is not a number"):
        reader.values()


def test_contacts_fall_on_the_tick_that_their_step_or_their_time_belongs_to():
    roles = read_script("table1-test2").roles
    line = b"C " + base64.b64encode(struct.pack("<7d", 7, 0.16, 1, -1, 1.0, 2.0, 3.0))
    assert BabylonReader(roles, variable_step=False).read(line) == SubprocessContact(3, 1, None, (1.0, 2.0, 3.0))
    assert BabylonReader(roles, variable_step=True).read(line) == SubprocessContact(4, 1, None, (1.0, 2.0, 3.0))
    assert BabylonReader(roles, variable_step=True).read(b"E arrived 7") == ProjectEnd(
        "every actor reached its last waypoint", 7
    )
    stranger = b"C " + base64.b64encode(struct.pack("<7d", 7, 0.16, 9, -1, 1.0, 2.0, 3.0))
    with pytest.raises(SimulatorError, match="where a state, a contact or the end was wanted"):
        BabylonReader(roles, variable_step=False).read(stranger)


@pytest.fixture(scope="module")
def whole():
    """One run from its start to its end, for all who only look at it."""
    return go()


@needs_babylon
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_synchronous_conforms(monkeypatch, whole, check):
    share_runs(monkeypatch, {"babylon": (("table1-test2", whole, 0),)}, "babylon")
    check(lambda: Preset(Babylon(), {}, ["table1-test2"]))


@needs_babylon
def test_everybody_drives_along_the_path_and_arrives():
    run = go(scenario="table1-test1")
    check_arrivals(run, "table1-test1", Babylon().info().step_s)
    for role in read_script("table1-test1").roles:
        (z_m,) = columns_of(run, role, "z_m")
        assert np.abs(z_m).max() < 0.02, "on the ground"


@needs_babylon
def test_cars_collide_and_push_each_other_apart(whole):
    run = whole
    (hit,) = [event for event in run.events if event.kind == "collision"]
    assert (hit.actor, hit.other) == (1, 2)
    columns = [run.channels.index(name) for name in ("vx_mps", "vy_mps")]
    before, after = (run.values[(run.actor == 1) & (run.tick == tick)][0, columns] for tick in (hit.tick - 1, hit.tick + 1))
    push_ns = np.array(hit.impulse_ns[:2])
    change_ns = 1600 * (after - before)
    assert push_ns @ change_ns > 0.8 * np.linalg.norm(push_ns) * np.linalg.norm(change_ns), "as the first car felt it"
    assert 0 < np.linalg.norm(push_ns) < 1.5 * np.linalg.norm(change_ns)


@needs_babylon
def test_scenery_is_hit_and_named_as_nobody(tmp_path):
    scenario = tmp_path / "wall.yaml"
    scenario.write_text(
        "name: wall\nmap: t-junction\nduration: 6 s\nend: first-collision\n"
        "actors:\n  - {id: 1, type: vehicle.tesla.model3, path: [[-60, -23.1], [-30, -11.1]], speed: 8}\n"
        "boxes:\n  - {name: wall, at: [-45, -17.1], size: [1, 6, 2]}\n"
    )
    run = go(scenario=str(scenario))
    (hit,) = [event for event in run.events if event.kind == "collision"]
    assert (hit.actor, hit.other, run.end.reason) == (1, None, "first collision")
    assert run.end.tick == hit.tick
    assert hit.impulse_ns[0] < -1000, "pushed back"


@needs_babylon
def test_lockstep_with_controllers_in_the_step_has_the_bits_of_synchronous():
    duration_s = 3.0
    assert go(LOCKSTEP, duration_s).digest == go({}, duration_s).digest


@needs_babylon
def test_controllers_in_the_frame_drive_too_and_say_how_frames_fell():
    for _ in range(3):  # in a frame that comes late, as it does on a busy machine, nobody steers for many steps
        run = go({**LOCKSTEP, "controller": "frame"}, 2.0)
        if went_m(run)[1] > 3:
            break
    assert (run.end.tick, run.end.reason) == (40, DURATION)
    (told,) = [event.detail for event in run.events if event.kind == "frames"]
    assert "physics steps in one" in told
    assert_second_has_set_off(run)


@needs_babylon
@pytest.mark.parametrize("controller", ["physics", "frame"])
def test_the_engines_defaults_are_resampled_openly(controller):
    for _ in range(3):  # two seconds are half of one here: on a busy machine they may be a single frame
        run = go({**DEFAULTS, "controller": controller}, 2.0)
        bound_m = run.values[:, run.channels.index("resampling_m")]
        if bound_m.max() < 0.2 and went_m(run)[1] > 3:
            break
    assert (run.end.tick, run.end.reason) == (40, DURATION)
    assert sorted(set(run.tick.tolist())) == list(range(1, 41))
    (note,) = [event for event in run.events if event.kind == "note"]
    assert note.detail.startswith("resampled from the engine's frames")
    assert note.tick == 40, "at the end: what differs first between repeats is a state"
    assert 0 < bound_m.max() < 0.2
    assert_second_has_set_off(run)


def went_m(run):
    """How far both cars are from where they were."""
    places = [run.values[run.actor == number][:, :2] for number in (1, 2)]
    return [np.hypot(*(place[-1] - place[0])) for place in places]


def assert_second_has_set_off(run):
    first_m, second_m = went_m(run)
    assert second_m > 3
    assert first_m < 0.1, "the first one waits"


@needs_babylon
def test_nothing_is_left_of_a_run_that_is_broken_off():
    seen = broken_off(lambda on_tick: go(DEFAULTS, on_tick=on_tick))
    assert len(seen) >= 2, "Node and its supervisor"
    assert not [process for process in seen if process.is_running()]


@needs_babylon
def test_modules_that_cannot_be_loaded_fail_the_run_with_their_own_words(engine):
    settings = {"modules": engine()["modules"]}
    with pytest.raises(SimulatorError, match=r"exit code 4; its last words: samepath: .* cannot be loaded: .*nullEngine\.js"):
        go(settings)


def test_the_project_is_part_of_the_package():
    assert {path.name for path in PROJECT.iterdir()} >= {"package.json", "main.js", "world.js", "car.js", "driver.js"}
