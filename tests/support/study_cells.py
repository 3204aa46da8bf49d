"""Cells of small studies, made by hand: two cars, four ticks, a collision at the third where there is one."""

from dataclasses import replace

import numpy as np

from samepath.instrument.analysis.cell import AnalysisOptions, CellAnalysis, analyse_cell
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import HostLog, Repeat
from tests.conftest import header

TICKS, COLLISION = 4, 3


def run(repeat: int, early_m: float = 0.0, late_m: float | None = None, *, collides: bool = False, measured=None) -> Repeat:
    """One run, ``early_m`` off its path; from the collision on, where there is one, ``late_m``."""
    recorder = Recorder(repeat, ("x_m", "y_m", "z_m"), 0.1)
    for actor in (1, 2):
        recorder.actor(actor, "car")
    for tick in range(1, TICKS + 1):
        off_m = late_m if collides and tick >= COLLISION and late_m is not None else early_m
        for actor in (1, 2):
            recorder.state(tick, actor, {"x_m": 0.5 * tick + off_m, "y_m": float(actor), "z_m": 0.0})
        if collides and tick == COLLISION:
            recorder.event(tick, "collision", 1, 2, (1.0, 2.0, 3.0))
    recorder.end(TICKS, "done")
    return recorder.finish(HostLog(measured=measured or {}))


def cell(runs, options: AnalysisOptions | None = None, **fields) -> CellAnalysis:
    """Analyse runs as a cell; without a name it is called by its condition."""
    known = {"simulator": "sim", "scenario": "s", "condition": {}, **fields}
    words = [known["scenario"], *(f"{name}={level}" for name, level in known["condition"].items())]
    return analyse_cell(MemoryCell(header(**{"cell": " ".join(words), **known}), runs), options)


def noisy(early_m: float, late_m: float | None = None, *, repeats: int = 12, seed: int = 0, **fields) -> CellAnalysis:
    """A cell whose repeats are off by normal noise of these sigmas; with ``late_m`` there is a collision."""
    draws = np.random.default_rng(seed).normal(0.0, 1.0, (repeats, 2))
    collides = late_m is not None
    runs = [run(n, early_m * a, (late_m or 0.0) * b, collides=collides) for n, (a, b) in enumerate(draws)]
    return cell(runs, **fields)


def elsewhere(one: CellAnalysis, **fields) -> CellAnalysis:
    """The same analysis under another header: what is tested is what is made of it, not how it came about."""
    return replace(one, header=replace(one.header, **fields))
