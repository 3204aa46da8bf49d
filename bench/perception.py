"""An ego that drives by its camera and LiDAR, again and again: are its bits the same, whoever draws what it sees?

``python -m bench perception`` plays every scenario ``--repeats`` times in lockstep with each of ``--renderers``, in turns, and
compares states, events, ends and the digest of every frame that the ego was given, within a renderer and between them. It
writes ``bench/results/perception.json``, or where ``--out`` says. Renderers that promise the software renderer's bytes must
give one outcome together; ``opengl`` is held against itself only, and may be left out.
"""

import argparse
import json
from dataclasses import dataclass, field
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


@dataclass
class Seen:
    """The repeats of a scenario with one renderer."""

    outcomes: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    collisions: int = 0
    run_s: list[float] = field(default_factory=list)
    draw_s: list[float] = field(default_factory=list)

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
    parser.add_argument("--out", type=Path, help="write there instead of bench/results")
    given = parser.parse_args(arguments)
    renderers, scenarios = given.renderers.split(","), given.scenarios.split(",")
    code_measured()  # before anything is measured
    found = {(scenario, renderer): Seen() for scenario in scenarios for renderer in renderers}
    simulators = {renderer: Samepath() for renderer in renderers}
    since_s = SYSTEM_CLOCK.monotonic_s()
    try:
        for number in range(given.repeats):
            # All in turns: should the budget be spent, every pair has been compared about as often.
            for (scenario, renderer), seen in found.items():
                if SYSTEM_CLOCK.monotonic_s() - since_s < given.budget_s:
                    _repeat(seen, simulators[renderer], scenario, renderer, number)
    except SamepathError as error:
        print(f"renderer {renderer!r}: {error}")
        return False
    finally:
        for simulator in simulators.values():
            simulator.close()
    return _told(found, given.out)


def _repeat(seen: Seen, simulator: Samepath, scenario: str, renderer: str, number: int) -> None:
    settings: dict[str, Scalar] = {"ego": "camera", "renderer": renderer, "sensor_samples": 0}
    recorder = Recorder(number, simulator.info().channels, simulator.info().step_s)
    start_s = SYSTEM_CLOCK.monotonic_s()
    simulator.run(RunRequest(scenario, number, 1, settings, SCENARIOS.get(scenario)), recorder)
    seen.run_s.append(SYSTEM_CLOCK.monotonic_s() - start_s)
    repeat = recorder.finish()
    chain = first_link("perception", repeat.digest)
    for frame in repeat.sensors:
        chain = link(chain, f"{frame.tick} {frame.sensor}".encode() + frame.digest)
    name = chain.hex()
    seen.outcomes[name] = seen.outcomes.get(name, 0) + 1
    seen.frames += len(repeat.sensors)
    seen.collisions += any(event.kind == "collision" for event in repeat.events)
    seen.draw_s.append(float(np.median(repeat.host.draw_s)))


def _told(found: dict[tuple[str, str], Seen], out: Path | None) -> bool:
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
    content: dict[str, object] = {"runs": figures, "outcomes_of_all": same, "identical": alike}
    if out is None:
        save("perception", content)
    else:
        out.write_text(json.dumps({"figures": content, "code": code_measured()}, indent=1) + "\n", encoding="utf-8")
    print("every bit was the same" if alike else "NOT the same")
    return alike
