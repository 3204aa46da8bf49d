"""Replayed input: what controllers decided in one run, taken down step by step, and applied again without them.

A decision is kept with the simulated time at which the step began in which it first held, and applied by that time: step for
step where steps are the same, held in between where they are not. After an actor's last decision that one holds.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from samepath.base.errors import InputError
from samepath.sim.control.agents import View
from samepath.sim.world.catalogue import VehicleType, actor_type
from samepath.sim.world.records import Command, VehicleCommand, WalkerCommand
from samepath.traces.channels import VEHICLE_CONTROL, WALKER_CONTROL

_VEHICLE: Final = (*VEHICLE_CONTROL[:5], "manual_gear_bool", "manual_gear_index")
_WALKER: Final = (*WALKER_CONTROL[:2], WALKER_CONTROL[3], "jump_bool", "face_ahead_bool")
# What a vehicle and what a walker is told, whether there is a command at all, and whether nothing is left to do.
CHANNELS: Final = (*_VEHICLE, *_WALKER, "given_bool", "finished_bool")
_NO_VEHICLE: Final = (0.0,) * len(_VEHICLE)
_NO_WALKER: Final = (0.0,) * len(_WALKER)
_BITS: Final = struct.Struct(f"<{len(CHANNELS)}d")
_UNDECIDED: Final = _BITS.pack(*[0.0] * len(CHANNELS))
# More than the rounding of a sum of steps, less than any step.
_ROUNDING_S: Final = 1e-9


@dataclass(frozen=True)
class Decisions:
    """From ``time_s[i]`` on, ``actors[i]`` is under ``values[i]``, in the order of ``CHANNELS``. In order of time."""

    time_s: Sequence[float]
    actors: Sequence[int]
    values: Sequence[Sequence[float]]


class Tape:
    """Takes down what is applied in every step; only what has changed is kept, by its bits."""

    def __init__(self) -> None:
        self._last: dict[int, bytes] = {}
        self._time_s: list[float] = []
        self._actors: list[int] = []
        self._values: list[tuple[float, ...]] = []

    def note(self, time_s: float, here: Iterable[int], commands: Mapping[int, Command], finished: frozenset[int]) -> None:
        """Note the step that began at ``time_s``: who was there, the commands, and who had nothing left to do after it."""
        for number in sorted(here):
            values = _values(commands.get(number), number in finished)
            bits = _BITS.pack(*values)
            if bits != self._last.get(number, _UNDECIDED):
                self._last[number] = bits
                self._time_s.append(time_s)
                self._actors.append(number)
                self._values.append(values)

    @property
    def decisions(self) -> Decisions:
        """All that was noted so far."""
        return Decisions(tuple(self._time_s), tuple(self._actors), tuple(self._values))


class Replay:
    """Applies decisions to actors of known types, by simulated time. Nobody is asked."""

    def __init__(self, decisions: Decisions, types: Mapping[int, str]) -> None:
        self.decisions = decisions
        _check(decisions, types)
        self._drives = {number: isinstance(actor_type(name), VehicleType) for number, name in types.items()}
        self._tracks: dict[int, tuple[list[float], list[Sequence[float]]]] = {number: ([], []) for number in sorted(types)}
        for time_s, number, values in zip(decisions.time_s, decisions.actors, decisions.values, strict=True):
            self._tracks[number][0].append(time_s)
            self._tracks[number][1].append(values)

    def commands(self, view: View) -> dict[int, Command]:
        """Return what holds in the step that begins now, for everyone who is there and was told something, by id."""
        found: dict[int, Command] = {}
        for number in self._tracks:
            values = self._at(number, view.time_s) if number in view.states else None
            if values is not None and values[-2]:
                found[number] = _command(values, drives=self._drives[number])
        return found

    def finished(self, time_s: float) -> frozenset[int]:
        """Return who has nothing left to do after the step that began at ``time_s``."""
        return frozenset(n for n in self._tracks if (values := self._at(n, time_s)) is not None and values[-1])

    def _at(self, number: int, time_s: float) -> Sequence[float] | None:
        times_s, values = self._tracks[number]
        index = bisect_right(times_s, time_s + _ROUNDING_S) - 1
        return values[index] if index >= 0 else None


def _values(command: Command | None, finished: bool) -> tuple[float, ...]:
    vehicle, walker = _NO_VEHICLE, _NO_WALKER
    if isinstance(command, VehicleCommand):
        gear, switches = command.manual_gear, (float(command.hand_brake), float(command.reverse))
        vehicle = (command.throttle, command.steer, command.brake, *switches, float(gear is not None), float(gear or 0))
    elif command is not None:
        switches = (float(command.jump), float(command.face_ahead))
        walker = (command.direction_x, command.direction_y, command.speed_mps, *switches)
    return (*vehicle, *walker, float(command is not None), float(finished))


def _command(values: Sequence[float], *, drives: bool) -> Command:
    if drives:
        throttle, steer, brake, hand_brake, reverse, manual, gear = values[: len(_VEHICLE)]
        return VehicleCommand(throttle, steer, brake, bool(hand_brake), bool(reverse), int(gear) if manual else None)
    x, y, speed_mps, jump, face_ahead = values[len(_VEHICLE) : -2]
    return WalkerCommand(x, y, speed_mps, bool(jump), bool(face_ahead))


def _check(decisions: Decisions, types: Mapping[int, str]) -> None:
    """Refuse what cannot be replayed, before anything moves."""
    lengths = len(decisions.time_s), len(decisions.actors), len(decisions.values)
    if len(set(lengths)) != 1:
        raise InputError(f"commands: as many times as actors and values were wanted, but {lengths} came: record them again")
    strangers = sorted(set(decisions.actors) - set(types))
    if strangers:
        raise InputError(f"commands: actors {strangers} are not in the scenario: record them for this one")
    if not all(map(math.isfinite, decisions.time_s)) or any(a > b for a, b in pairwise(decisions.time_s)):
        raise InputError("commands: times that never fall were wanted: record them again")
    for values in decisions.values:
        if len(values) != len(CHANNELS) or not all(map(math.isfinite, values)):
            raise InputError(f"commands: {len(CHANNELS)} numbers each were wanted, but {tuple(values)} came: record them again")
