"""Collisions as sensors report them: late, in any order and from both sides; what is recorded depends on none of that."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from samepath.base.errors import SimulatorError


class Report(NamedTuple):
    """What one sensor said: ``other`` None is scenery, or an actor that is not ours, called ``detail``."""

    frame: int
    time_s: float
    actor: int
    other: int | None
    detail: str
    impulse_ns: tuple[float, float, float]


class Contact(NamedTuple):
    """Two that touched for the first time."""

    tick: int
    actor: int
    other: int | None
    detail: str
    impulse_ns: tuple[float, float, float]


def first_contacts(reports: Iterable[Report], tick_of: Callable[[Report], int], last_tick: int) -> list[Contact]:
    """Return when each pair first touched within ticks 1 to ``last_tick``, as the actor with the lower number felt it.

    Who touches already when the run begins is not counted until the last tick either: it is no collision of this run.
    """
    met: set[tuple[int, int | None, str]] = set()
    found = []
    for report in sorted(reports, key=_order):
        pair = _pair(report)
        if pair in met:
            continue
        met.add(pair)
        tick = tick_of(report)
        if 0 < tick <= last_tick:
            found.append(Contact(tick, report.actor, report.other, report.detail, report.impulse_ns))
    return found


def _order(report: Report) -> tuple[int, int, int, str, tuple[float, float, float]]:
    return report.frame, report.actor, report.other or 0, report.detail, report.impulse_ns


def _pair(report: Report) -> tuple[int, int | None, str]:
    if report.other is None:
        return report.actor, None, report.detail
    return min(report.actor, report.other), max(report.actor, report.other), ""


class Removals:
    """Who is taken off the stage, and when: so many frames after the first contact, however soon the sensor told of it.

    A sensor's message takes its time. Acting on it at once would make the run depend on the network; acting on it after a
    fixed simulated time does not, as long as it is there by then. With ``strict`` a message that is not is an error.
    """

    def __init__(self, numbers: Collection[int], delay_frames: int, *, strict: bool) -> None:
        self._left = set(numbers)
        self._delay = delay_frames
        self._strict = strict
        self._hit: dict[int, int] = {}
        self._read = 0

    def due(self, reports: Sequence[Report], start_frame: int, frame: int) -> list[int]:
        """Return who is to go before the step after ``frame``. ``reports`` only ever grows."""
        count = len(reports)
        for report in reports[self._read : count]:
            for number in (report.actor, report.other):
                if number in self._left and report.frame > start_frame:
                    self._hit[number] = min(report.frame, self._hit.get(number, report.frame))
                    self._check_in_time(self._hit[number], frame)
        self._read = count
        due = sorted(number for number, hit in self._hit.items() if hit + self._delay <= frame)
        for number in due:
            self._left.discard(number)
            del self._hit[number]
        return due

    def _check_in_time(self, hit: int, frame: int) -> None:
        if self._strict and hit + self._delay < frame:
            raise SimulatorError(
                f"a collision was told of {frame - hit} frames after it happened, too late to act on it after {self._delay}: "
                "raise remove_after_s"
            )
