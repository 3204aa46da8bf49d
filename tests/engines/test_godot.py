"""Godot: what is refused before it is started, what a misbehaving one leads to, and what the real one does."""

import base64
import stat
import struct
import sys

import numpy as np
import psutil
import pytest

from samepath.core.errors import InputError, SimulatorError, StudyError
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.godot import Godot
from samepath.engines.godot.engine import PROJECT, reader_of, states
from samepath.engines.godot.external import HELLO, Controllers
from samepath.engines.interface import DURATION, Preset, RunRequest
from samepath.engines.subprocess.project import CHANNELS, GREETING
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.study.plan import load_plan
from samepath.scenarios.scripts import read_script
from tests.support.driven import check_arrivals, columns_of
from tests.support.odd_engines import check_misbehaviour, check_pedestrians_are_refused
from tests.support.processes_left import broken_off, children
from tests.support.serve_processes import until
from tests.support.shared_runs import share_runs

MISSING = Godot().unavailable({})
needs_godot = pytest.mark.skipif(bool(MISSING), reason=MISSING)
DRAWN = {"rendering": "gles2"}
DRAWS_NOT = Godot().unavailable(DRAWN)
needs_drawing = pytest.mark.skipif(bool(DRAWS_NOT or MISSING), reason=DRAWS_NOT or MISSING)
LOOP = {"mode": "game-loop", "time_scale": 8}


def go(settings=None, duration_s=None, scenario="table1-test2", on_tick=lambda tick: None):
    return run_request(Godot(), RunRequest(scenario, 0, settings=settings or {}, duration_s=duration_s), on_tick)


@pytest.fixture
def program(tmp_path):
    """Make a program that tells a version, and otherwise does what it is made of."""

    def make(body, version="3.2.3.stable"):
        path = tmp_path / "godot"
        text = f"import os, signal, sys, time\nif '--version' in sys.argv: print({version!r}, flush=True); os._exit(255)\n"
        hello = f"print('Godot Engine', flush=True); print({GREETING.decode()!r}, flush=True)\n"
        path.write_text(f"#!{sys.executable} -IS\n{text}{hello}{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "synchronus"}, "did you mean synchronous"),
        ({"controller": "external"}, "take mode game-loop"),
        ({"mode": "game-loop", "time_scale": 3}, "1, 2, 4 or 8 was wanted, but 3 came"),
        ({"time_scale": 2}, "take 1, or mode game-loop"),
        ({"frame_sleep_ms": -1}, "frame_sleep_ms: a number from 0"),
        ({"rendering": "gles"}, "did you mean gles2"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_study_begins(settings, words):
    with pytest.raises(InputError, match=words):
        Godot().described(settings)


def test_only_synchronous_promises_bits():
    assert Godot().info().capabilities.deterministic
    assert not Godot().described(LOOP).capabilities.deterministic


def test_a_missing_godot_is_told_in_one_line_and_breaks_no_description(monkeypatch):
    monkeypatch.setenv("SAMEPATH_GODOT", "/nowhere/godot")
    assert Godot().info().version == "not installed"
    reason = Godot().unavailable({})
    assert reason.startswith("Godot is not installed (/nowhere/godot was not found): apt-get install")
    assert "\n" not in reason
    with pytest.raises(SimulatorError, match="is not installed"):
        go()
    with pytest.raises(StudyError, match=r"^cell 'external process, cpu_load 0 %': Godot is not installed"):
        check_plan(load_plan("godot-ladder"))


@pytest.mark.parametrize(("version", "words"), [("4.2.1.stable", "but 4.2.1.stable came"), ("hello", "says 'hello'")])
def test_another_godot_is_refused(program, version, words):
    path = program("", version)
    assert words in Godot().unavailable({"program": path})
    with pytest.raises(SimulatorError, match=words):
        go({"program": path})


def test_the_version_is_the_programs_and_is_asked_anew_when_the_program_changes(program):
    assert Godot().described({"program": program("")}).version == "3.2.3.stable"
    assert Godot().described({"program": program("", "3.5.1")}).version == "3.5.1"


def test_pedestrians_are_refused_by_name(tmp_path, program):
    check_pedestrians_are_refused(go, {"program": program("")}, tmp_path)


def state(step, *cars):
    return b"S " + base64.b64encode(struct.pack("<I", step) + b"".join(struct.pack("<18f3d", *car) for car in cars))


STILL = (0.0,) * 3 + (1.0, 0, 0, 0, 0, 1, 0, -1, 0) + (0.0,) * 9


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("time.sleep(3600)", r"^Godot wrote nothing for 5 s, and was stopped"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"^Godot was ended by signal 11|^Godot ended .*signal 11"),
        ("print('SCRIPT ERROR: no such node', flush=True); time.sleep(9)", r"^Godot wrote b'SCRIPT ERROR: no such node' where"),
        ("sys.stderr.write('out of memory\\n'); sys.exit(1)", r"exit code 1; its last words: out of memory$"),
        ("sys.exit(0)", r"^Godot ended before the run did$"),
        (f"print({state(6, STILL, STILL).decode()!r})", r"^Godot wrote tick 2 where tick 1 was wanted$"),
        (f"print({state(3, STILL).decode()!r})", r"where a state, a contact or the end was wanted$"),
        (
            f"print({state(3, STILL, STILL).decode()!r}); print('E over', flush=True)\n"
            "if os.fork() == 0: time.sleep(3600)\nos._exit(0)",
            r"^Godot left a process running when it ended \(.*\): killed$",
        ),
    ],
)
def test_a_godot_that_misbehaves_is_told_of_and_nothing_of_it_is_left(program, tmp_path, monkeypatch, body, words):
    check_misbehaviour(go, lambda text: {"program": program(text)}, "samepath-godot", tmp_path, monkeypatch, body, words)


def test_numbers_come_into_our_frame_unrounded():
    roles = read_script("table1-test2").roles
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    # Godot's own order is already ours: place, forward, up, left, velocity, spin; the car looks along y and climbs 45 degrees.
    half = struct.unpack("<f", struct.pack("<f", 0.5**0.5))[0]
    car = (tenth, 2.0, 1.0, 0, half, half, 0, -half, half, 1, 0, 0, 0, tenth, 0, 0, 0, 1.0, 0.1, -0.2, 0.3)
    reader = reader_of(roles)
    assert reader.read(state(9, car, STILL)).ticks == (3,)
    row = dict(zip(CHANNELS, states(reader, roles)[0, 0].tolist(), strict=True))
    assert (row["x_m"], row["y_m"], row["vy_mps"]) == (tenth, 2.0, tenth), "32 bits are widened, not rounded"
    assert row["z_m"] == pytest.approx(1.0 - 0.38 * roles[0].body.height_m)
    assert (row["yaw_deg"], row["pitch_deg"], row["roll_deg"]) == (90.0, pytest.approx(45.0), 0.0)
    assert row["wz_degps"] == pytest.approx(-57.29578), "to the left in Godot is against the clock, yaw falls"
    assert (row["throttle_ratio"], row["steer_ratio"], row["brake_ratio"]) == (0.1, -0.2, 0.3)


def test_a_state_that_is_no_number_is_told_of():
    roles = read_script("table1-test2").roles
    reader = reader_of(roles)
    for step, x_m in ((3, 0.0), (6, float("nan"))):
        reader.read(state(step, STILL, (x_m, *STILL[1:])))
    with pytest.raises(SimulatorError, match="at tick 2 that is not a number"):
        states(reader, roles)


def test_the_external_controllers_answer_what_is_theirs_and_nothing_else():
    roles = read_script("table1-test2").roles
    controllers = Controllers(roles)
    seen = b"".join(struct.pack("<6f", role.start.x_m, role.start.y_m, 1, 0, 0, 0) for role in roles)
    assert controllers.answer(b"anything") is None
    hello = controllers.answer(struct.pack("<Id", HELLO, 0.0) + seen)
    assert hello == struct.pack("<I", HELLO) + struct.pack("<3dB", 0, 0, 0, 0) * 2
    step, *values = struct.unpack("<I3dB3dB", controllers.answer(struct.pack("<Id", 6, 0.1) + seen))
    assert step == 6
    assert values[:4] == [0.0, 0.0, 1.0, 0], "the first car waits with its brakes on"
    assert values[4] > 0.5
    assert values[5] == 1.0, "the second sets off, and looks the wrong way"


@pytest.fixture(scope="module")
def runs():
    return {}


@needs_godot
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_synchronous_conforms(monkeypatch, runs, check):
    share_runs(monkeypatch, runs, "godot")
    check(lambda: Preset(Godot(), {}, ["table1-test2"]))


@needs_godot
def test_everybody_drives_along_the_path_and_arrives():
    run = go(scenario="table1-test1")
    check_arrivals(run, "table1-test1", Godot().info().step_s)
    for role in read_script("table1-test1").roles:
        (z_m,) = columns_of(run, role, "z_m")
        assert np.abs(z_m).max() < 0.02, "on the ground"


@needs_godot
def test_cars_collide_and_push_each_other_apart():
    run = go()
    (hit,) = [event for event in run.events if event.kind == "collision"]
    assert (hit.actor, hit.other) == (1, 2)
    columns = [run.channels.index(name) for name in ("vx_mps", "vy_mps")]
    before, after = (run.values[(run.actor == 1) & (run.tick == tick)][0, columns] for tick in (hit.tick - 1, hit.tick + 1))
    push_ns = np.array(hit.impulse_ns[:2])
    change_ns = 1600 * (after - before)
    assert push_ns @ change_ns > 0.8 * np.linalg.norm(push_ns) * np.linalg.norm(change_ns), "as the first car felt it"
    assert 0 < np.linalg.norm(push_ns) < 1.5 * np.linalg.norm(change_ns)


@needs_godot
def test_with_the_controller_in_the_physics_callback_the_game_loop_has_the_bits_of_synchronous():
    duration_s = 3.0
    assert go({**LOOP, "controller": "physics"}, duration_s).digest == go({}, duration_s).digest


@needs_godot
@pytest.mark.parametrize("controller", ["frame", "external"])
def test_controllers_beside_the_physics_drive_too_and_say_how_frames_fell(controller):
    for _ in range(3):  # a controller of its own process that was late is not waited for: two seconds are a quarter of one here
        run = go({**LOOP, "controller": controller}, 2.0)
        second = run.values[run.actor == 2]
        if np.hypot(*(second[-1, :2] - second[0, :2])) > 3:
            break
    assert (run.end.tick, run.end.reason) == (40, DURATION)
    (told,) = [event.detail for event in run.events if event.kind == "frames"]
    assert "physics steps in one" in told
    assert np.hypot(*(second[-1, :2] - second[0, :2])) > 3, "the second car has set off"
    first = run.values[run.actor == 1]
    assert np.hypot(*(first[-1, :2] - first[0, :2])) < 0.1, "the first one waits"


@needs_godot
def test_nothing_is_left_of_a_run_that_is_broken_off():
    seen = broken_off(lambda on_tick: go({**LOOP, "controller": "external"}, on_tick=on_tick))
    assert len(seen) >= 4, "Godot, the controllers, and a supervisor for each"
    assert not [process for process in seen if process.is_running()]


@needs_godot
def test_controllers_that_die_fail_the_run():
    def on_tick(tick):
        if tick == 5:
            (found,) = [
                process for process in children() if process.cmdline()[2:4] == ["-m", "samepath.engines.godot.external"]
            ]
            supervisor = found.parent()
            found.kill()
            # It tells of the end before it ends itself.
            until(lambda: not supervisor.is_running() or supervisor.status() == psutil.STATUS_ZOMBIE, "its supervisor's end")

    with pytest.raises(SimulatorError, match=r"^the external controller ended before the run did: it was ended by signal 9"):
        go({**LOOP, "controller": "external"}, 2.0, on_tick=on_tick)


def test_a_missing_screen_is_told_in_one_line(program, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = Godot().unavailable({"rendering": "gles2", "program": program("")})
    assert reason.startswith("A screen in memory is not installed (Xvfb was not found): apt-get install")
    assert "\n" not in reason
    assert "godot3-runner xvfb libgl1-mesa-dri" in Godot().unavailable({"rendering": "gles2"}), "no Godot that draws either"


@needs_drawing
def test_drawing_changes_no_bit_of_the_physics():
    duration_s = 0.5
    assert go(DRAWN, duration_s).digest == go({}, duration_s).digest


@needs_drawing
def test_a_godot_that_draws_nothing_is_told_of(program):
    body = f"print({state(3, STILL, STILL).decode()!r}); print('F 5 1 0'); print('E over', flush=True)"
    with pytest.raises(SimulatorError, match=r"^Godot drew nothing in 5 frames"):
        go({**DRAWN, "program": program(body)})


@needs_drawing
def test_a_screen_that_dies_fails_the_run_and_leaves_nothing():
    seen, before = [], children()  # other tests in this process may have left servers that they share

    def on_tick(tick):
        if tick == 2:
            seen.extend(process for process in children() if process not in before)
            (found,) = [process for process in seen if process.name() == "Xvfb"]
            found.kill()

    # Godot does not outlive its screen: whichever of the two deaths is heard of first.
    with pytest.raises(SimulatorError, match=r"^Xvfb ended before the run did: it was ended by signal 9|^Godot "):
        go({**DRAWN, "mode": "game-loop", "timeout_s": 5}, 5.0, on_tick=on_tick)
    assert not [process for process in seen if process.is_running()]


def test_the_project_is_part_of_the_package():
    assert {path.name for path in PROJECT.iterdir()} >= {
        "project.godot",
        "main.tscn",
        "main.gd",
        "car.gd",
        "driver.gd",
        "link.gd",
        "view.gd",
    }
