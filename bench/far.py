"""The same scenario far from the origin, and every type of actor: does the simulator repeat itself there, and how fine is it?

Engines keep positions in floats of 32 bits, whose grid is 8 mm at 100 km. So repeats may be equal to the bit and still be off.
Two cars that meet head on, and a walker, are put at 0, 1, 10 and 100 km along x; the path there, less the distance, is
compared with the path at the origin. Then each type of actor meets one of its own: car, truck, bus, motorcycle, bicycle,
walker.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from bench.tools import save, show, verdict
from samepath.core.units import format_length
from samepath.instrument.subjects import SubjectChoice, SubjectRunner, subject_of

OFFSETS_M = (0.0, 1e3, 1e4, 1e5 - 60.0)
REPEATS = 5
TYPES = {
    "car": ("vehicle.mercedes.coupe", 8.0),
    "truck": ("vehicle.carlamotors.carlacola", 6.0),
    "bus": ("vehicle.mitsubishi.fusorosa", 6.0),
    "motorcycle": ("vehicle.kawasaki.ninja", 6.0),
    "bicycle": ("vehicle.bh.crossbike", 4.0),
    "walker": ("walker.pedestrian.0001", 1.4),
}
SIMULATORS = {"lockstep": ("samepath", {}), "game loop": ("samepath-game-loop", {"mode": "real-time", "time_scale": 20})}


ROAD = """<?xml version="1.0"?>
<OpenDRIVE><header revMajor="1" revMinor="4" name="far" version="1"/>
<road name="" length="160" id="1" junction="-1"><planView>
<geometry s="0" x="{x}" y="0" hdg="0" length="160"><line/></geometry></planView>
<lanes><laneSection s="0">
<left><lane id="1" type="driving" level="false"><width sOffset="0" a="30" b="0" c="0" d="0"/></lane></left>
<center><lane id="0" type="none" level="false"/></center>
<right><lane id="-1" type="driving" level="false"><width sOffset="0" a="30" b="0" c="0" d="0"/></lane></right>
</laneSection></lanes></road></OpenDRIVE>
"""


def meeting(folder: Path, name: str, kind: str, speed: float, offset_m: float | None) -> dict[str, object]:
    """Two of a kind that walk or drive towards each other, a metre beside each other's middle, and one that passes by."""
    room_m = 3.0 * speed + 8.0
    scenario_map = "flat"
    if offset_m is not None:
        # A road of its own: our flat ground ends within a kilometre.
        scenario_map = str(folder / f"road-{offset_m:.0f}.xodr")
        Path(scenario_map).write_text(ROAD.format(x=repr(offset_m - 60.0)), encoding="utf-8")
    offset_m = offset_m or 0.0
    beside = 0.2 if kind.startswith("walker") else 0.6
    there, back = [offset_m, 0.0], [offset_m + room_m, 0.0]
    aside = [[offset_m, 12.0], [offset_m + 6.0, 13.0], [offset_m + 14.0, 12.0]]
    actors = [
        {"id": 1, "type": kind, "speed": speed, "path": [there, back], "look_ahead": 0.4},
        {"id": 2, "type": kind, "speed": speed, "path": [[back[0], beside], [there[0], beside]], "look_ahead": 0.4},
        {"id": 3, "type": "vehicle.mercedes.coupe", "speed": 5.0, "path": aside},
    ]
    return {"name": name, "map": scenario_map, "duration": "9 s", "end": "duration", "actors": actors}


def played(folder: Path, scenario: dict[str, object], simulator: str, settings: dict[str, object]) -> list:
    """Run a scenario as a study would."""
    path = folder / f"{scenario['name']}.yaml"
    path.write_text(json.dumps(scenario), encoding="utf-8")
    subject = subject_of(str(path), SubjectChoice(simulator=simulator, settings=settings))
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
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        home = None
        for offset_m in OFFSETS_M:
            scenario = meeting(folder, f"far-{offset_m:.0f}", *TYPES["car"], offset_m)
            runs = played(folder, scenario, *SIMULATORS["lockstep"])
            paths = positions(runs[0]) - np.array([offset_m, 0.0, 0.0])
            home = paths if home is None else home
            hit = first_hit(runs[0])
            shared = min(len(home), len(paths))
            before = runs[0].tick[:shared] < (hit or 10**9)
            bias_m = float(np.abs(home[:shared] - paths[:shared])[before].max())
            grid_m = float(np.spacing(np.float32(offset_m + 60.0)))
            same = len({run.digest for run in runs}) == 1
            good = good and same
            found = {"bias_before_m": bias_m, "grid_m": grid_m, "first_collision": hit}
            figures[f"{offset_m:.0f} m"] = {"bit_identical": same, **found}
            outcomes = str(len({run.digest for run in runs}))
            cells = [f"{offset_m / 1000:g} km", "lockstep", outcomes, str(hit), format_length(bias_m)]
            rows.append([*cells, format_length(grid_m), verdict(met=same)])
        for name, (kind, speed) in TYPES.items():
            for variant, (simulator, settings) in SIMULATORS.items():
                runs = played(folder, meeting(folder, f"two-{name}", kind, speed, None), simulator, dict(settings))
                outcomes, hits = len({run.digest for run in runs}), sorted({str(first_hit(run)) for run in runs})
                met = outcomes == 1 if variant == "lockstep" else True
                good = good and met
                figures[f"{name}, {variant}"] = {"outcomes": outcomes, "first_collision": hits, "repeats": REPEATS}
                rows.append([f"two of {name}", variant, str(outcomes), ", ".join(hits), "", "", verdict(met=met)])
    columns = ["where or who", "variant", "outcomes", "first hit", "off the path at home", "32-bit grid", "repeats itself"]
    show(f"far from the origin, and every type of actor: {REPEATS} repeats each", columns, rows)
    save("far", figures)
    return good
