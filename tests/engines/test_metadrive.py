"""MetaDrive: what is refused before it is started, what a misbehaving one leads to, and what the real one does."""

import base64
import stat
import struct
import sys
from importlib import import_module

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError
from samepath.core.trig import sincos_deg
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.interface import DURATION, Preset, RunRequest
from samepath.engines.metadrive import MetaDrive
from samepath.engines.metadrive.engine import PROJECT
from samepath.engines.subprocess.project import CAR, CHANNELS, rows
from samepath.scenarios.scripts import PlanarState, controller_of, document, read_script, scripted_chassis
from tests.support.driven import check_arrivals, columns_of
from tests.support.odd_engines import check_misbehaviour, check_pedestrians_are_refused
from tests.support.processes_left import broken_off
from tests.support.shared_runs import share_runs

MISSING = MetaDrive().unavailable({})
needs_metadrive = pytest.mark.skipif(bool(MISSING), reason=MISSING)
LOOP = {"mode": "game-loop", "time_scale": 8}


def go(settings=None, duration_s=None, scenario="table1-test2", on_tick=lambda tick: None):
    return run_request(MetaDrive(), RunRequest(scenario, 0, settings=settings or {}, duration_s=duration_s), on_tick)


@pytest.fixture
def python(tmp_path):
    """Make what looks like MetaDrive's python: it tells versions, and otherwise does what it is made of."""

    def make(body="", version="0.3.0.1 with Panda3D 1.10.13 in Python 3.11.7"):
        path = tmp_path / "python"
        text = f"import os, signal, sys, time\nif '-c' in sys.argv: print({version!r}, flush=True); os._exit(0)\n"
        path.write_text(f"#!{sys.executable} -IS\n{text}print('samepath 1', flush=True)\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "synchronus"}, "did you mean synchronous"),
        ({"time_scale": 2}, "take 1, or mode game-loop"),
        ({"mode": "game-loop", "time_scale": 0}, "time_scale: a number from 0.01"),
        ({"max_steps": 0.5}, "max_steps: a whole number from 1"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_study_begins(settings, words):
    with pytest.raises(InputError, match=words):
        MetaDrive().described(settings)


def test_only_synchronous_promises_bits():
    assert MetaDrive().info().capabilities.deterministic
    assert not MetaDrive().described(LOOP).capabilities.deterministic


@pytest.mark.parametrize(
    ("variable", "words"),
    [("", "/nowhere/samepath/metadrive/bin/python was not found"), ("/nowhere/python", "/nowhere/python was not found")],
)
def test_a_missing_metadrive_is_told_in_one_line_and_breaks_no_description(monkeypatch, variable, words):
    monkeypatch.setenv("XDG_DATA_HOME", "/nowhere")
    monkeypatch.setenv("SAMEPATH_METADRIVE", variable)
    assert MetaDrive().info().version == "not installed"
    reason = MetaDrive().unavailable({})
    assert reason.startswith(f"MetaDrive is not installed ({words}): make it an environment of its own")
    assert "\n" not in reason
    with pytest.raises(SimulatorError, match="is not installed"):
        go()


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.4.3 with Panda3D 1.10.14 in Python 3.12.1", "MetaDrive 0.3.0.1 was wanted, but 0.4.3 came"),
        ("none: No package metadata", "has no package metadrive-simulator"),
        ("", "but nothing came"),
    ],
)
def test_another_metadrive_is_refused(python, version, words):
    path = python(version=version)
    assert words in MetaDrive().unavailable({"python": path})
    with pytest.raises(SimulatorError, match=words):
        go({"python": path})


def test_a_python_without_metadrive_is_refused():
    assert "has no package metadrive-simulator" in MetaDrive().unavailable({"python": sys.executable})


def test_pedestrians_are_refused_by_name(tmp_path, python):
    check_pedestrians_are_refused(go, {"python": python()}, tmp_path)


def state(step, *cars):
    return "S " + base64.b64encode(struct.pack("<I", step) + b"".join(struct.pack("<18f3d", *car) for car in cars)).decode()


STILL = (0.0,) * 3 + (1.0, 0, 0, 0, 0, 1, 0, -1, 0) + (0.0,) * 9


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("time.sleep(3600)", r"^MetaDrive wrote nothing for 5 s, and was stopped"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"^MetaDrive was ended by signal 11|^MetaDrive ended .*signal 11"),
        ("print('Known pipe types:', flush=True); time.sleep(9)", r"^MetaDrive wrote b'Known pipe types:' where"),
        ("sys.stderr.write('KeyError: lanes\\n'); sys.exit(1)", r"exit code 1; its last words: KeyError: lanes$"),
        ("sys.exit(0)", r"^MetaDrive ended before the run did$"),
        (f"print({state(10, STILL, STILL)!r})", r"^MetaDrive wrote tick 2 where tick 1 was wanted$"),
        (
            f"print({state(5, STILL, STILL)!r}); print('E over', flush=True)\nif os.fork() == 0: time.sleep(3600)\nos._exit(0)",
            r"^MetaDrive left a process running when it ended \(.*\): killed$",
        ),
    ],
)
def test_a_metadrive_that_misbehaves_is_told_of_and_nothing_of_it_is_left(python, tmp_path, monkeypatch, body, words):
    check_misbehaviour(go, lambda text: {"python": python(text)}, "samepath-metadrive", tmp_path, monkeypatch, body, words)


def test_numbers_come_into_our_frame_unrounded():
    tenth, half = (struct.unpack("<f", struct.pack("<f", value))[0] for value in (0.1, 0.5**0.5))
    # The car looks along y and climbs 45 degrees.
    car = (tenth, 2.0, 1.0, 0, half, half, 0, -half, half, 1, 0, 0, 0, tenth, 0, 0, 0, 1.0, 0.1, -0.2, 0.3)
    told = np.frombuffer(struct.pack("<18f3d", *car), CAR).reshape(1, 1)
    row = dict(zip(CHANNELS, rows(told)[0, 0].tolist(), strict=True))
    assert (row["x_m"], row["y_m"], row["z_m"], row["vy_mps"]) == (tenth, 2.0, 1.0, tenth), "32 bits are widened, not rounded"
    assert (row["yaw_deg"], row["pitch_deg"], row["roll_deg"]) == (90.0, pytest.approx(45.0), 0.0)
    assert row["wz_degps"] == pytest.approx(-57.29578), "to the left in MetaDrive is against the clock, yaw falls"
    assert (row["throttle_ratio"], row["steer_ratio"], row["brake_ratio"]) == (0.1, -0.2, 0.3)


def test_the_projects_driver_drives_as_ours_does(monkeypatch):
    """The law is written down twice, here and there: both are asked along a drive with errors, from the start to the end."""
    monkeypatch.syspath_prepend(str(PROJECT))
    there = import_module("samepath_metadrive.driver")
    script = read_script("table1-test2")
    for role, actor in zip(script.roles, document(script)["actors"], strict=True):
        chassis = scripted_chassis(role)
        ours = controller_of(role, scripted_chassis, 0.05)
        theirs = there.PathDriver(actor, there.Chassis(chassis.wheel_base_m, chassis.rear_m, chassis.max_steer_deg), 0.05)
        points = actor["track"]
        for tick in range(600):
            time_s = tick * 0.05
            at = min(max(0, int((time_s - role.start_s) * 50)), len(points) - 1)
            near = points[max(at - 1, 0)]
            heading = np.degrees(np.arctan2(points[at][1] - near[1], points[at][0] - near[0])) if at else role.start.yaw_deg
            yaw_deg = float(heading + 5 * np.sin(tick / 7))
            speed_mps = 0.0 if at == len(points) - 1 else 5.0 + np.cos(tick / 11)
            sine, cosine = sincos_deg(yaw_deg)
            x_m, y_m = points[at][0] + 0.3 * np.sin(tick / 5), points[at][1]
            command = ours.decide(PlanarState(x_m, y_m, yaw_deg, speed_mps * cosine, speed_mps * sine), time_s)
            answer = theirs.step(there.Observation(x_m, y_m, cosine, sine, speed_mps), time_s)
            wanted = (command.throttle, command.steer, command.brake)
            assert answer == pytest.approx(wanted, abs=1e-9), f"actor {role.number} at tick {tick}"
        assert theirs.stopped
        assert ours.finished


@pytest.fixture(scope="module")
def runs():
    """Return one whole run, which serves all that only look at it."""
    return {"metadrive": (("table1-test2", go(), 0),)}


@needs_metadrive
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_synchronous_conforms(monkeypatch, runs, check):
    share_runs(monkeypatch, runs, "metadrive")
    check(lambda: Preset(MetaDrive(), {}, ["table1-test2"]))


@needs_metadrive
def test_everybody_drives_along_the_path_and_arrives():
    run = go(scenario="table1-test1")
    check_arrivals(run, "table1-test1", MetaDrive().info().step_s, speed_ratio=0.1, moved_mps=0.3, course_deg=15.0)
    for role in read_script("table1-test1").roles:
        x_m, y_m, z_m = columns_of(run, role, "x_m", "y_m", "z_m")
        assert np.hypot(x_m[0] - role.start.x_m, y_m[0] - role.start.y_m) < 0.05
        assert np.ptp(z_m) < 0.05, "on the ground"


@needs_metadrive
def test_cars_collide_and_push_each_other_apart(runs):
    run = runs["metadrive"][0][1]
    (hit,) = [event for event in run.events if event.kind == "collision"]
    assert (hit.actor, hit.other) == (1, 2)
    columns = [run.channels.index(name) for name in ("vx_mps", "vy_mps")]
    before, after = (run.values[(run.actor == 1) & (run.tick == tick)][0, columns] for tick in (hit.tick - 1, hit.tick + 1))
    push_ns = np.array(hit.impulse_ns[:2])
    change_ns = 1100 * (after - before)
    assert push_ns @ change_ns > 0.7 * np.linalg.norm(push_ns) * np.linalg.norm(change_ns), "as the first car felt it"
    assert 0 < np.linalg.norm(push_ns) < 1.5 * np.linalg.norm(change_ns)


@needs_metadrive
def test_in_the_game_loop_cars_drive_too_and_how_frames_fell_is_told():
    # In a frame that comes late, as it does on a busy machine, the first car rolls before anybody has told it to wait.
    for _ in range(3):
        run = go(LOOP, 2.0)
        assert (run.end.tick, run.end.reason) == (40, DURATION)
        (told,) = [event.detail for event in run.events if event.kind == "frames"]
        assert "physics steps in one" in told
        first, second = (run.values[run.actor == number] for number in (1, 2))
        went_m = [np.hypot(*(values[-1, :2] - values[0, :2])) for values in (first, second)]
        if went_m[0] < 0.1 and went_m[1] > 1:
            break
    assert went_m[0] < 0.1, "the first one waits"
    assert went_m[1] > 1, "the second car has set off"


@needs_metadrive
def test_nothing_is_left_of_a_run_that_is_broken_off():
    seen = broken_off(lambda on_tick: go(LOOP, on_tick=on_tick))
    assert len(seen) >= 2, "MetaDrive and its supervisor"
    assert not [process for process in seen if process.is_running()]


def test_the_project_is_part_of_the_package_and_imports_nothing_of_ours():
    folder = PROJECT / "samepath_metadrive"
    assert {path.name for path in folder.glob("*.py")} == {"__init__.py", "driver.py", "run.py"}
    assert (PROJECT / "requirements.txt").exists()
    for path in folder.glob("*.py"):
        assert "import samepath" not in path.read_text("utf-8")
        assert "from samepath" not in path.read_text("utf-8")
