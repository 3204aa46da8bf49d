"""Shared helpers: small traces made by hand, so that every expected number can be checked on paper."""

import compileall
import gc
import json
import os
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header, Repeat
from tests.support import forked
from tests.support.namespaces import NO_NAMESPACES

# Where Python is told to write no bytecode (images of containers tell it that), each of the hundreds of processes that tests
# start would compile the package again: 0.4 s for a server, and 10 s for every process that collects tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# pytest rewrites the asserts of a package that brings a plugin, as ours does: 480 modules of it, which have none.
for finder in sys.meta_path:
    getattr(finder, "_must_rewrite", set()).discard("samepath")

# Property tests repeat themselves too: the same examples on every run, 60 where a test says nothing else: those that follow
# have passed before, and are of the same kind. HYPOTHESIS_PROFILE=explore looks for new ones, a hundred each time.
# None has a deadline: how long an example takes is the machine's affair.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Processes that share the tests; a single module is run in one, which starts sooner. With the long tests there are two more
# than there are cores: the 23 longest kept 0.6 of a core busy, the rest of the time they wait for Ray, nodes or clients.
WORKERS_MOST = 4
# What is run by one process, one test after the other: pages are made from cells that were analysed once, and loads that are
# held at a target do not meet each other.
TOGETHER = {
    "report": ("instrument/report",),
    "loads": (
        "instrument/conditions/test_cpu_load.py",
        "instrument/conditions/test_machine.py",
        "instrument/execution",
    ),
}
# What needs code that is compiled on first use and kept on disk; modules are run whole, because every process has to load it.
# One process begins with the first of these, which builds it. Others would have to wait for that, so that the rest come later.
COMPILED = (
    "simulator/sensors/test_cameras.py",
    "simulator/sensors",
    "simulator/dataset",
    "simulator/server/test_sensors_served.py",
    "simulator/server/test_server_age.py",
    "simulator/server/test_weather_felt.py",
    "engines/test_samepath_sensing.py",
    "cluster",
)
# Modules whose tests keep for each other what took seconds to read.
KEEPING = ("test_architecture.py",)
HERE = Path(__file__).parent


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    modules = {argument.partition("::")[0] for argument in config.args}
    alone = len(modules) == 1 and modules.pop().endswith(".py")
    cores = len(os.sched_getaffinity(0))
    return 0 if alone or cores == 1 else min(cores if config.option.markexpr else cores + 2, WORKERS_MOST)


# Tiers, by place. ``make quick`` leaves all of them out; ``make test`` runs everything.
TIERS = {
    "engine": (
        "engines/test_airsim.py", "engines/test_babylon.py", "engines/test_beamng.py", "engines/test_glancing.py",
        "engines/test_godot.py",
        "engines/test_gymnasium.py", "engines/test_metadrive.py", "engines/test_mujoco.py", "engines/test_panda3d.py",
        "engines/test_in_process.py", "engines/test_pymunk.py", "engines/test_sumo.py", "engines/test_torcs.py",
    ),
    "cluster": ("cluster", "cli/test_cluster_verbs.py", "instrument/execution/test_ray.py"),
    "slow": (
        "bench/test_causes_of_sources.py", "bench/test_scale.py", "core/test_supervisor.py",
        "simulator/maps/test_map_digests.py", "simulator/traffic",
        "cli", "engines/test_carla.py", "engines/test_command.py", "engines/test_game_loop.py", "engines/test_reference.py",
        "engines/test_replays.py", "engines/test_samepath_sensing.py", "engines/test_subprocess.py", "instrument/conditions",
        "instrument/execution", "instrument/report", "instrument/test_bisect.py", "instrument/test_shrink.py",
        "instrument/traces/test_importer_fuzz.py",
        "instrument/traces/test_store.py", "instrument/viewer/test_pictures.py",
        "scenarios/test_same_bits.py", "sessions/test_twice.py",
        "simulator/dataset", "simulator/sensors", "simulator/server/test_fuzz.py",
        "simulator/server/test_journal.py", "simulator/server/test_journal_kill.py", "simulator/server/test_managers.py",
        "simulator/server/test_map_fuzz.py", "simulator/server/test_resources.py", "simulator/server/test_shutdown.py",
        "simulator/server/test_map_trial.py", "simulator/server/test_recordings.py", "simulator/server/test_remote_faults.py",
        "simulator/server/test_sensors_served.py", "simulator/server/test_server_age.py",
        "simulator/server/test_walkers_on_the_mesh.py",
        "simulator/server/test_weather_felt.py",
        "simulator/server/test_wheel.py", "simulator/server/test_wheel_coming_and_going.py",
        "simulator/server/test_wheel_dvs.py",
        "simulator/server/test_wheel_sensors.py", "simulator/test_sources.py", "simulator/world/test_random_scenarios.py",
        "simulator/world/test_scenarios.py", "test_docs.py",
    ),
}  # fmt: skip


def pytest_ignore_collect(collection_path, config):
    """Do not even import what ``-m`` leaves out as a whole: numba, Ray, CARLA's client and engines take seconds."""
    asked = config.option.markexpr
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+( and not \w+)*", asked):
        return None
    return bool(set(_tiers(collection_path)) & set(re.findall(r"not (\w+)", asked))) or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Compile the package once, in a fresh clone: processes that begin at the same moment would all do it."""
    compileall.compile_dir(HERE.parent / "src" / "samepath", quiet=2, workers=0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Do not look for garbage among thousands of tests: 4 s in every process while they are collected, and again later."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def pytest_collection_modifyitems(config, items):
    """Mark what belongs to a tier. Processes that share tests begin with the long ones, so that none is left for the end."""
    gone = [inside for places in TIERS.values() for inside in places if not (HERE / inside).exists()]
    assert not gone, f"tiers name what is not there: {gone}"
    for item in items:
        for tier in _tiers(item.path):
            item.add_marker(tier)
    if hasattr(config, "workerinput"):
        seconds = json.loads(DURATIONS.read_text("utf-8"))["cpu_s"]
        items.sort(key=lambda item: _turn(item, seconds.get(_scope(item.path, item.nodeid), 0.0)))


@cache
def _tiers(module: Path) -> tuple[str, ...]:
    """Return the tiers of a module. Kept: 6000 tests times 70 places take seconds in every process."""
    place = module.relative_to(HERE)
    return tuple(tier for tier, places in TIERS.items() if any(place.is_relative_to(inside) for inside in places))


def _turn(item: pytest.Item, seconds: float) -> tuple[int, float]:
    """Return when a test is given out: the long ones first, so that the end is not one process with a long one."""
    if item.path == HERE / COMPILED[0] or _group(item.path):
        return 0, 0.0
    if _is_compiled(item.path):
        return 2, -seconds
    is_long = seconds > 0.0 or any(item.get_closest_marker(tier) for tier in (*TIERS, "browser"))
    return (1, -seconds) if is_long else (3, 0.0)


@cache
def _is_compiled(module: Path) -> bool:
    return any(module.is_relative_to(HERE / inside) for inside in COMPILED)


@cache
def _group(module: Path) -> str | None:
    place = module.relative_to(HERE)
    return next((name for name, places in TOGETHER.items() if any(place.is_relative_to(folder) for folder in places)), None)


# In CI everything is installed that a test can need: one that is skipped there was expected to run, and its suite is not green.
# What a machine's kernel or its sandbox does not permit cannot be installed, and a compiler is nothing that this package
# installs: that is told, and does not count.
NO_COMPILER = "g++ is not installed"
SKIPPED: list[str] = []
NOT_PERMITTED: list[str] = []


def pytest_runtest_logreport(report):
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        beyond_us = NO_NAMESPACES in reason or NO_COMPILER in reason
        (NOT_PERMITTED if beyond_us else SKIPPED).append(f"{report.nodeid}: {reason}")


def pytest_collectreport(report):
    pytest_runtest_logreport(report)


def pytest_terminal_summary(terminalreporter):
    if SKIPPED:
        terminalreporter.section("skipped, but CI=true says that everything can run", red=True, bold=True)
        for line in SKIPPED:
            terminalreporter.line(line)
    if NOT_PERMITTED:
        terminalreporter.section("skipped, because this machine does not permit it or has no compiler")
        for line in NOT_PERMITTED:
            terminalreporter.line(line)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu_s"] = CPU_S
    elif session.config.option.write_durations:
        _write_durations(CPU_S)
    if SKIPPED and not hasattr(session.config, "workerinput") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@cache
def together(module: Path) -> str | None:
    """The name of what a module is run together with; one whose tests share something is run whole; others are spread."""
    place = module.relative_to(HERE)
    shares = _is_compiled(module) or str(place) in KEEPING or 'scope="module"' in module.read_text("utf-8")
    return _group(module) or (str(place) if shares else None)


def _scope(module: Path, nodeid: str) -> str:
    """The name of what one process runs without a break: a group, a module, or a test."""
    return together(module) or nodeid


# How long scopes take, for _turn. ``make test`` with --write-durations makes the list anew; so does a part of the tests, for
# its part. In seconds of processors, of the test's process and of those that it started: other work on the machine does not
# change them. Scopes below a second come last in any order.
DURATIONS = HERE / "durations.json"
SHORTEST_S = 1.0
CPU_S: dict[str, float] = {}


def pytest_addoption(parser):
    parser.addoption("--write-durations", action="store_true", help="note how long tests take, so that long ones come first")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before_s = _taken_s()
    result = yield
    scope = _scope(item.path, item.nodeid)
    CPU_S[scope] = CPU_S.get(scope, 0.0) + _taken_s() - before_s
    return result


def _taken_s() -> float:
    """Of this process and of those it has waited for; commands that a server forks count when they are run, not at its end."""
    return sum(os.times()[:4]) + forked.untold_s


def _write_durations(seconds: dict[str, float]) -> None:
    """Replace what is known of the scopes that were run. Of those that are gone nothing is kept."""
    known = json.loads(DURATIONS.read_text("utf-8"))
    kept = {name: value for name, value in known["cpu_s"].items() if name not in seconds and _is_there(name)}
    long = {name: round(value, 1) for name, value in seconds.items() if value >= SHORTEST_S}
    DURATIONS.write_text(json.dumps({"cpu_s": dict(sorted({**kept, **long}.items()))}, indent=1) + "\n", "utf-8")


def _is_there(scope: str) -> bool:
    return scope in TOGETHER or any((base / scope.partition("::")[0]).is_file() for base in (HERE, HERE.parent))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for scope, value in getattr(node, "workeroutput", {}).get("cpu_s", {}).items():
        CPU_S[scope] = CPU_S.get(scope, 0.0) + value


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return together(config.rootpath / nodeid.partition("::")[0]) or nodeid

    config.option.loadscopereorder = False  # they come in the order in which they are wanted
    return Scheduling(config, log)


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
