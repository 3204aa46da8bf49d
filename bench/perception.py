"""An ego that drives by its camera and LiDAR, again and again: are its bits the same, whoever draws what it sees?

``python -m bench perception`` plays every scenario ``--repeats`` times in lockstep with each of ``--renderers``, in turns, and
compares states, events, ends and the digest of every frame that the ego was given, within a renderer and between them. It
writes ``bench/results/perception.json``, or where ``--out`` says. Renderers that promise the software renderer's bytes must
give one outcome together; ``opengl`` is held against itself only, and may be left out. ``--jobs`` processes share the repeats:
each opens its renderers once, and plays what comes next.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from bench.tools import code_measured, save, show
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.digests import first_link, link
from samepath.core.errors import SamepathError
from samepath.engines.interface import RunRequest, Scalar
from samepath.engines.samepath import Samepath
from samepath.instrument.traces.recorder import Recorder

# Until behind what happens in each: the junction is passed, the other car or the pedestrian was braked for.
SCENARIOS = {"table1-test1": 6.0, "table1-test2": 12.0, "table1-test3": 8.0, "table1-test4": 9.0, "town-camera": 6.0}
SAME_BYTES = ("software", "cuda", "auto")


@dataclass(frozen=True)
class Played:
    """One repeat: the chain over all that was seen and done, and what it took."""

    outcome: str
    frames: int
    collided: bool
    run_s: float
    draw_s: float


@dataclass
class Seen:
    """The repeats of a scenario with one renderer."""

    outcomes: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    collisions: int = 0
    run_s: list[float] = field(default_factory=list)
    draw_s: list[float] = field(default_factory=list)

    def add(self, played: Played) -> None:
        """One more repeat."""
        self.outcomes[played.outcome] = self.outcomes.get(played.outcome, 0) + 1
        self.frames += played.frames
        self.collisions += played.collided
        self.run_s.append(played.run_s)
        self.draw_s.append(played.draw_s)

    def as_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "repeats": sum(self.outcomes.values()),
            "outcomes": self.outcomes,
            "frames": self.frames,
            "collisions": self.collisions,
            "run_s_median": float(np.median(self.run_s)),
            "draw_s_median": float(np.median(self.draw_s)),
        }


def main(arguments: list[str]) -> bool:
    """Run it; return whether every bit was the same."""
    parser = argparse.ArgumentParser(prog="python -m bench perception", description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--renderers", default="software,auto", help="names, separated by commas")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--budget-s", type=float, default=540.0, help="no repeat is begun after this")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the repeats")
    parser.add_argument("--out", type=Path, help="write there instead of bench/results")
    given = parser.parse_args(arguments)
    renderers, scenarios = given.renderers.split(","), given.scenarios.split(",")
    code_measured()  # before anything is measured
    found = {(scenario, renderer): Seen() for scenario in scenarios for renderer in renderers}
    end_s = SYSTEM_CLOCK.monotonic_s() + given.budget_s
    # All in turns: should the budget be spent, every pair has been compared about as often.
    turns = [(scenario, renderer, number, end_s) for number in range(given.repeats) for scenario, renderer in found]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for (scenario, renderer, _, _), played in zip(turns, pool.map(_repeat, turns), strict=True):
            if isinstance(played, str):
                pool.shutdown(cancel_futures=True)
                print(f"renderer {renderer!r}: {played}")
                return False
            if played is not None:
                found[scenario, renderer].add(played)
    return _told(found, given.out, jobs=given.jobs)


_SIMULATORS: dict[str, Samepath] = {}
"""Of a process: one for each renderer, opened once. They end with the process."""


def _repeat(turn: tuple[str, str, int, float]) -> Played | str | None:
    """Play one; None if there is no time for it, and words if it cannot be played."""
    scenario, renderer, number, end_s = turn
    if SYSTEM_CLOCK.monotonic_s() > end_s:
        return None
    simulator = _SIMULATORS.setdefault(renderer, Samepath())
    settings: dict[str, Scalar] = {"ego": "camera", "renderer": renderer, "sensor_samples": 0}
    recorder = Recorder(number, simulator.info().channels, simulator.info().step_s)
    start_s = SYSTEM_CLOCK.monotonic_s()
    try:
        simulator.run(RunRequest(scenario, number, 1, settings, SCENARIOS.get(scenario)), recorder)
    except SamepathError as error:
        return str(error)
    run_s = SYSTEM_CLOCK.monotonic_s() - start_s
    repeat = recorder.finish()
    chain = first_link("perception", repeat.digest)
    for frame in repeat.sensors:
        chain = link(chain, f"{frame.tick} {frame.sensor}".encode() + frame.digest)
    collided = any(event.kind == "collision" for event in repeat.events)
    return Played(chain.hex(), len(repeat.sensors), collided, run_s, float(np.median(repeat.host.draw_s)))


def _told(found: dict[tuple[str, str], Seen], out: Path | None, *, jobs: int) -> bool:
    together: dict[str, set[str]] = {scenario: set() for scenario, _ in found}
    for (scenario, renderer), seen in found.items():
        together[scenario].update(seen.outcomes if renderer in SAME_BYTES else ())
    same = {scenario: len(outcomes) for scenario, outcomes in together.items()}
    rows = [
        [
            scenario,
            renderer,
            str(sum(seen.outcomes.values())),
            str(len(seen.outcomes)),
            str(same[scenario]),
            str(seen.frames),
            str(seen.collisions),
            f"{np.median(seen.run_s):.2f}",
            f"{1e3 * np.median(seen.draw_s):.2f}",
        ]
        for (scenario, renderer), seen in found.items()
        if seen.run_s
    ]
    columns = ["scenario", "renderer", "repeats", "outcomes", "of all together", "frames", "collide", "s a run", "draw, ms"]
    show("An ego that drives by camera and LiDAR, in lockstep", columns, rows)
    figures = {f"{scenario}, {renderer}": seen.as_dict() for (scenario, renderer), seen in found.items() if seen.run_s}
    alike = all(count <= 1 for count in same.values()) and all(len(seen.outcomes) == 1 for seen in found.values())
    content: dict[str, object] = {"runs": figures, "outcomes_of_all": same, "identical": alike, "jobs": jobs}
    save("perception", content, out=out)
    print("every bit was the same" if alike else "NOT the same")
    return alike
