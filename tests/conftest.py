"""Shared helpers: small traces made by hand, so that every expected number can be checked on paper."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from samepath.traces.cell import MemoryCell
from samepath.traces.recorder import Recorder
from samepath.traces.records import Header, Repeat

# Property tests repeat themselves too: the same examples on every run. HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Processes that share the tests; a single module is run in one, which starts sooner.
WORKERS_MOST = 4
# Tests of one group are run by one process, one after the other: code that is built on first use is then built once, and loads
# that are held at a target do not meet each other.
GROUPS = {
    "compiled": ("sim/sensors", "sim/dataset", "sim/server/test_sensors_served.py", "simulators/test_samepath_sensing.py"),
    "report": ("report",),
    "loads": ("conditions/test_cpu_load.py", "conditions/test_machine.py", "execution"),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    modules = {one.partition("::")[0] for one in config.args}
    alone = len(modules) == 1 and modules.pop().endswith(".py")
    cores = min(len(os.sched_getaffinity(0)), WORKERS_MOST)
    return 0 if alone or cores == 1 else cores


def group_of(item):
    """The group a test belongs to: a named one, or that of the tests which share a fixture of its module with it."""
    place = item.path.relative_to(Path(__file__).parent)
    for name, places in GROUPS.items():
        if any(place.is_relative_to(one) for one in places):
            return name
    defined = [one for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    shared = any(one.scope == "module" and one.baseid.endswith(".py") for one in defined)
    return place.stem if shared else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        group = group_of(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


STEP_S = 0.1


def header(**changes) -> Header:
    fields = {
        "experiment": "test",
        "cell": "cell",
        "scenario": "s",
        "channels": ("x_m", "y_m", "z_m"),
        "step_s": STEP_S,
    }
    return Header(**{**fields, **changes})


def straight_run(repeat: int, *, ticks: int = 20, actors: int = 2, shift=lambda tick, actor: 0.0, end: str = "done") -> Repeat:
    """Actors drive along x at 0.7 m a tick, displaced in y by ``shift``."""
    recorder = Recorder(repeat, ("x_m", "y_m", "z_m"), STEP_S)
    for actor in range(1, actors + 1):
        recorder.actor(actor, "car")
    for tick in range(1, ticks + 1):
        for actor in range(1, actors + 1):
            recorder.state(tick, actor, {"x_m": 0.7 * tick, "y_m": 3.3 * actor + shift(tick, actor), "z_m": 0.0})
    recorder.end(ticks, end)
    return recorder.finish()


def cell_of(repeats, **changes) -> MemoryCell:
    return MemoryCell(header(**changes), repeats)


def ulps_apart(a: float, b: float) -> float:
    if a == b or (np.isnan(a) and np.isnan(b)):
        return 0.0
    if np.isinf(a) or np.isinf(b):
        return np.inf
    return abs(a - b) / float(np.spacing(max(abs(a), abs(b))))


@pytest.fixture
def authors_log() -> Path:
    """A log in the format of the paper's authors; the digits are our own."""
    return Path(__file__).parent / "data" / "tsl_format.txt"
