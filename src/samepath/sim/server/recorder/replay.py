"""A recording played again: what appears, disappears and where everything is, for any step of time.

Between two frames places are interpolated; at the time of a frame they are the frame's own. Nothing here touches the world:
the server takes a :class:`ReplayStep` and does it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from samepath.base.errors import InputError
from samepath.traces.carla_log import (
    AddedActor,
    Door,
    Frame,
    Log,
    Parent,
    Placed,
    SignalLight,
    VehicleInput,
    VehicleLights,
    WalkerInput,
)

_SAME_S: Final = 1e-6
_SPECTATOR: Final = "spectator"


@dataclass(frozen=True)
class ReplayOptions:
    """What the client asks for. ``start_s`` below 0 counts from the end; ``duration_s`` 0 plays to the end."""

    start_s: float = 0.0
    duration_s: float = 0.0
    follow_actor: int = 0
    time_factor: float = 1.0
    ignore_hero: bool = False
    ignore_spectator: bool = True
    replay_sensors: bool = False


@dataclass(frozen=True)
class ReplayStep:
    """What the world must do to be where the recording is at ``time_s``. Ids are those of the recording.

    First the actors of ``added`` appear, then those of ``removed`` go; ``placed`` and the rest then hold for all that are left.
    An actor that came and went since the last step is in neither. ``finished``: this was the last step.
    """

    time_s: float
    added: tuple[AddedActor, ...] = ()
    removed: tuple[int, ...] = ()
    parents: tuple[Parent, ...] = ()
    doors: tuple[Door, ...] = ()
    placed: tuple[Placed, ...] = ()
    signal_lights: tuple[SignalLight, ...] = ()
    vehicles: tuple[VehicleInput, ...] = ()
    walkers: tuple[WalkerInput, ...] = ()
    vehicle_lights: tuple[VehicleLights, ...] = ()
    finished: bool = False


class Replay:
    """Plays a recording. ``time_factor`` may be changed on the way."""

    def __init__(self, log: Log, options: ReplayOptions) -> None:
        self.log = log
        self.options = options
        self.time_factor = options.time_factor
        self.start_s, self.end_s = span_s(log, options)
        self._time_s = self.start_s
        self._frames: Iterator[Frame] = log.frames()
        self._here: Frame | None = None
        self._next: Frame | None = next(self._frames, None)
        self._present: dict[int, AddedActor] = {}
        self._ignored: set[int] = set()

    @property
    def time_s(self) -> float:
        """Where in the recording we are."""
        return self._time_s

    def begin(self) -> ReplayStep:
        """The world at the start: everything that is there by then appears."""
        return self._step_to(self.start_s)

    def advance(self, step_s: float) -> ReplayStep:
        """The world ``step_s`` later, times the time factor."""
        if not (math.isfinite(step_s) and step_s >= 0.0):
            raise InputError(f"a step of at least 0 s was wanted to play a recording, but {step_s} came")
        return self._step_to(min(self._time_s + step_s * self.time_factor, self.end_s))

    def _step_to(self, time_s: float) -> ReplayStep:
        before = dict(self._present)
        parents: list[Parent] = []
        doors: list[Door] = []
        while self._next is not None and self._next.elapsed_s <= time_s + _SAME_S:
            self._here, self._next = self._next, next(self._frames, None)
            content = self._here.content
            for one in content.added:
                if self._is_ignored(one):
                    self._ignored.add(one.actor)
                else:
                    self._present[one.actor] = one
            for actor in content.removed:
                self._present.pop(actor, None)
            parents.extend(content.parents)
            doors.extend(content.doors)
        self._time_s = time_s
        here, present = self._here, self._present
        step = ReplayStep(
            time_s,
            added=tuple(one for actor, one in present.items() if before.get(actor) is not one),
            removed=tuple(actor for actor, one in before.items() if present.get(actor) is not one),
            parents=tuple(one for one in parents if one.actor in present and one.parent in present),
            doors=tuple(one for one in doors if one.actor in present),
            finished=time_s >= self.end_s - _SAME_S or self._next is None,
        )
        if here is None:
            return step
        content = here.content
        return replace(
            step,
            placed=tuple(one for one in self._between(here, time_s) if one.actor in present),
            signal_lights=tuple(one for one in content.signal_lights if one.actor not in self._ignored),
            vehicles=tuple(one for one in content.vehicles if one.actor in present),
            walkers=tuple(one for one in content.walkers if one.actor in present),
            vehicle_lights=tuple(one for one in content.vehicle_lights if one.actor in present),
        )

    def _is_ignored(self, one: AddedActor) -> bool:
        options = self.options
        if one.type.startswith("sensor.") or one.type.startswith("controller."):
            return not options.replay_sensors
        return (options.ignore_hero and one.role == "hero") or (options.ignore_spectator and one.type == _SPECTATOR)

    def _between(self, here: Frame, time_s: float) -> Sequence[Placed]:
        following = self._next
        if following is None or time_s - here.elapsed_s <= _SAME_S:
            return here.content.placed
        part = (time_s - here.elapsed_s) / (following.elapsed_s - here.elapsed_s)
        ahead = {one.actor: one for one in following.content.placed}
        return [_mixed(one, ahead[one.actor], part) if one.actor in ahead else one for one in here.content.placed]


def _mixed(a: Placed, b: Placed, part: float) -> Placed:
    """A place between two, turning the short way round."""
    metres = [p + part * (q - p) for p, q in zip(a[1:4], b[1:4], strict=True)]
    degrees = [p + part * math.remainder(q - p, 360.0) for p, q in zip(a[4:], b[4:], strict=True)]
    return Placed(a.actor, *metres, *degrees)


def span_s(log: Log, options: ReplayOptions) -> tuple[float, float]:
    """From when to when a recording is played."""
    _, total_s = log.extent
    for value in (options.start_s, options.duration_s, options.time_factor):
        if not math.isfinite(value):
            raise InputError(f"finite times were wanted to play a recording, but {value} came")
    start_s = options.start_s if options.start_s >= 0.0 else max(0.0, total_s + options.start_s)
    start_s = min(start_s, total_s)
    return start_s, min(start_s + options.duration_s, total_s) if options.duration_s > 0.0 else total_s


def replay_text(log: Log, options: ReplayOptions) -> str:
    """What CARLA's client prints when a recording is played."""
    start_s, end_s = span_s(log, options)
    total_s = log.extent[1]
    lines = [
        f"Replaying File: {log.path.name}",
        f"Total time recorded: {total_s:g}",
        f"Replaying from {start_s:g} s - {end_s:g} s ({total_s:g} s) at {options.time_factor:.1f}x",
    ]
    if options.ignore_hero:
        lines.append("Ignoring Hero vehicle")
    if options.ignore_spectator:
        lines.append("Ignoring Spectator camera")
    return "\n".join([*lines, ""])
