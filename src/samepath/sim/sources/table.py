"""The table of sources: which can be switched on, what of the paper they stand for, and what they do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samepath.base.errors import InputError
from samepath.base.streams import unseeded
from samepath.base.suggest import unknown
from samepath.sim.loop import LoopSettings
from samepath.sim.scenarios.simulation import Arrangement, SimulationSettings
from samepath.sim.sources.bit_flip import BitFlip
from samepath.sim.sources.disturbance import Disturbance
from samepath.sim.sources.gusts import Gusts
from samepath.sim.sources.orders import hash_order, loaded_actors, loaded_statics
from samepath.sim.sources.panels import Panels

DEFAULT_GUSTS_N: Final = 50.0
DEFAULT_PANELS: Final = 64


@dataclass(frozen=True)
class Source:
    """A source of non-determinism: the paper's section, what it does, and what to run for comparison."""

    name: str
    section: str
    summary: str
    twin: str


SOURCES: Final[Mapping[str, Source]] = {
    one.name: one
    for one in (
        Source("wall-clock-step", "III, IV-E", "each step is as long as the frame before took", "mode lockstep"),
        Source("async-controller", "IV-B", "controllers run in a thread of their own", "controllers inline"),
        Source("unseeded-random", "IV-E", "gusts of wind drawn from entropy", "gusts_n without the source: a seeded stream"),
        Source("hash-order", "IV-F", "actors are spawned in the order of a set of strings", "no source, or PYTHONHASHSEED=0"),
        Source("unstable-queue", "IV-F", "walkers plan with a plain binary heap", "queue stable"),
        Source("random-queue", "IV-F", "walkers' planner breaks ties by lots from entropy", "queue randomised: seeded lots"),
        Source(
            "parallel-accumulation", "IV-A, IV-B", "forces are added as threads finish", "panels without the source: in order"
        ),
        Source("bit-flip", "IV-D", "one low bit of one actor's state turns over at a random tick", "no source"),
        Source("load-order", "IV-E", "meshes and actors enter physics as threads finish loading them", "no source"),
    )
}


def parse_sources(text: str) -> tuple[str, ...]:
    """Read names separated by commas; nothing is no source."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if name not in SOURCES:
            raise unknown("source of non-determinism", name, SOURCES)
    return names


def loop_with(settings: LoopSettings, names: tuple[str, ...]) -> LoopSettings:
    """Return the loop with the sources that are modes of it; controllers in a thread cannot keep lockstep."""
    mode = "variable" if "wall-clock-step" in names else settings.mode
    if "async-controller" not in names:
        return replace(settings, mode=mode)
    return replace(settings, mode="real-time" if mode == "lockstep" else mode, controllers="thread")


def simulation_with(settings: SimulationSettings, names: tuple[str, ...]) -> SimulationSettings:
    """Return the simulation's settings with the walkers' queue that the sources ask for."""
    wanted = [queue for name, queue in (("unstable-queue", "unstable"), ("random-queue", "randomised")) if name in names]
    if len(wanted) > 1:
        raise InputError("sources: unstable-queue and random-queue are both the walkers' queue: choose one")
    return replace(settings, queue=wanted[0]) if wanted else settings


def arrangement_with(names: tuple[str, ...]) -> Arrangement:
    """Return how the scenario is put together."""
    arrangement = Arrangement()
    if "hash-order" in names and "load-order" in names:
        raise InputError("sources: hash-order and load-order both order the actors: choose one")
    if "hash-order" in names:
        arrangement = replace(arrangement, order=hash_order)
    if "load-order" in names:
        arrangement = replace(arrangement, order=loaded_actors, statics=loaded_statics)
    if "random-queue" in names:
        arrangement = replace(arrangement, chance=_entropy)
    return arrangement


def disturbances_with(
    names: tuple[str, ...], *, gusts_n: float = 0.0, panels: int = 0, seed: int = 0, ticks: int = 0
) -> tuple[Disturbance, ...]:
    """Return what meddles before each step. ``gusts_n`` and ``panels`` alone give the deterministic twins.

    ``ticks``: a bit flips before one of the first so many.
    """
    if not gusts_n >= 0 or panels < 0:
        raise InputError(f"gusts_n and panels of at least 0 were wanted, but {gusts_n} and {panels} came")
    found: list[Disturbance] = []
    unseeded_gusts, parallel = "unseeded-random" in names, "parallel-accumulation" in names
    if gusts_n or unseeded_gusts:
        found.append(Gusts(gusts_n or DEFAULT_GUSTS_N, None if unseeded_gusts else seed))
    if panels or parallel:
        found.append(Panels(panels or DEFAULT_PANELS, parallel=parallel))
    if "bit-flip" in names:
        found.append(BitFlip(ticks, None))
    return tuple(found)


def _entropy(*key: str | int) -> np.random.Generator:
    return unseeded()
