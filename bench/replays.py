"""Recordings at full strength: runs on a loaded machine, and served sessions of CARLA's own client, replayed to the bit.

* 20 runs in which actors collide, on cores that are 75 % busy with other work: half of them in real time, controllers in a
  thread, the other half with steps as long as frames took. Each is recorded, written, read, replayed without a clock, and gone
  through backwards.
* 20 sessions of CARLA's client with its traffic manager, walkers and sensors, most in synchronous mode, some on the wall
  clock: each is recorded by ``samepath serve --record`` and replayed without the client, sensors' bytes included.
* What it costs to take down what goes in: a run in lockstep and one on the wall clock's worth of commands, with and without.

``python -m bench replays``; ``SAMEPATH_REPLAYS=3`` runs fewer of each.
"""

import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.tools import save, show
from samepath.core.errors import SamepathError
from samepath.engines.interface import RunRequest
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.recordings import check, record
from samepath.instrument.conditions.cpu_load import CpuLoad
from samepath.scenarios.model import load_scenario
from samepath.simulator.replay.recording import read_run
from samepath.simulator.replay.replay import open_file
from samepath.simulator.run_setup import RunSetup
from samepath.simulator.simulation import SimulationSettings

COUNT = int(os.environ.get("SAMEPATH_REPLAYS", "20"))
LOAD = 0.75
# In each of these somebody runs into somebody, whatever the frames are.
SCENARIOS = ("table1-test2", "table1-test4", "table1-test6")
MODES: dict[str, dict[str, str | float]] = {
    "variable": {"mode": "variable", "time_scale": 20.0},
    "thread": {"mode": "real-time", "controllers": "thread", "time_scale": 20.0},
}
CLIENT = Path(__file__).parent / "replays_client.py"
TICKS = 60
_START_S = 120.0
_FAILED = "client ended with"


def main() -> bool:
    """Run all of it; say whether every replay was the run."""
    with tempfile.TemporaryDirectory(prefix="samepath-replays-") as folder:
        runs = _runs(Path(folder))
        served = _sessions(Path(folder))
    costs = _costs()
    figures: dict[str, Any] = {"load": LOAD, "runs": runs, "sessions": served, "costs": costs}
    good = all(run["same"] for run in (*runs, *served)) and all(run["collisions"] for run in runs)
    figures["all_same"] = good
    save("replays", figures)
    return good


def _runs(folder: Path) -> list[dict[str, Any]]:
    found = []
    with CpuLoad(LOAD):
        for number in range(COUNT):
            mode = tuple(MODES)[number % 2]
            request = RunRequest(SCENARIOS[number // 2 % len(SCENARIOS)], number, settings=MODES[mode])
            found.append(_run(request, mode, folder / f"{number}.recording"))
    collided = sum(run["collisions"] > 0 for run in found)
    names = ("run", "scenario", "mode", "steps", "inputs", "collisions")
    rows = [[*(str(run[name]) for name in names), *_told(run, "the same bits")] for run in found]
    columns = ["run", "scenario", "mode", "steps", "inputs", "collisions", "file", "replayed, and back and forth"]
    show(f"{len(found)} runs at {LOAD:.0%} load, {collided} with collisions", columns, rows)
    return found


def _told(row: dict[str, Any], good: str) -> tuple[str, str]:
    return f"{row['bytes'] / 1000:.0f} kB", good if row["same"] else f"DIFFERS: {row['why']}"


def _run(request: RunRequest, mode: str, path: Path) -> dict[str, Any]:
    recording, repeat = record(request, SamepathGameLoop())
    recording.write(path)
    why = ""
    try:
        check(read_run(path), path.name)
        with open_file(path) as replay:
            digests: dict[int, str] = {}
            replay.play(lambda now: digests.__setitem__(now.position, now.world.digest))
            for step in range(replay.steps, 0, -37):
                replay.go_to(step)
                if replay.world.digest != digests[step]:
                    why = f"step {step} is another on the way back"
    except SamepathError as error:
        why = str(error)
    return {
        "run": request.repeat,
        "scenario": request.scenario,
        "mode": mode,
        "steps": recording.steps,
        "inputs": len(recording.inputs),
        "collisions": sum(event.kind == "collision" for event in repeat.events),
        "bytes": path.stat().st_size,
        "same": not why,
        "why": why,
    }


def _sessions(folder: Path) -> list[dict[str, Any]]:
    found = []
    for number in range(COUNT):
        way = "async" if number % 5 == 4 else "sync"
        found.append(_tried(folder, number, way))
    names = ("session", "way", "got", "ticks", "frames")
    rows = [[*(str(row[name]) for name in names), *_told(row, "the same bytes")] for row in found]
    columns = ["session", "mode", "vehicles, walkers, messages", "ticks", "sensor frames", "file", "without the client"]
    show(f"{len(found)} sessions of CARLA's client", columns, rows)
    return found


def _tried(folder: Path, number: int, way: str) -> dict[str, Any]:
    """A session; one whose client failed, as it may on a machine that is too busy for its time-outs, is made anew."""
    for attempt in range(3):
        session = _session(folder / f"session-{number}-{attempt}.recording", number, way)
        if not session["got"].startswith(_FAILED):
            break
    return {**session, "attempts": attempt + 1}


def _session(path: Path, number: int, way: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--map", "town", "--record", str(path)]
    command += ["--data", str(path.with_suffix(".data"))]
    got = ""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = next(line for line in server.stderr if "serving map" in line)
            port = line.split(" on ")[1].split(",")[0].rpartition(":")[2]
            client = [sys.executable, str(CLIENT), port, str(number), str(TICKS), way]
            done = subprocess.run(client, check=False, capture_output=True, text=True, timeout=600)
            got = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"{_FAILED} {done.returncode}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=_START_S)
    ticks = frames = 0
    why = ""
    try:
        with open_file(path, sensors=True) as replay:
            replay.play()
            ticks, frames = replay.steps, replay.frames
    except SamepathError as error:
        why = str(error)
    if not why and not (ticks >= TICKS and frames > 0):
        why = f"only {ticks} ticks and {frames} frames were recorded"
    size = path.stat().st_size if path.exists() else 0
    return {
        "session": number,
        "way": way,
        "got": got,
        "ticks": ticks,
        "frames": frames,
        "bytes": size,
        "same": not why,
        "why": why,
    }


def _costs() -> dict[str, float]:
    """How much longer a run takes when what goes in is taken down: in lockstep, where little is, and with every command."""
    setup = RunSetup(load_scenario("table1-test4"), SimulationSettings())

    def play(inputs: Any) -> None:  # noqa: ANN401 - a recorder of inputs, or none
        simulation = setup.simulation(inputs)
        while simulation.step().ended is None:
            pass
        simulation.close()

    recorders: dict[str, Callable[[], Any]] = {
        "plain": lambda: None,
        "lockstep": setup.recorder,
        "everything": lambda: setup.recorder(everything=True),
    }
    best = dict.fromkeys(recorders, math.inf)
    # In turns, and by the time of the processor: others use this machine too, and not evenly.
    for _ in range(15):
        for name, recorder in recorders.items():
            best[name] = min(best[name], _cpu_s(partial(play, recorder())))
    plain_s, lockstep_s, everything_s = best.values()
    found = {"plain_s": plain_s, "lockstep_ratio": lockstep_s / plain_s, "everything_ratio": everything_s / plain_s}
    rows = [
        ["nothing", f"{plain_s * 1e3:.1f} ms", ""],
        ["lockstep: what comes from outside", f"{lockstep_s * 1e3:.1f} ms", f"{lockstep_s / plain_s:.3f}"],
        ["wall clock: every command of everybody", f"{everything_s * 1e3:.1f} ms", f"{everything_s / plain_s:.3f}"],
    ]
    show("table1-test4 with this taken down", ["taken down", "time", "ratio"], rows)
    return found


def _cpu_s(work: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
