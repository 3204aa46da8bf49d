"""Runs inside the interpreter of a script that ``samepath twice`` looks into; Python imports it by its name at the start.

It is put on PYTHONPATH for further runs of a script whose runs have parted, never for the runs that are compared first. It
does two things, as the variable SAMEPATH_EVIDENCE says:

* *watch*: which line draws from ``random`` without a seed, reads the clock, starts a thread, calls CARLA. Written as lines of
  JSON the moment it happens, because a script may end by a crash.
* *pin*: give ``random``, ``numpy.random``, the clock or the traffic manager a known beginning, so that nothing is left to vary
  but what an experiment varies.

It imports nothing of samepath: the script's interpreter may be another one. It changes nothing unless it is told to, and an
error of its own is written down and never stops the script.
"""
# ruff: noqa: ANN401 - it stands in for functions of any shape

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import sys
import threading
import time
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded at this point
_STDLIB = os.path.dirname(os.path.abspath(os.__file__))  # noqa: PTH100, PTH120
_LINES_MOST = 500_000
_PLACES_MOST = 200
_DRAWS = (
    "random", "uniform", "triangular", "randint", "choice", "randrange", "sample", "shuffle", "choices", "normalvariate",
    "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate", "gauss", "betavariate", "paretovariate",
    "weibullvariate", "getrandbits", "randbytes",
)  # fmt: skip
_NUMPY_DRAWS = (
    "rand", "randn", "randint", "random", "random_sample", "ranf", "sample", "choice", "bytes", "shuffle", "permutation",
    "uniform", "normal", "standard_normal", "beta", "binomial", "exponential", "gamma", "poisson", "lognormal", "triangular",
)  # fmt: skip
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_CARLA_CLASSES = (
    "Client", "World", "Actor", "Vehicle", "Walker", "WalkerAIController", "TrafficLight", "Sensor", "ServerSideSensor",
    "TrafficManager",
)  # fmt: skip
# What only reads the last state, or is called so often that watching would slow a script down.
_NOT_WATCHED = ("get_", "is_", "has_", "_")
# Taken before the clock is watched: evidence is timed by the real one, also where the script's is pinned.
_real_monotonic_ns = time.monotonic_ns


class _Report:
    """Lines of JSON, appended one by one; several processes of one script share the file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._left = _LINES_MOST
        self._places: dict[str, set[tuple[str, int]]] = {}

    def add(self, kind: str, **facts: Any) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        line = json.dumps({"kind": kind, "pid": os.getpid(), **facts}, default=str)
        with contextlib.suppress(OSError):
            os.write(self._file, line.encode() + b"\n")

    def once(self, kind: str, frame: Any, **facts: Any) -> None:
        """Note the place that a kind of thing is done at, each place once."""
        place = _place(frame)
        known = self._places.setdefault(kind, set())
        if place is not None and place not in known and len(known) < _PLACES_MOST:
            known.add(place)
            self.add(kind, file=place[0], line=place[1], library=_is_library(place[0]), **facts)


def _is_stdlib(name: str) -> bool:
    return name.startswith("<") or (name.startswith(_STDLIB) and "-packages" not in name) or name.startswith(_HERE)


def _is_library(name: str) -> bool:
    return _is_stdlib(name) or "-packages" in name


def _place(frame: Any) -> tuple[str, int] | None:
    """The innermost line of the user's own code; of a library's where there is none of the user's."""
    first, steps = None, 0
    while frame is not None and steps < 100:
        name = frame.f_code.co_filename
        if not _is_library(name):
            return name, frame.f_lineno
        if first is None and not _is_stdlib(name):
            first = name, frame.f_lineno
        frame, steps = frame.f_back, steps + 1
    return first


def _caller_is_stdlib(frame: Any) -> bool:
    return frame is not None and _is_stdlib(frame.f_code.co_filename)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls back when a module has been imported."""

    def __init__(self, after: dict[str, Any]) -> None:
        self._after = after

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._after:
            return None
        then = self._after.pop(name)
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target)) is not None), None)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _watch_random(report: _Report, seed: int | None) -> None:
    import random

    seeded = False
    set_seed = random.seed
    numbers = itertools.count(1)
    if seed is not None:
        set_seed(seed)

    def seed_module(a: Any = None, version: int = 2) -> None:
        nonlocal seeded
        if a is None:
            report.once("random", sys._getframe(1), name="random.seed()")
            set_seed(seed if seed is not None else None)
        else:
            seeded = True
            report.once("seed", sys._getframe(1), name="random.seed")
            set_seed(a, version)

    def watched(name: str, draw: Any) -> Any:
        def drawn(*given: Any, **named: Any) -> Any:
            frame = sys._getframe(1)
            if not seeded and not _caller_is_stdlib(frame):
                report.once("random", frame, name=f"random.{name}")
            return draw(*given, **named)

        return drawn

    random.seed = seed_module
    for name in _DRAWS:
        if hasattr(random, name):
            setattr(random, name, watched(name, getattr(random, name)))
    seed_instance = random.Random.seed

    def seed_own(self: Any, a: Any = None, version: int = 2) -> None:
        frame = sys._getframe(2)  # past Random.__init__
        if a is None and type(self) is random.Random and not _caller_is_stdlib(frame):
            report.once("random", frame, name="random.Random()")
            # Each generator has numbers of its own, as it would by chance, and the same ones in every run.
            a = None if seed is None else seed * 1000 + next(numbers)
        seed_instance(self, a, version)

    random.Random.seed = seed_own  # type: ignore[method-assign]
    _watch_entropy(report, random, seed)


def _watch_entropy(report: _Report, random: Any, seed: int | None) -> None:
    """``uuid4``, ``secrets`` and ``SystemRandom`` ask the operating system."""
    import uuid

    ask = os.urandom
    pinned = None if seed is None else random.Random(seed)

    def urandom(size: int) -> bytes:
        frame = sys._getframe(1)
        is_theirs = not _caller_is_stdlib(frame) or frame.f_code.co_filename in (uuid.__file__, random.__file__)
        if not is_theirs:
            return ask(size)
        report.once("random", frame, name="os.urandom")
        return ask(size) if pinned is None else pinned.randbytes(size)

    os.urandom = urandom
    # It has taken the name at its own import.
    random._urandom = urandom


def _numpy_random(report: _Report, seed: int | None) -> Any:
    def after(module: Any) -> None:
        state = {"seeded": False}
        set_seed, make = module.seed, module.default_rng
        if seed is not None:
            set_seed(seed)

        def seed_module(given: Any = None) -> None:
            if given is None:
                report.once("random", sys._getframe(1), name="numpy.random.seed()")
                set_seed(seed)
            else:
                state["seeded"] = True
                set_seed(given)

        def default_rng(given: Any = None) -> Any:
            if given is None:
                report.once("random", sys._getframe(1), name="numpy.random.default_rng()")
            return make(seed if given is None else given)

        def watched(name: str, draw: Any) -> Any:
            def drawn(*given: Any, **named: Any) -> Any:
                if not state["seeded"]:
                    report.once("random", sys._getframe(1), name=f"numpy.random.{name}")
                return draw(*given, **named)

            return drawn

        module.seed, module.default_rng = seed_module, default_rng
        for name in _NUMPY_DRAWS:
            if hasattr(module, name):
                setattr(module, name, watched(name, getattr(module, name)))

    return after


def _torch(seed: int | None) -> Any:
    def after(module: Any) -> None:
        if seed is not None and hasattr(module, "manual_seed"):
            module.manual_seed(seed)

    return after


def _watch_clock(report: _Report, pinned: list[float] | None) -> None:
    """A pinned clock starts at a given time and goes on by the same amount with each reading, and by what was slept.

    The standard library keeps the real one: its time-outs and queues are not what a script decides by.
    """
    reads, slept = itertools.count(), [0.0]
    sleep = time.sleep

    def moment(given: list[float]) -> float:
        return given[0] + given[1] * next(reads) + slept[0]

    def watched(name: str, read: Any, scale: int) -> Any:
        def now() -> Any:
            frame = sys._getframe(1)
            if _caller_is_stdlib(frame):
                return read()
            report.once("clock", frame, name=f"time.{name}")
            if pinned is None:
                return read()
            value = moment(pinned)
            return value if scale == 1 else int(value * scale)

        return now

    def slept_for(seconds: Any) -> None:
        report.once("sleep", sys._getframe(1), name="time.sleep")
        sleep(seconds)
        slept[0] += float(seconds)

    for name in _CLOCKS:
        setattr(time, name, watched(name, getattr(time, name), 1))
        setattr(time, f"{name}_ns", watched(f"{name}_ns", getattr(time, f"{name}_ns"), 1_000_000_000))
    time.sleep = slept_for
    _watch_datetime(report, (lambda: moment(pinned)) if pinned is not None else None)


def _watch_datetime(report: _Report, moment: Any) -> None:
    import datetime

    real = datetime.datetime

    # What was made by the real class, by a library or before us, must still be a datetime to the script.
    class AlsoReal(type):
        def __instancecheck__(cls, thing: object) -> bool:
            return isinstance(thing, real)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, real)

    class Watched(real, metaclass=AlsoReal):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            report.once("clock", sys._getframe(1), name="datetime.now")
            return real.now(tz) if moment is None else real.fromtimestamp(moment(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            report.once("clock", sys._getframe(1), name="datetime.utcnow")
            at = time.time() if moment is None else moment()
            return real.fromtimestamp(at, datetime.timezone.utc).replace(tzinfo=None)  # noqa: UP017 - the script's Python may be old

        @classmethod
        def today(cls) -> Any:
            report.once("clock", sys._getframe(1), name="datetime.today")
            return real.now() if moment is None else real.fromtimestamp(moment())

    Watched.__name__ = Watched.__qualname__ = "datetime"
    Watched.__module__ = "datetime"
    datetime.datetime = Watched  # type: ignore[misc]


def _watch_threads(report: _Report) -> None:
    start = threading.Thread.start

    def started(self: Any) -> None:
        place = _place(sys._getframe(1)) or ("?", 0)
        report.add("thread", name=self.name, file=place[0], line=place[1])
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]


def _carla(report: _Report, pins: dict[str, Any]) -> Any:
    def watched(owner: str, name: str, call: Any) -> Any:
        def called(self: Any, *given: Any, **named: Any) -> Any:
            place = _place(sys._getframe(1)) or ("?", 0)
            actor = getattr(self, "id", None) if owner not in ("Client", "World", "TrafficManager") else None
            report.add(
                "call",
                name=f"{owner}.{name}",
                actor=actor,
                thread=threading.current_thread().name,
                file=place[0],
                line=place[1],
                time_s=_real_monotonic_ns() / 1e9,
            )
            if name == "set_synchronous_mode" and owner == "TrafficManager" and pins.get("manager_synchronous"):
                given, named = (True,), {}
            found = call(self, *given, **named)
            if name == "get_trafficmanager":
                _pin_manager(found, pins)
            return found

        return called

    def after(module: Any) -> None:
        report.add("carla", name=getattr(module, "__file__", ""))
        for owner in _CARLA_CLASSES:
            cls = getattr(module, owner, None)
            for name, call in list(vars(cls).items()) if cls is not None else []:
                if callable(call) and (not name.startswith(_NOT_WATCHED) or name == "get_trafficmanager"):
                    with contextlib.suppress(TypeError, AttributeError):
                        setattr(cls, name, watched(owner, name, call))

    return after


def _pin_manager(manager: Any, pins: dict[str, Any]) -> None:
    if pins.get("manager_synchronous"):
        manager.set_synchronous_mode(True)
    if pins.get("manager_seed") is not None:
        manager.set_random_device_seed(pins["manager_seed"])


def _begin() -> None:
    given = os.environ.get("SAMEPATH_EVIDENCE")
    if not given:
        return
    asked = json.loads(given)
    report, pins = _Report(asked["report"]), asked["pins"]
    report.add("begin", executable=sys.executable, arguments=getattr(sys, "orig_argv", sys.argv))
    try:
        _watch_threads(report)
        _watch_random(report, pins.get("random"))
        _watch_clock(report, pins.get("clock"))
        after = {"carla": _carla(report, pins), "numpy.random": _numpy_random(report, pins.get("random"))}
        sys.meta_path.insert(0, _AfterImport({**after, "torch": _torch(pins.get("random"))}))
    except Exception as error:
        report.add("problem", words=f"{type(error).__name__}: {error}")


def _chain() -> None:
    """The sitecustomize that would have run without us."""
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


_begin()
with contextlib.suppress(ImportError):
    _chain()
