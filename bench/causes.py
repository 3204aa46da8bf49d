"""Is the cause the right one? Every source of non-determinism alone and in pairs, every control, engines of known truth.

The truth of our own world does not come from the code under test but from the world itself, by counterfactual runs. Of two
repeats that part, the first is played again from what went into it, with one kind of input (step lengths, orders, draws,
commands, pushes) taken from the second. If that run leaves the first at the tick at which the two part, that kind acts there.
What acts is the truth; where two kinds would each have parted the runs at that tick, either is.

Controls and foreign engines have their truth by construction: what is wrong with a control is written in its code, and in
synchronous mode nothing is; on the wall clock it is the frames, which let commands come late or make steps longer.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from bench.tools import save, show, verdict
from samepath.core.inputs import RACED, InputKind, InputLog
from samepath.core.streams import unseeded
from samepath.engines import registry
from samepath.engines.interface import RunRequest, Simulator, SimulatorInfo, no_tick
from samepath.instrument.analysis.causes import Cause, window_of
from samepath.instrument.analysis.explain import ExplainedParting, explain_cell
from samepath.instrument.analysis.partings import Parting
from samepath.instrument.execution.folder import stored_cells
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import load_plan
from samepath.instrument.traces.cell import CellTrace, MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header, Repeat
from samepath.simulator.sources import SOURCES

REPEATS = 4
_BEYOND = 6
SEED = 1
WALKERS = {"unstable-queue", "random-queue"}
CLASH = ({"hash-order", "load-order"}, WALKERS)
OF_KIND = {
    InputKind.STEP: {Cause.STEP_LENGTH},
    InputKind.ORDER: {Cause.ORDER},
    InputKind.DRAW: {Cause.RANDOM_STREAM},
    # Nobody decides otherwise here: agents are deterministic, so commands that differ were decided from other moments.
    InputKind.COMMAND: {Cause.LATE_COMMAND},
}
# What is wrong with each control, from its code: chance that is drawn, or something that it never tells.
CONTROLS = {
    "control-exact": Cause.NONE,
    "control-gaussian": Cause.RANDOM_STREAM,
    "control-rare": Cause.SIMULATOR,
    "control-two-outcomes": Cause.RANDOM_STREAM,
    "control-late-bystander": Cause.RANDOM_STREAM,
    "control-ends-early": Cause.SIMULATOR,
    "control-destroyed": Cause.NONE,
    "control-leaky": Cause.SIMULATOR,
    "control-below-resolution": Cause.NONE,
}
# Engines in this process: in step nothing differs; on the wall clock frames do.
ENGINES = (
    ("samepath", {}, {Cause.NONE}),
    ("pymunk", {"mode": "synchronous"}, {Cause.NONE}),
    ("mujoco", {"mode": "synchronous"}, {Cause.NONE}),
    ("panda3d", {"mode": "synchronous"}, {Cause.NONE}),
    ("samepath-game-loop", {"mode": "variable"}, {Cause.STEP_LENGTH}),
    ("samepath-game-loop", {"mode": "semi-fixed"}, {Cause.STEP_LENGTH}),
    ("samepath-game-loop", {"mode": "real-time", "frame_cost_s": 0.004}, {Cause.LATE_COMMAND}),
    ("panda3d", {"mode": "variable-step", "time_scale": 5.0}, {Cause.STEP_LENGTH}),
    ("panda3d", {"mode": "game-loop", "time_scale": 5.0}, {Cause.LATE_COMMAND}),
    ("mujoco", {"mode": "game-loop", "time_scale": 5.0}, {Cause.LATE_COMMAND}),
)


@dataclass(frozen=True)
class Judged:
    """One parting: what was said, and what may be said."""

    what: str
    said: Cause
    truth: frozenset[Cause]

    @property
    def right(self) -> bool:
        return self.said in self.truth

    @property
    def is_unknown(self) -> bool:
        return self.said is Cause.UNKNOWN and not self.right


def source_names() -> list[tuple[str, ...]]:
    """Every source alone, and every pair that can be switched on together."""
    pairs = [pair for pair in combinations(SOURCES, 2) if not any(set(pair) == clash for clash in CLASH)]
    return [*((name,) for name in SOURCES), *pairs]


def scenario_of(names: tuple[str, ...]) -> str:
    """Where a source can act: walkers plan in one scenario, cars collide in the other."""
    return "draft-test7" if WALKERS & set(names) else "table1-test2"


def study_of(cells: list[tuple[str, ...]], repeats: int) -> str:
    """A study of sources as a file, the way a user would write it."""
    lines = ["name: causes", "design:", "  cells:"]
    for names in cells:
        cold = ", condition: {isolation: cold, hash_seed: random}" if "hash-order" in names else ""
        lines.append(
            f"    - {{simulator: samepath-game-loop, scenario: {scenario_of(names)}, name: {' + '.join(names)}, "
            f'settings: {{sources: "{",".join(names)}"}}{cold}}}'
        )
    lines += [f"  repeats: {repeats}", f"  seed: {SEED}", "settings: {mode: lockstep, frame_cost_s: 0.0}"]
    return "\n".join(lines) + "\n"


def judge_sources(cells: list[tuple[str, ...]], repeats: int = REPEATS) -> list[Judged]:
    """Run the sources and hold every parting that is explained against its counterfactual runs."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "causes.yaml"
        file.write_text(study_of(cells, repeats), encoding="utf-8")
        plan = load_plan(str(file))
        out = Path(folder) / "out"
        run_plan(plan, out, lambda progress: None)
        for names, cell in zip(cells, stored_cells(plan, out), strict=True):
            explained = explain_cell(cell)
            if not explained.partings:
                found.append(Judged(" + ".join(names), Cause(explained.cause), frozenset({Cause.NONE})))
            found += [Judged(" + ".join(names), fork.cause.cause, truth_of(cell, names, fork)) for fork in explained.partings]
    return found


def truth_of(cell: CellTrace, names: tuple[str, ...], fork: ExplainedParting) -> frozenset[Cause]:
    """Play the first run again with one kind of input from the second: whatever parts it there is the truth."""
    a, b = fork.parting.a, fork.parting.b
    log_a, log_b = cell.inputs(a), cell.inputs(b)
    if log_a is None or log_b is None:
        raise RuntimeError("what went into a run of our own world was not taken down")
    window = window_of(cell.header, fork.parting, log_a, log_b)
    run_a = cell.load(a)
    if _parts_there(cell, names, run_a, log_a, fork.parting):
        raise RuntimeError(f"{names}: repeat {a} does not come back from its own inputs: no counterfactual would mean anything")
    acting = [
        kind for kind in InputKind if _parts_there(cell, names, run_a, _mixed(log_a, log_b, kind, window.last), fork.parting)
    ]
    if not acting:
        return frozenset({Cause.SIMULATOR})
    causes: set[Cause] = set()
    for kind in acting:
        causes |= _pushed(log_a, log_b, window.last) if kind is InputKind.PUSH else OF_KIND[kind]
    return frozenset(causes)


def _pushed(log_a: InputLog, log_b: InputLog, last: int) -> set[Cause]:
    """What the pushes up to a step are: sums in the order in which threads finished, or a state that was struck."""
    texts = {entry.text for log in (log_a, log_b) for entry in log if entry.kind is InputKind.PUSH and entry.step <= last}
    return {Cause.ORDER if text == RACED else Cause.SIMULATOR for text in texts}


def _mixed(log_a: InputLog, log_b: InputLog, kind: InputKind, last: int) -> InputLog:
    """The inputs of one run with one kind of them, up to a step, from the other."""
    ranks = {listed_kind: rank for rank, listed_kind in enumerate(InputKind)}
    kept = [entry for entry in log_a if entry.kind is not kind or entry.step > last]
    taken = [entry for entry in log_b if entry.kind is kind and entry.step <= last]
    return InputLog(sorted([*kept, *taken], key=lambda entry: (entry.step, ranks[entry.kind])), log_a.covers, log_a.step_s)


def _parts_there(cell: CellTrace, names: tuple[str, ...], run_a: Repeat, log: InputLog, parting: Parting) -> bool:
    header = cell.header
    recorder = Recorder(run_a.repeat, header.channels, header.step_s)
    settings = {"mode": "lockstep", "frame_cost_s": 0.0, "sources": ",".join(names)}
    # A few ticks beyond: where steps vary, a state lies between two of them and its bound needs the one after.
    until_s = (parting.tick + _BEYOND) * header.step_s
    request = RunRequest(scenario_of(names), run_a.repeat, SEED, settings, duration_s=until_s, inputs=log)
    with registry.create("samepath-game-loop") as simulator:
        simulator.run(request, recorder)
    again = recorder.finish()
    # Only up to the parting: the counterfactual run is cut off right after it.
    cut = int(np.searchsorted(run_a.tick, parting.tick, side="right"))
    there = int(np.searchsorted(again.tick, parting.tick, side="right"))
    return not np.array_equal(run_a.digests[:cut], again.digests[:there])


def judge_controls() -> list[Judged]:
    """Explain every control."""
    found = []
    for name, truth in CONTROLS.items():
        repeats = [137, 0, 1, 2, 3, 7]
        cell = cell_of(name, "crossing", {}, repeats)
        explained = explain_cell(cell)
        said = [fork.cause.cause for fork in explained.partings] or [Cause(explained.cause)]
        found += [Judged(name, cause, frozenset({truth})) for cause in said]
    return found


class SeeingCar(Simulator):
    """A car that drives by what a sensor shows it, wrong in one known place: ``sensor`` noise, or a ``controller`` that draws.

    The world itself is exact: nothing but the command can part two runs, and what the command was decided from is recorded.
    """

    def __init__(self, wrong: str) -> None:
        self._wrong = wrong

    def info(self) -> SimulatorInfo:
        return SimulatorInfo(
            "seeing-car", "1", f"a {self._wrong} that is noisy", ("straight",), 0.05, ("x_m", "y_m", "throttle_ratio")
        )

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Drive 40 ticks; the noise begins at tick 20."""
        recorder.actor(1, "car")
        chance, x_m, speed_mps = unseeded(), 0.0, 5.0
        for tick in range(40):
            noise = float(chance.normal(0.0, 0.1)) if tick >= 20 else 0.0
            seen_m = 100.0 - x_m + (noise if self._wrong == "sensor" else 0.0)
            recorder.sensor(tick, "range", "sensor.range", np.array([seen_m]))
            throttle = 0.01 * seen_m + (noise if self._wrong == "controller" else 0.0)
            speed_mps += 0.05 * (throttle - 0.1 * speed_mps)
            x_m += 0.05 * speed_mps
            recorder.state(tick + 1, 1, {"x_m": x_m, "y_m": 0.0, "throttle_ratio": throttle})
            on_tick(tick + 1)
        recorder.in_step()
        recorder.end(40, "done")


def judge_controllers() -> list[Judged]:
    """Explain a controller that decides otherwise from the same, and one that was shown something else."""
    found = []
    for wrong, truth in (("controller", Cause.COMMAND_VALUE), ("sensor", Cause.SENSOR_DATA)):
        explained = explain_cell(cell_of(f"a {wrong} that is noisy", "straight", {}, range(4), own=SeeingCar(wrong)))
        found += [Judged(f"a {wrong} that is noisy", fork.cause.cause, frozenset({truth})) for fork in explained.partings]
    return found


def judge_engines() -> list[Judged]:
    """Explain engines whose mode says what can differ; those that are not installed are left out."""
    found = []
    for name, settings, truth in ENGINES:
        with registry.create(name) as simulator:
            if simulator.unavailable(settings):
                continue
        explained = explain_cell(cell_of(name, "table1-test2", settings, range(3), duration_s=4.0))
        said = [fork.cause.cause for fork in explained.partings] or [Cause(explained.cause)]
        # On a quick machine every frame may be in time: then nothing differs, and that is right.
        allowed = frozenset(truth | ({Cause.NONE} if not explained.partings else set()))
        found += [Judged(f"{name} {settings.get('mode', '')}".strip(), cause, allowed) for cause in said]
    return found


def cell_of(
    name: str,
    scenario: str,
    settings: dict[str, object],
    repeats: object,
    duration_s: float | None = None,
    own: Simulator | None = None,
) -> MemoryCell:
    """Run repeats of a simulator in this process."""
    runs = []
    with own or registry.create(name) as simulator:
        info = simulator.described(settings)  # type: ignore[arg-type]
        for number in repeats:  # type: ignore[attr-defined]
            recorder = Recorder(number, info.channels, info.step_s)
            request = RunRequest(scenario, number, SEED, settings, duration_s=duration_s)  # type: ignore[arg-type]
            simulator.run(request, recorder)
            runs.append(recorder.finish())
    header = Header("causes", name, scenario, info.channels, info.step_s, simulator=info.name)
    return MemoryCell(replace(header, lossless=info.capabilities.lossless, time_scale=info.time_scale), runs)


def main() -> bool:
    """Judge all and write the confusion matrix."""
    judged = [*judge_sources(source_names()), *judge_controls(), *judge_controllers(), *judge_engines()]
    unknown = [case for case in judged if case.is_unknown]
    wrong = [case for case in judged if not (case.right or case.is_unknown)]
    rows = []
    for what in dict.fromkeys(case.what for case in judged):
        mine = [case for case in judged if case.what == what]
        said = Counter(case.said.value for case in mine)
        truth = sorted({cause.value for case in mine for cause in case.truth})
        told, right = ", ".join(f"{cause} {count}" for cause, count in said.items()), sum(case.right for case in mine)
        rows.append(
            [what, ", ".join(truth), told, f"{right} of {len(mine)}", verdict(met=not any(case in wrong for case in mine))]
        )
    show("causes", ["what", "truth", "said", "right", "aim"], rows)
    matrix = Counter(
        (min(case.truth, key=lambda cause: (cause is not case.said, cause.value)).value, case.said.value) for case in judged
    )
    figures = {
        "partings": len(judged),
        "right": sum(case.right for case in judged),
        "unknown": len(unknown),
        "matrix": [{"truth": truth, "said": said, "count": count} for (truth, said), count in sorted(matrix.items())],
        "rows": [dict(zip(("what", "truth", "said", "right"), row[:4], strict=True)) for row in rows],
    }
    save("causes", figures)
    return not wrong
