"""The same scenario far from the origin, and every type of actor: does the simulator repeat itself there, and how fine is it?

Engines keep positions in floats of 32 bits, whose grid is 8 mm at 100 km. So repeats may be equal to the bit and still be off.
The scenarios are those of the studies ``far-from-origin`` and ``actor-types``. Of the first, the path at 1, 10 and 100 km, less
the distance, is compared with the path at the origin until two actors touch: a contact makes more of any difference.
"""

import numpy as np

from bench.tools import save, show, verdict
from samepath.core.units import format_length
from samepath.instrument.subjects import SubjectChoice, SubjectRunner, subject_of
from samepath.scenarios.model import load_scenario

DISTANCES_KM = (0, 1, 10, 100)
TYPES = ("car", "truck", "bus", "motorcycle", "bicycle", "walker")
REPEATS = 5
SIMULATORS = {"lockstep": ("samepath", {}), "game loop": ("samepath-game-loop", {"mode": "real-time", "time_scale": 20})}


def played(scenario: str, variant: str) -> list:
    """Run a scenario as a study would."""
    simulator, settings = SIMULATORS[variant]
    subject = subject_of(scenario, SubjectChoice(simulator=simulator, settings=dict(settings)))
    with SubjectRunner() as runner:
        return list(runner.run(subject, range(REPEATS)))


def positions(run: object) -> np.ndarray:
    """x, y, z of every row."""
    columns = [run.channels.index(name) for name in ("x_m", "y_m", "z_m")]
    return run.values[:, columns]


def first_hit(run: object) -> int | None:
    """The tick of the first collision."""
    return next((event.tick for event in run.events if event.kind == "collision"), None)


def main() -> bool:
    """Run all of it."""
    rows, figures, good = [], {}, True
    home = None
    for km in DISTANCES_KM:
        scenario = f"far-{km}km"
        start_m = load_scenario(scenario).actors[0].path[0][0]
        runs = played(scenario, "lockstep")
        paths = positions(runs[0]) - np.array([start_m, 0.0, 0.0])
        home = paths if home is None else home
        hit = first_hit(runs[0])
        shared = min(len(home), len(paths))
        before = runs[0].tick[:shared] < (hit or 10**9)
        bias_m = float(np.abs(home[:shared] - paths[:shared])[before].max())
        grid_m = float(np.spacing(np.float32(start_m + 32.0)))
        outcomes = len({run.digest for run in runs})
        good = good and outcomes == 1
        found = {"bias_before_m": bias_m, "grid_m": grid_m, "first_collision": hit}
        figures[scenario] = {"outcomes": outcomes, "repeats": REPEATS, **found}
        cells = [scenario, "lockstep", str(outcomes), str(hit), format_length(bias_m)]
        rows.append([*cells, format_length(grid_m), verdict(met=outcomes == 1)])
    for name in TYPES:
        for variant in SIMULATORS:
            runs = played(f"meet-{name}", variant)
            outcomes, hits = len({run.digest for run in runs}), sorted({str(first_hit(run)) for run in runs})
            met = outcomes == 1 if variant == "lockstep" else True
            good = good and met
            figures[f"{name}, {variant}"] = {"outcomes": outcomes, "first_collision": hits, "repeats": REPEATS}
            rows.append([f"two of {name}", variant, str(outcomes), ", ".join(hits), "", "", verdict(met=met)])
    columns = ["where or who", "variant", "outcomes", "first hit", "off the path at home", "32-bit grid", "repeats itself"]
    show(f"far from the origin, and every type of actor: {REPEATS} repeats each", columns, rows)
    save("far", figures)
    return good
