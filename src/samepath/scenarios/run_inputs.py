"""Takes down what goes into a run, step by step, and gives it back by step: the two halves of record and replay.

An :class:`InputRecorder` is handed to a run. Whoever lets something in (a game loop a step length, a source of non-determinism
a draw, a controller a command) tells it, and at the end of each step everything that went in is put into the run's
:class:`~samepath.core.inputs.InputLog` in causal order. Taking down changes nothing of the run: nothing is drawn, no clock is
read, no lock is taken that a run would wait for.

What follows from the rest is not taken down. In lockstep the scenario's own drivers and walkers decide from states alone, so
that their commands are no inputs; those of a user's own function or process are. Where a clock or a thread has a say, all are.

An :class:`InputFeed` is the way back. It goes by step, not by simulated time, and so replays steps of any length.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from samepath.core.errors import InputError
from samepath.core.inputs import ASKED, Input, InputKind, InputLog
from samepath.core.states import Command, VehicleCommand, WalkerCommand
from samepath.scenarios.agents import VEHICLE_CHANNELS, WALKER_CHANNELS
from samepath.scenarios.model import CAMERA, ScenarioSpec

# The words of commands, as they stand in an entry's name.
VEHICLE_NAME: Final = " ".join(VEHICLE_CHANNELS)
WALKER_NAME: Final = " ".join(WALKER_CHANNELS)
# An actor with nothing left to do from this step on; and one that is under no command, though it was.
FINISHED: Final = "finished_bool"
NO_COMMAND: Final = "no command"
_RANK: Final = {kind: rank for rank, kind in enumerate(InputKind)}
_VEHICLE_BITS: Final = struct.Struct(f"<{len(VEHICLE_CHANNELS)}d")
_WALKER_BITS: Final = struct.Struct(f"<{len(WALKER_CHANNELS)}d")
_NOBODY: Final[frozenset[int]] = frozenset()

Value = TypeVar("Value")


def command_values(command: Command) -> tuple[float, ...]:
    """Return a command as numbers, in the order of its channels."""
    if isinstance(command, VehicleCommand):
        gear = command.manual_gear
        return (
            command.throttle,
            command.steer,
            command.brake,
            float(command.hand_brake),
            float(command.reverse),
            float(gear is not None),
            float(gear or 0),
        )
    switches = float(command.jump), float(command.face_ahead)
    return (command.direction_x, command.direction_y, command.speed_mps, *switches)


def command_of(name: str, values: Sequence[float]) -> Command | None:
    """Return the command of an entry; None for one that takes the command away."""
    if name == NO_COMMAND:
        return None
    if name == VEHICLE_NAME and len(values) == len(VEHICLE_CHANNELS):
        throttle, steer, brake, hand_brake, reverse, manual, gear = values
        return VehicleCommand(throttle, steer, brake, bool(hand_brake), bool(reverse), int(gear) if manual else None)
    if name == WALKER_NAME and len(values) == len(WALKER_CHANNELS):
        x, y, speed_mps, jump, face_ahead = values
        return WalkerCommand(x, y, speed_mps, bool(jump), bool(face_ahead))
    raise InputError(f"inputs: a command to a vehicle or a walker was wanted, but {name!r} with {len(values)} numbers came")


def driven_from_outside(scenario: ScenarioSpec) -> frozenset[int]:
    """Return whose commands come from a function or a process of the user's own, and so may be anything."""
    own = (spec for spec in scenario.actors if spec.controller != CAMERA)
    return frozenset(spec.id for spec in own if spec.controller is not None or spec.process is not None)


class InputRecorder:
    """Takes down one run. ``only``: the actors whose commands are inputs; None: everybody's are, and so is who has finished."""

    def __init__(self, only: frozenset[int] | None = None) -> None:
        self.log = InputLog()
        self.only = only
        # Drawn in the controllers' thread perhaps, while a step is made in the loop's: a deque takes and gives at once.
        self._arrived: deque[tuple[InputKind, str, int | None, tuple[float, ...], str]] = deque()
        self._told: dict[int, tuple[bytes, int]] = {}
        self._finished = _NOBODY

    def order(self, name: str, items: Iterable[object]) -> None:
        """Something was taken up in this order."""
        self._arrived.append((InputKind.ORDER, name, None, (), " ".join(map(str, items))))

    def draw(self, name: str, actor: int | None, values: tuple[float, ...] = (), text: str = "") -> None:
        """Chance gave this."""
        self._arrived.append((InputKind.DRAW, name, actor, values, text))

    def push(self, name: str, actor: int, values: tuple[float, ...], text: str = "") -> None:
        """An actor was pushed, or its state changed, from outside."""
        self._arrived.append((InputKind.PUSH, name, actor, values, text))

    def step(
        self,
        step: int,
        step_s: float | None,
        here: Iterable[int],
        commands: Mapping[int, Command],
        decided_step: int | None = None,
        finished: frozenset[int] = _NOBODY,
    ) -> None:
        """A step was made: of its own length unless None, under these commands, after which so many had finished.

        ``decided_step``: the step whose beginning the controllers saw; None: this one.
        """
        if self.only is None or self.only or self._arrived or step_s is not None:
            found: list[Input] = []
            if step_s is not None:
                found.append(Input(step, InputKind.STEP, values=(step_s,)))
            while self._arrived:
                kind, name, actor, values, text = self._arrived.popleft()
                found.append(Input(step, kind, name, actor, values, text))
            decided = step if decided_step is None else decided_step
            # Steps of one length are one control period each: a command that still holds in the next has come late, or the
            # next one does. Steps that vary are often shorter than a period, and then to hold is to be on time.
            self._commands(found, step, here, commands, decided, 0 if step_s is not None else step - decided)
            if self.only is None and finished != self._finished:
                found += [
                    Input(step, InputKind.COMMAND, FINISHED, actor, (float(actor in finished),))
                    for actor in sorted(finished ^ self._finished)
                ]
                self._finished = finished
            # Stable: within a kind, the order in which they came.
            found.sort(key=lambda entry: _RANK[entry.kind])
            for entry in found:
                self.log.add(entry)

    def _commands(
        self, found: list[Input], step: int, here: Iterable[int], commands: Mapping[int, Command], decided: int, age: int
    ) -> None:
        for actor in sorted(here if self.only is None else self.only.intersection(here)):
            command = commands.get(actor)
            if command is None:
                if self._told.pop(actor, None) is not None:
                    found.append(Input(step, InputKind.COMMAND, NO_COMMAND, actor, decided_step=decided))
                continue
            values = command_values(command)
            drives = isinstance(command, VehicleCommand)
            # By bits: -0.0 and 0.0 are different commands to a replay that promises bits.
            told = (_VEHICLE_BITS if drives else _WALKER_BITS).pack(*values), age
            if told != self._told.get(actor):
                self._told[actor] = told
                name = VEHICLE_NAME if drives else WALKER_NAME
                found.append(Input(step, InputKind.COMMAND, name, actor, values, decided_step=decided))


class InputFeed:
    """What went into a run, by step. Asked for any step, in any order: a replay may go back.

    ``fork_seed``: the run is to leave the recorded one, and what chance would have given there comes from streams of this seed.
    """

    def __init__(self, log: Iterable[Input], fork_seed: int | None = None) -> None:
        self.fork_seed = fork_seed
        # When controllers were asked, where a clock says that: before which step, the time they were told, the frame's length.
        self.asked: list[tuple[int, float, float]] = []
        self._lengths_s: dict[int, float] = {}
        self._orders: dict[str, str] = {}
        self._draws: dict[tuple[int, str, int | None], Input] = {}
        self._texts: dict[tuple[str, int | None], dict[str, str]] = {}
        self._pushes: dict[tuple[int, str], list[Input]] = {}
        self._tracks: dict[int, tuple[list[int], list[Command | None]]] = {}
        self._ends: dict[int, tuple[list[int], list[bool]]] = {}
        for entry in log:
            self._take(entry)

    def _take(self, entry: Input) -> None:
        if entry.kind is InputKind.STEP:
            if len(entry.values) != 1 or not entry.values[0] > 0:
                raise InputError(f"inputs: one length above 0 s was wanted of step {entry.step}, but {entry.values} came")
            self._lengths_s[entry.step] = entry.values[0]
        elif entry.kind is InputKind.ORDER:
            self._orders[entry.name] = entry.text
        elif entry.kind is InputKind.DRAW:
            self._draws[entry.step, entry.name, entry.actor] = entry
            if entry.text:
                label, _, text = entry.text.partition(" ")
                self._texts.setdefault((entry.name, entry.actor), {})[label] = text
        elif entry.kind is InputKind.PUSH:
            self._pushes.setdefault((entry.step, entry.name), []).append(entry)
        elif entry.name == ASKED:
            try:
                self.asked.append((entry.step, entry.values[0], float.fromhex(entry.text)))
            except (ValueError, IndexError) as error:
                raise InputError(f"inputs: a time and the length of a frame were wanted at step {entry.step}") from error
        elif entry.actor is None:
            raise InputError(f"inputs: the actor of a command was wanted at step {entry.step}, but none came")
        elif entry.name == FINISHED:
            _note(self._ends, entry.actor, entry.step, bool(entry.values and entry.values[0]))
        else:
            _note(self._tracks, entry.actor, entry.step, command_of(entry.name, entry.values))

    def step_s(self, step: int) -> float | None:
        """Return the length of a step; None: the fixed one."""
        return self._lengths_s.get(step)

    def order(self, name: str) -> tuple[int, ...] | None:
        """Return the order in which something was taken up; None: the usual one."""
        text = self._orders.get(name)
        if text is None:
            return None
        try:
            return tuple(map(int, text.split()))
        except ValueError as error:
            raise InputError(f"inputs: an order of {name} by numbers was wanted, but {text[:80]!r} came") from error

    def drawn(self, step: int, name: str, actor: int | None) -> float | None:
        """Return the number that chance gave before a step; None: nothing was drawn."""
        entry = self._draws.get((step, name, actor))
        return entry.values[0] if entry is not None and entry.values else None

    def text(self, name: str, actor: int | None, label: str) -> str | None:
        """Return what a draw that is told by its label gave; None: nothing was drawn under it."""
        return self._texts.get((name, actor), {}).get(label)

    def pushes(self, step: int, name: str) -> Sequence[Input]:
        """Return the pushes of one kind before a step, in their order."""
        return self._pushes.get((step, name), ())

    def command(self, step: int, actor: int) -> Command | None:
        """Return what an actor is under in a step; None: nothing."""
        return _at(self._tracks, actor, step)

    def commands(self, step: int, here: Iterable[int]) -> dict[int, Command]:
        """Return what those who are there are under in a step, by id."""
        found = ((actor, _at(self._tracks, actor, step)) for actor in sorted(here))
        return {actor: command for actor, command in found if command is not None}

    def finished(self, step: int) -> frozenset[int]:
        """Return who has nothing left to do after a step."""
        return frozenset(actor for actor in self._ends if _at(self._ends, actor, step))


def _note(tracks: dict[int, tuple[list[int], list[Value]]], actor: int, step: int, value: Value) -> None:
    steps, values = tracks.setdefault(actor, ([], []))
    steps.append(step)
    values.append(value)


def _at(tracks: dict[int, tuple[list[int], list[Value]]], actor: int, step: int) -> Value | None:
    if actor not in tracks:
        return None
    steps, values = tracks[actor]
    index = bisect_right(steps, step) - 1
    return values[index] if index >= 0 else None
