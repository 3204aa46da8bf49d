"""What was asked of the host, what was measured while the repeats ran, and how fast they ran.

A study is only as good as its conditions: a load of 75 % that was really 60 % explains nothing. So every condition is held
against what was read back, a miss is marked wherever the cell is shown, and domains and figures place the cell where it was
measured.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.instrument.traces.records import Header, HostLog

Scalar = str | float | int | bool

LOADS: Final = ("cpu_load", "gpu_load", "memory_load")
# The factor of a study in which every cell has the first two at the same level.
TOGETHER: Final = "cpu_and_gpu_load"
LOAD_MARGIN: Final = 0.05
_NOT_READ: Final = "not read back"


@dataclass(frozen=True)
class ConditionCheck:
    """One condition of a cell: what was asked and what was measured over its repeats.

    For a load ``measured`` is the mean over the cell, weighted by time, ``low`` and ``high`` the least and the most loaded
    repeat. For any other condition ``measured`` are the values read back, and there is no range. ``asked`` is None where
    nothing was asked, ``measured`` where nothing was read. A load is ``missed`` if its mean is more than ``LOAD_MARGIN`` off;
    asking for 0 adds no load and cannot be missed. Anything else is missed if it reads back as something else.
    """

    name: str
    asked: Scalar | None
    measured: float | tuple[Scalar, ...] | None
    low: float | None
    high: float | None
    missed: bool

    def words(self) -> str:
        """Say it in one line: ``cpu_load: 75 % asked, 74.2 % measured (71 % to 77 % in single repeats)``."""
        if self.name in LOADS:
            return f"{self.name}: {self._load_words()}"
        if self.measured is None:
            return f"{self.name}: {_word(self.asked)} asked, {_NOT_READ}"
        values = self.measured if isinstance(self.measured, tuple) else (self.measured,)
        read = " and ".join(_word(value) for value in values)
        return f"{self.name}: {_word(self.asked)} asked, {'but ' if self.missed else ''}{read} read back"

    def _load_words(self) -> str:
        asked = "none" if not self.asked else _percent(self.asked)
        verb = "added" if self.asked == 0 else "asked"
        if not isinstance(self.measured, float):
            return f"{asked} {verb}, {_NOT_READ}"
        text = f"{asked} {verb}, {_percent(self.measured)} measured"
        if self.low is not None and self.high is not None and self.low != self.high:
            text += f" ({_percent(self.low)} to {_percent(self.high)} in single repeats)"
        if self.missed and isinstance(self.asked, int | float):
            off = 100 * abs(self.measured - self.asked)
            text += f": missed by {off:.3g} points, more than {100 * LOAD_MARGIN:g}"
        return text


@dataclass(frozen=True)
class ProcessPosition:
    """How a repeat was run: what it shares with others, and its place in its process (0: the first)."""

    repeat: int
    isolation: str
    position: int


def read_host(
    header: Header, host_logs: Iterable[tuple[int, HostLog]]
) -> tuple[tuple[ConditionCheck, ...], tuple[ProcessPosition, ...]]:
    """Read the host logs once: what became of each condition, and where each repeat was run as far as it was noted."""
    loads = {name: _LoadReadings() for name in LOADS}
    levels: dict[str, dict[str, Scalar]] = {name: {} for name in header.condition if name not in LOADS}
    places = []
    for repeat, log in host_logs:
        duration_s = _duration_s(log)
        for name, load in loads.items():
            load.add(_load_of(name, log), duration_s)
        for name, seen in levels.items():
            if name in log.measured:
                value = log.measured[name]
                seen.setdefault(_word(value), value)
        if "position" in log.measured:
            places.append(ProcessPosition(repeat, str(log.measured.get("isolation", "")), int(log.measured["position"])))
    checks = []
    for name, asked in header.condition.items():
        checks.append(_check_load(name, asked, loads[name]) if name in LOADS else _check_level(name, asked, levels[name]))
    if "cpu_load" not in header.condition and loads["cpu_load"].ratios:
        checks.append(_check_load("cpu_load", None, loads["cpu_load"]))
    return tuple(checks), tuple(places)


def check_conditions(header: Header, host_logs: Iterable[tuple[int, HostLog]]) -> tuple[ConditionCheck, ...]:
    """Hold what was asked against what was measured; the CPU's utilisation is told even where none was asked."""
    return read_host(header, host_logs)[0]


class _LoadReadings:
    """The ratios of single repeats and how long each lasted."""

    def __init__(self) -> None:
        self.ratios: list[float] = []
        self._durations_s: list[float | None] = []

    def add(self, ratio: float | None, duration_s: float | None) -> None:
        if ratio is not None:
            self.ratios.append(ratio)
            self._durations_s.append(duration_s)

    def mean(self) -> float:
        """The mean over time; where some repeat's duration is unknown, over repeats."""
        known = [duration_s for duration_s in self._durations_s if duration_s]
        return _weighted(self.ratios, known if len(known) == len(self.ratios) else [1.0] * len(self.ratios))


def _check_load(name: str, asked: Scalar | None, load: _LoadReadings) -> ConditionCheck:
    if not load.ratios:
        return ConditionCheck(name, asked, None, None, None, missed=False)
    mean = load.mean()
    missed = isinstance(asked, int | float) and asked > 0 and abs(mean - asked) > LOAD_MARGIN
    return ConditionCheck(name, asked, mean, min(load.ratios), max(load.ratios), missed)


def _check_level(name: str, asked: Scalar, seen: dict[str, Scalar]) -> ConditionCheck:
    if not seen:
        return ConditionCheck(name, asked, None, None, None, missed=False)
    values = tuple(seen[key] for key in sorted(seen))
    return ConditionCheck(name, asked, values, None, None, missed=not all(_agree(name, asked, value) for value in values))


def _agree(name: str, asked: Scalar, read: Scalar) -> bool:
    """Is what was read what was asked? Some levels are wishes that several readings fulfil."""
    if name == "hash_seed" and asked == "random":
        return True
    if name == "cores" and asked != read:
        # «all» asks for no restriction: whatever the host leaves is told, and none of it is wrong.
        cores = _core_numbers(str(read))
        return asked == "all" or (len(cores) == 1 if asked == "one" else cores == _core_numbers(str(asked)))
    return _word(asked) == _word(read)


def _core_numbers(text: str) -> set[int]:
    """Read ``0,2-3``; anything else names no core."""
    cores: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            cores.update(range(int(first), int(last or first) + 1))
    return cores


def _load_of(name: str, log: HostLog) -> float | None:
    """The load of one repeat: as the executor measured it, else from the samples, weighted by the time each one covers."""
    noted = log.measured.get(name)
    if isinstance(noted, int | float) and not isinstance(noted, bool):
        return float(noted)
    if name == "cpu_load":
        ratios: list[float | None] = [sample.cpu_ratio for sample in log.samples]
    elif name == "gpu_load":
        ratios = [sample.gpu_ratio for sample in log.samples]
    else:
        return None
    starts_s = [0.0, *(sample.wall_s for sample in log.samples)]
    spans_s = [sample.wall_s - start_s for sample, start_s in zip(log.samples, starts_s[:-1], strict=True)]
    known = [(ratio, span_s) for ratio, span_s in zip(ratios, spans_s, strict=True) if ratio is not None and span_s > 0]
    return _weighted([ratio for ratio, _ in known], [span_s for _, span_s in known]) if known else None


def _duration_s(log: HostLog) -> float | None:
    if log.samples:
        return log.samples[-1].wall_s
    return float(log.latency_s.sum()) if len(log.latency_s) else None


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)


def _percent(ratio: Scalar) -> str:
    return f"{100 * float(ratio):.3g} %"


def _word(value: Scalar | None) -> str:
    """Print a level as a study file has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


# Ticks that come all at once, after the run, say nothing about its pace: then the whole run does.
_ALL_AT_ONCE: Final = 0.9


@dataclass(frozen=True)
class RunPace:
    """The median repeat of a cell: ``steps_per_s`` ticks in a second, ``run_s`` from its start to its last tick.

    What comes before the first tick, such as the start of an engine, is part of ``run_s`` alone. ``times_real_time`` is how
    many simulated seconds a second of the wall clock has.
    """

    steps_per_s: float
    times_real_time: float
    run_s: float


class PaceFinder:
    """Notes the pace of every repeat while somebody else reads the host logs."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._steps_per_s: list[float] = []
        self._run_s: list[float] = []

    def watch(self, host_logs: Iterable[tuple[int, HostLog]]) -> Iterator[tuple[int, HostLog]]:
        """Yield the logs as they come."""
        for repeat, log in host_logs:
            self._note(log)
            yield repeat, log

    def result(self) -> RunPace | None:
        """Return the median; None where no times were noted, as in imported logs."""
        if not self._steps_per_s:
            return None
        steps_per_s = statistics.median(self._steps_per_s)
        return RunPace(steps_per_s, steps_per_s * self._step_s, statistics.median(self._run_s))

    def _note(self, log: HostLog) -> None:
        if len(log.latency_s) < 2:
            return
        run_s, before_s = float(log.latency_s.sum()), float(log.latency_s[0])
        late = before_s > _ALL_AT_ONCE * run_s
        steps = int(log.latency_ticks[-1]) - (0 if late else int(log.latency_ticks[0]))
        spent_s = run_s if late else run_s - before_s
        if steps > 0 and spent_s > 0:
            self._steps_per_s.append(steps / spent_s)
            self._run_s.append(run_s)
