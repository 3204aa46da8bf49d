"""Cells to report on, made with the recorder as any simulator makes them."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from samepath.instrument.analysis.cell import AnalysisOptions, CellAnalysis, analyse_cell
from samepath.instrument.analysis.study import MissingCell, Restriction
from samepath.instrument.report.document import Document
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header, HostLog, Repeat

CHANNELS = ("x_m", "y_m", "z_m")
STEP_S = 0.05
TICKS = 120
COLLISION_TICK = 60

Shift = Callable[[int, int, int], float]


def no_shift(repeat: int, tick: int, actor: int) -> float:
    return 0.0


def drive(repeat: int, shift: Shift, *, ticks: int = TICKS, collides: bool = False, types=("car", "car", "walker")) -> Repeat:
    """One run: two cars on crossing roads and a walker, who is destroyed where ``collides``."""
    recorder = Recorder(repeat, CHANNELS, STEP_S)
    for actor, kind in enumerate(types, start=1):
        recorder.actor(actor, kind)
    for tick in range(ticks):
        t = tick * STEP_S
        places = {1: (8 * t, 2.0), 2: (20.0 + 3 * math.sin(t / 2), 25.0 - 7 * t), 3: (14.0 + 1.4 * t, 6.0)}
        for actor, (x, y) in places.items():
            if actor == 3 and collides and tick > COLLISION_TICK:
                continue
            off = shift(repeat, tick, actor)
            recorder.state(tick, actor, {"x_m": x + off, "y_m": y + 0.6 * off, "z_m": 0.0})
        if collides and tick == COLLISION_TICK:
            recorder.event(tick, "collision", 2, 3, (1.0, 2.0, 0.0))
            recorder.event(tick, "destroy", 3)
    recorder.end(ticks - 1, "time limit")
    return recorder.finish()


def analyse(repeats: list[Repeat], options: AnalysisOptions | None = None, **header) -> CellAnalysis:
    fields = {
        "experiment": "demo",
        "cell": "cell",
        "scenario": "crossing",
        "channels": CHANNELS,
        "step_s": STEP_S,
        "simulator": "toy",
    }
    return analyse_cell(MemoryCell(Header(**{**fields, **header}), repeats), options)


def noise_after_collision(repeat: int, tick: int, actor: int) -> float:
    """The struck car scatters at once, the other car a second later, by less."""
    late = tick - COLLISION_TICK - {1: 20, 2: 0, 3: TICKS}[actor]
    if late <= 0:
        return 0.0
    size = {1: 2e-4, 2: 6e-3, 3: 0.0}[actor]
    return size * late * float(np.random.default_rng(repeat).normal())


@cache
def identical() -> CellAnalysis:
    return analyse([drive(repeat, no_shift) for repeat in range(20)], cell="identical")


@cache
def noisy() -> CellAnalysis:
    runs = [drive(repeat, noise_after_collision, collides=True) for repeat in range(40)]
    return analyse(runs, cell="noisy", scenario="crash", condition={"cpu_load": 0.95})


@cache
def two_outcomes() -> CellAnalysis:
    def shift(repeat: int, tick: int, actor: int) -> float:
        return 0.1 if repeat in (7, 31) and actor == 1 and tick >= 80 else 0.0

    return analyse([drive(repeat, shift) for repeat in range(50)], cell="two outcomes")


@cache
def within() -> CellAnalysis:
    def shift(repeat: int, tick: int, actor: int) -> float:
        return 1e-13 * repeat * tick if actor == 2 else 0.0

    return analyse([drive(repeat, shift) for repeat in range(12)], cell="within")


@cache
def ends_early() -> CellAnalysis:
    runs = [drive(repeat, no_shift, ticks=90 if repeat == 3 else TICKS) for repeat in range(15)]
    return analyse(runs, cell="ends early", scenario="short")


@cache
def rounded() -> CellAnalysis:
    def to_millimetres(run: Repeat) -> Repeat:
        return replace(run, values=np.round(run.values, 3))

    runs = [to_millimetres(drive(repeat, no_shift)) for repeat in range(20)]
    return analyse(runs, cell="rounded", scenario="imported", lossless=False)


@cache
def hostile() -> CellAnalysis:
    name = "<script>alert('x')</script>&\"quoted\" $x^2$ \x00\x1b[31m\ud800 -->"
    types = ("<b>car</b>\x07", "$\\frac{", "&amp; \u4e8c")
    runs = [drive(repeat, noise_after_collision, collides=True, types=types) for repeat in range(12)]
    return analyse(runs, cell=name, scenario="<img src=x onerror=alert(1)>", simulator="]]>\x0b<sim>", condition={"<i>": "&"})


def document_of(*cells: CellAnalysis, **fields) -> Document:
    given = {"title": "Crossing study", "restriction": Restriction(), "command": "samepath study crossing --repeats 40"}
    provenance = {"host": {"cpu": "test CPU", "cores": 8, "gpu": None}, "seeds": [1, 2, 3]}
    return Document(**{**given, "provenance": provenance, "cells": cells, **fields})


@cache
def strangers() -> CellAnalysis:
    """Two runs that share no actor: there is nothing to compare."""

    def run(repeat: int) -> Repeat:
        recorder = Recorder(repeat, CHANNELS, STEP_S)
        recorder.actor(repeat + 1, "car")
        for tick in range(5):
            recorder.state(tick, repeat + 1, {"x_m": float(tick), "y_m": 0.0, "z_m": 0.0})
        recorder.end(4, "done")
        return recorder.finish()

    return analyse([run(repeat) for repeat in range(2)], cell="strangers", simulator="")


def all_cells() -> tuple[CellAnalysis, ...]:
    return (identical(), noisy(), two_outcomes(), within(), ends_early(), rounded(), hostile(), strangers())


LOADS = (0.0, 0.5, 0.95)
REACHED = {0.0: 0.08, 0.5: 0.52, 0.95: 0.87}  # the highest load misses its target


def study_cell(variant: str, test: int, load: float, repeats: int = 6, **condition) -> CellAnalysis:
    """A cell of a small case study: in lockstep nothing varies, in a game loop it grows with the load and after collisions."""
    collides = test == 2

    def shift(repeat: int, tick: int, actor: int) -> float:
        if variant == "lockstep" or load == 0.0:
            return 0.0
        size = (2e-4 if load == 0.5 else 6e-2) * {-20: 0.1}.get(condition.get("nice", 0), 1.0)
        after = 10.0 if collides and tick >= COLLISION_TICK else 1.0
        return size * after * tick / TICKS * float(np.random.default_rng((repeat, test)).normal()) if actor == 1 else 0.0

    measured = {**condition, "cpu_load": REACHED[load]}
    runs = [
        replace(drive(repeat, shift, ticks=80, collides=collides), host=HostLog(measured=measured)) for repeat in range(repeats)
    ]
    scenario = f"table1-test{test}"
    levels = {"cpu_load": load, **condition}
    name = " ".join([scenario, variant, *(f"{key}={value}" for key, value in levels.items())])
    return analyse(runs, cell=name, scenario=scenario, variant=variant, simulator=f"toy {variant}", condition=levels)


@cache
def case_study() -> tuple[CellAnalysis, ...]:
    return tuple(study_cell(variant, test, load) for variant in ("lockstep", "game loop") for test in (1, 2) for load in LOADS)


@cache
def nice_study() -> tuple[CellAnalysis, ...]:
    return tuple(study_cell("game loop", 1, load, repeats=8, nice=nice) for nice in (-20, 0) for load in (0.5, 0.95))


@cache
def controller_study() -> tuple[CellAnalysis, ...]:
    return tuple(
        study_cell("game loop", 1, 0.95, controller=controller) for controller in ("in-loop", "replayed", "<none & such>")
    )


MISSING = (
    MissingCell(
        "test 1 at nice -20", "toy", "game loop", "table1-test1", {"nice": -20}, "needs CAP_SYS_NICE", "not applicable"
    ),
    MissingCell(
        "test 2 at 75 %", "toy", "game loop", "table1-test2", {"cpu_load": 0.75}, "repeat 3: killed after 60 s", "failed"
    ),
    MissingCell("test 2 at 95 %", "toy", "game loop", "table1-test2", {"cpu_load": 0.95}, "", "not run"),
)


def case_study_document(**fields) -> Document:
    return document_of(*case_study(), **{"title": "case-study", "missing": MISSING, **fields})
