"""TORCS: what is refused before it is started, what a misbehaving one leads to, and what the real one does."""

import base64
import os
import shutil
import stat
import struct
import subprocess
import sys

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.interface import DURATION, RunRequest
from samepath.engines.torcs import Torcs
from samepath.engines.torcs.engine import (
    CAR,
    SOURCE,
    build,
    engine_xml,
    installation,
    module_path,
    prepare,
    race_xml,
    rows,
)
from samepath.engines.torcs.simulator import CHANNELS, SETTINGS, read_settings
from tests.support.odd_engines import check_misbehaviour
from tests.support.processes_left import broken_off
from tests.support.shared_runs import share_runs

MISSING = Torcs().unavailable({})
needs_torcs = pytest.mark.skipif(bool(MISSING), reason=MISSING)
HELLO = "samepath 1\\nA 1 inferno 1\\nA 2 olethros 1"


def go(settings=None, duration_s=None, on_tick=lambda tick: None):
    return run_request(Torcs(), RunRequest("two-car-race", 0, settings=settings or {}, duration_s=duration_s), on_tick)


def script(path, text):
    path.write_text(f"#!{sys.executable} -IS\nimport os, signal, sys, time\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Make what looks like a TORCS with our module built for it; its race does what it is made of."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(body="", version="1.3.7", module=True):
        libraries, data = tmp_path / "libraries", tmp_path / "data"
        for name in (
            "libraries/lib/libclient.so",
            "libraries/modules/simu/simuv2.so",
            "libraries/drivers/inferno/inferno.so",
            "libraries/drivers/olethros/olethros.so",
            "data/tracks/road/aalborg/aalborg.xml",
        ):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"CXXABI_1.3.9\0" + version.encode() + b"\0")
        script(libraries / "torcs-bin", f"print({HELLO!r}.replace('\\\\n', '\\n'), flush=True)\n{body}")
        script(tmp_path / "torcs", f"print('r -l {tmp_path} -L {libraries} -D {data} ')")
        if module:
            module_path().parent.mkdir(parents=True, exist_ok=True)
            module_path().write_bytes(b"")
        return str(tmp_path / "torcs")

    return make


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "game-loop"}, "synchronous was wanted, but 'game-loop' came"),
        ({"track": "../../etc"}, "the name of a track was wanted"),
        ({"drivers": "inferno 1"}, "2 to 10 different ones were wanted"),
        ({"drivers": "inferno 1, inferno 1"}, "2 to 10 different ones were wanted"),
        ({"drivers": "inferno, olethros"}, "each a robot and a number"),
        ({"laps": 0}, "laps: a whole number from 1"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_a_study_begins(settings, words):
    with pytest.raises(InputError, match=words):
        Torcs().described(settings)


def test_a_missing_torcs_is_told_in_one_line_and_breaks_no_description(monkeypatch):
    monkeypatch.setenv("SAMEPATH_TORCS", "/nowhere/torcs")
    assert Torcs().info().version == "not installed"
    reason = Torcs().unavailable({})
    assert reason.startswith("TORCS is not installed (/nowhere/torcs was not found): apt-get install")
    assert "\n" not in reason
    with pytest.raises(SimulatorError, match="is not installed"):
        go()


def test_what_a_torcs_does_not_have_is_refused(program):
    assert Torcs().unavailable({"program": program()}) == ""
    assert Torcs().described({"program": program()}).version.startswith("1.3.7 ")
    assert Torcs().unavailable({"program": program(), "track": "aalborgh"}).endswith("no track aalborgh: did you mean aalborg?")
    assert "has no robot infern: did you mean inferno?" in Torcs().unavailable(
        {"program": program(), "drivers": "infern 1, olethros 1"}
    )
    path = program(version="1.3.4")
    assert "1.3.7 was wanted, but 1.3.4 came" in Torcs().unavailable({"program": path})
    with pytest.raises(SimulatorError, match=r"1\.3\.4 came"):
        go({"program": path})


def test_a_missing_compiler_is_told_before_a_study_begins(program, monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/g++")
    reason = Torcs().unavailable({"program": program(module=False)})
    assert reason == (
        "TORCS's C++ compiler is not installed (/nowhere/g++ was not found): apt-get install g++, or name one in CXX"
    )


def state(step, *cars):
    return "S " + base64.b64encode(struct.pack("<I", step) + b"".join(struct.pack("<14f", *car) for car in cars)).decode()


STILL = (0.0,) * 14


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("time.sleep(3600)", r"^TORCS wrote nothing for 5 s, and was stopped"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"^TORCS was ended by signal 11|^TORCS ended .*signal 11"),
        ("print('Bad Car category', flush=True); time.sleep(9)", r"^TORCS wrote b'Bad Car category' where"),
        ("sys.stderr.write('samepath: out of road\\n'); sys.exit(3)", r"exit code 3; its last words: samepath: out of road$"),
        ("sys.exit(0)", r"^TORCS ended before the run did$"),
        ("print('E over')", r"^TORCS ended its run without a single state$"),
        (f"print({state(50, STILL, STILL)!r})", r"^TORCS wrote tick 2 where tick 1 was wanted$"),
        (f"print({state(26, STILL, STILL)!r})", r"where a state, a contact or the end was wanted$"),
        (
            f"print({state(25, STILL, STILL)!r}); print('E over', flush=True)\n"
            "if os.fork() == 0: time.sleep(3600)\nos._exit(0)",
            r"^TORCS left a process running when it ended \(.*\): killed$",
        ),
    ],
)
def test_a_torcs_that_misbehaves_is_told_of_and_nothing_of_it_is_left(program, tmp_path, monkeypatch, body, words):
    check_misbehaviour(go, lambda text: {"program": program(text)}, "samepath-torcs", tmp_path, monkeypatch, body, words)


def test_other_drivers_than_those_wanted_are_told_of(program):
    with pytest.raises(SimulatorError, match=r"^TORCS wrote b'A 1 inferno 1' where 'A 1 inferno 2' was wanted$"):
        go({"program": program(), "drivers": "inferno 2, olethros 1"})


def test_numbers_come_into_our_frame_unrounded():
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    # To the left of the start, nose down, turned to the left; steers left, third gear.
    car = (tenth, 2.0, 1.0, 0.25, 0.5, np.pi / 2, 3.0, tenth, -1.0, 1.0, 0.5, 1.0, 0.25, 3.0)
    told = np.frombuffer(struct.pack("<14f", *car), CAR).reshape(1, 1)
    row = dict(zip(CHANNELS, rows(told)[0, 0].tolist(), strict=True))
    assert (row["x_m"], row["y_m"], row["z_m"], row["vy_mps"]) == (tenth, -2.0, 1.0, -tenth), "widened, not rounded"
    assert (row["roll_deg"], row["pitch_deg"]) == (pytest.approx(np.degrees(0.25)), pytest.approx(-np.degrees(0.5)))
    assert row["yaw_deg"] == pytest.approx(-90.0)
    assert row["wz_degps"] == pytest.approx(-57.29578)
    assert (row["throttle_ratio"], row["steer_ratio"], row["brake_ratio"], row["gear_index"]) == (1.0, -0.5, 0.25, 3.0)


def test_the_race_is_written_as_torcs_reads_it():
    text = race_xml(read_settings({**SETTINGS, "laps": 3}), "road").decode()
    for words in (
        '<attstr name="name" val="aalborg" /><attstr name="category" val="road" />',
        '<attnum name="laps" val="3" />',
        '<section name="2"><attnum name="idx" val="1" /><attstr name="module" val="olethros" /></section>',
    ):
        assert words in text
    assert '<attstr name="simu" val="telling" />' in engine_xml().decode()


@pytest.fixture(scope="module")
def runs():
    """Return one whole run, which serves all that only look at it."""
    return {"torcs": (("two-car-race", go(), 0),)}


@needs_torcs
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_torcs_conforms(monkeypatch, runs, check):
    share_runs(monkeypatch, runs, "torcs")
    check(Torcs)


@needs_torcs
def test_two_cars_race_and_collide(runs):
    run = runs["torcs"][0][1]
    assert run.end.reason == "the race is over"
    columns = {name: index for index, name in enumerate(run.channels)}
    for number in (1, 2):
        values = run.values[run.actor == number]
        place, velocity = (values[:, [columns[n] for n in names]] for names in (("x_m", "y_m"), ("vx_mps", "vy_mps")))
        speed_mps = np.hypot(*velocity.T)
        assert speed_mps[0] < 0.2, "a standing start"
        assert speed_mps.max() > 30
        # What is recorded as velocity is what positions do, cars go where they look, and climb with the nose up.
        moved = np.diff(place, axis=0) / Torcs().info().step_s
        assert np.median(np.abs(moved - (velocity[1:] + velocity[:-1]) / 2)) < 0.05
        fast = speed_mps > 10
        course_deg = np.degrees(np.arctan2(velocity[fast, 1], velocity[fast, 0]))
        assert np.median(np.abs((course_deg - values[fast, columns["yaw_deg"]] + 180) % 360 - 180)) < 5
        climb = values[fast, columns["vz_mps"]] / speed_mps[fast]
        assert np.corrcoef(climb, values[fast, columns["pitch_deg"]])[0, 1] > 0.8
        turned_deg = (np.diff(values[:, columns["yaw_deg"]]) + 180) % 360 - 180
        assert np.corrcoef(turned_deg, values[1:, columns["wz_degps"]])[0, 1] > 0.9
        if number == 1:  # the second corrects all the time
            assert np.corrcoef(values[fast, columns["steer_ratio"]], values[fast, columns["wz_degps"]])[0, 1] > 0.3
    (hit,) = [event for event in run.events if event.kind == "collision" and event.other is not None]
    assert (hit.actor, hit.other) == (1, 2)
    before, after = (run.values[(run.actor == 1) & (run.tick == tick)][0] for tick in (hit.tick - 1, hit.tick))
    change_mps = np.array([after[columns[n]] - before[columns[n]] for n in ("vx_mps", "vy_mps")])
    push_ns = np.array(hit.impulse_ns[:2])
    assert 500 < np.linalg.norm(push_ns) < 20_000
    assert push_ns @ change_mps > 0, "the first car was pushed that way"


@needs_torcs
def test_our_module_does_not_change_the_race(tmp_path):
    """TORCS's own physics without us finds the leader at the line at the same hundredth of a second."""
    settings = read_settings({**SETTINGS, "drivers": "inferno 1, tita 2"})
    parts = installation("")
    told = []
    for name in ("ours", "own"):
        scratch = tmp_path / name
        scratch.mkdir()
        command = prepare(scratch, parts, settings)
        file = scratch / "own" / "config" / "raceengine.xml"
        if name == "own":
            file.write_bytes(file.read_bytes().replace(b'"telling"', b'"simuv2"'))
            (scratch / "libraries" / "modules" / "simu" / "simuv2.so").symlink_to(parts.physics)
        environment = {
            **os.environ,
            "HOME": str(scratch),
            "LD_LIBRARY_PATH": str(parts.libraries / "lib"),
            "SAMEPATH_SIMUV2": str(parts.physics),
            "SAMEPATH_TICKS": "100000",
            "SAMEPATH_CARS": "2",
        }
        ended = subprocess.run(command, cwd=parts.data, env=environment, capture_output=True, text=True, timeout=60, check=True)
        told.append([line for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("Sim Time:")])
    assert told[0] == told[1]
    assert len(told[0]) == 1


@needs_torcs
def test_a_driver_that_is_not_there_is_told_of():
    with pytest.raises(SimulatorError, match="1 cars are at the start where 2 were wanted"):
        go({"drivers": "inferno 1, olethros 99"})


@needs_torcs
def test_a_duration_ends_the_race():
    run = go({"track": "e-track-4", "drivers": "bt 1, inferno 2, lliaw 3"}, 2.0)
    assert (run.end.tick, run.end.reason) == (40, DURATION)
    assert [actor.type for actor in run.actors] == ["torcs.bt.1", "torcs.inferno.2", "torcs.lliaw.3"]


@needs_torcs
def test_nothing_is_left_of_a_race_that_is_broken_off():
    seen = broken_off(lambda on_tick: go(on_tick=on_tick))
    assert len(seen) >= 1, "a supervisor, and TORCS if it has not ended yet"
    assert not [process for process in seen if process.is_running()]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed: apt-get install g++")
def test_our_module_is_built_once_into_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = build()
    assert path.is_relative_to(tmp_path)
    assert path.read_bytes()[:4] == b"\x7fELF"
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert build() == path
    assert not [file for file in path.parent.iterdir() if file != path]


def test_the_source_is_part_of_the_package():
    assert SOURCE.exists()
