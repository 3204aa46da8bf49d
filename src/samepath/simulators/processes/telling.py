"""What a project of ours inside an engine tells on its stdout, line by line, and how it is followed from its start to its end.

The first line is ``samepath 1``. Then come S with states of one tick or more, C with a contact, F with how frames fell, and E
with why the run is over. Numbers are bytes in base64, so that none loses a digit.
"""

import binascii
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import SimulatorError
from samepath.simulators.interface import DURATION
from samepath.simulators.processes.process import EngineProcess
from samepath.traces.recorder import Recorder

GREETING: Final = b"samepath 1"
# An engine may tell about itself before the project says a word.
_BANNER_LINES: Final = 50
# Why runs of scripts end, in the projects' words and in ours.
REASONS: Final = {
    "duration": DURATION,
    "arrived": "every actor reached its last waypoint",
    "collision": "first collision",
    "over": "simulated time is over",
}
_CONTACT: Final = struct.Struct("<3i3f")
_LONGEST_TOLD: Final = 60
_START_S: Final = 60.0
_END_S: Final = 20.0


class Told(NamedTuple):
    """States of these ticks have come; the reader keeps them."""

    ticks: tuple[int, ...]


@dataclass(frozen=True)
class Contact:
    """A car began to touch another or, ``other`` None, scenery; the impulse is what ``actor`` felt, in the engine's axes."""

    tick: int
    actor: int
    other: int | None
    impulse_ns: tuple[float, float, float]


@dataclass(frozen=True)
class Frames:
    """How many frames there were, the most physics steps in one and, where it is told, the most things drawn in one."""

    count: int
    most_steps: int
    most_drawn: int = 0

    @property
    def words(self) -> str:
        """How they fell, in words."""
        return f"{self.count} frames, at most {self.most_steps} physics steps in one"


@dataclass(frozen=True)
class Over:
    """Why the run is over."""

    reason: str


@dataclass(frozen=True)
class Followed:
    """A run that came to its end: its last tick and why it was the last, contacts, and frames where there were any."""

    tick: int
    reason: str
    contacts: tuple[Contact, ...]
    frames: Frames | None


class Reader:
    """Reads the lines of a run with these cars; ``car`` is what is told of each, ``reasons`` are the ends that there are.

    Of states only the bytes are kept as they come, so that reading takes no time from a run; :meth:`cars` reads them.
    """

    def __init__(
        self,
        engine: str,
        car: np.dtype[Any],
        numbers: Sequence[int],
        steps_per_tick: int,
        reasons: Mapping[str, str],
    ) -> None:
        self._engine, self._reasons, self._steps_per_tick = engine, dict(reasons), steps_per_tick
        self._numbers = set(numbers)
        self._tick = np.dtype([("step", "<u4"), ("cars", car, len(numbers))])
        self._kept: list[bytes] = []

    def read(self, line: bytes) -> Told | Contact | Frames | Over:
        """Return what a line says; any other line is an error."""
        mark, _, rest = line.partition(b" ")
        try:
            if mark == b"S":
                return self._told(binascii.a2b_base64(rest, strict_mode=True))
            if mark == b"C":
                return self._contact(_CONTACT.unpack(binascii.a2b_base64(rest, strict_mode=True)))
            if mark == b"F":
                count, most_steps, *most_drawn = map(int, rest.split())
                return Frames(count, most_steps, *most_drawn)
            if mark == b"E":
                return Over(self._reasons[rest.decode()])
        except (binascii.Error, struct.error, ValueError, KeyError, TypeError):
            pass
        raise SimulatorError(f"{self._engine} wrote {line[:_LONGEST_TOLD]!r} where a state, a contact or the end was wanted")

    def _told(self, data: bytes) -> Told:
        steps = np.frombuffer(data, self._tick)["step"]
        if np.any(steps % self._steps_per_tick):
            raise ValueError(steps)
        self._kept.append(data)
        return Told(tuple((steps // self._steps_per_tick).tolist()))

    def _contact(self, values: tuple[int | float, ...]) -> Contact:
        step, actor, other, x, y, z = values
        if {actor, other} - {-1} - self._numbers or actor == -1:
            raise ValueError(actor)
        tick = -(-int(step) // self._steps_per_tick)
        return Contact(tick, int(actor), None if other < 0 else int(other), (x, y, z))

    def cars(self) -> NDArray[Any]:
        """Return what was told, [tick, car], in the engine's own numbers; one that is no number is an error."""
        cars: NDArray[Any] = np.frombuffer(b"".join(self._kept), self._tick)["cars"]
        for name in cars.dtype.names or ():
            broken = ~np.isfinite(cars[name]).reshape(len(cars), -1).all(axis=1)
            if broken.any():
                raise SimulatorError(f"{self._engine} wrote a state at tick {int(np.argmax(broken)) + 1} that is not a number")
        return cars


class Project:
    """An engine that was started with a project of ours in it; it has said the first line.

    ``helpers`` are processes that the run needs: where one of them is gone, that is the reason for whatever went wrong.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        timeout_s: float,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        scratch: Path | None = None,
        helpers: Sequence[EngineProcess] = (),
    ) -> None:
        self._longest_s, self._helpers = timeout_s, tuple(helpers)
        self.process = EngineProcess(name, command, folder=folder, environment=environment, scratch=scratch)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        self.process.end_of_input()
        for _ in range(_BANNER_LINES):
            line = self.process.line(max(self._longest_s, _START_S))
            if line is None:
                self.process.finish(_END_S)
                break
            if line == GREETING:
                return
        raise self.process.trouble("did not start the project")

    def line(self) -> bytes:
        """Return the next line; silence, or an end without a word, is an error."""
        line = self.process.line(self._longest_s)
        if line is None:
            self.finish()
            raise SimulatorError(f"{self.process.name} ended before the run did")
        return line

    def finish(self) -> None:
        """Wait for a good end; the helpers must still be there."""
        self.check_helpers()
        self.process.finish(_END_S)

    def check_helpers(self) -> None:
        """Fail where a helper has ended."""
        for helper in self._helpers:
            if not helper.running:
                raise helper.trouble("ended before the run did")

    def follow(self, reader: Reader, on_tick: Callable[[int], None]) -> Followed:
        """Read a run from its first tick to its end, and wait until the engine has ended too."""
        contacts: list[Contact] = []
        tick, frames, reason = 0, None, ""
        while not reason:
            line = self.line()
            try:
                item = reader.read(line)
            except SimulatorError:
                self.check_helpers()  # a line that was cut off has a reason
                raise
            if isinstance(item, Told):
                for told in item.ticks:
                    if told != tick + 1:
                        raise SimulatorError(f"{self.process.name} wrote tick {told} where tick {tick + 1} was wanted")
                    tick = told
                    on_tick(tick)
            elif isinstance(item, Contact):
                contacts.append(item)
            elif isinstance(item, Frames):
                frames = item
            else:
                reason = item.reason
        if tick == 0:
            raise SimulatorError(f"{self.process.name} ended its run without a single state")
        self.finish()
        return Followed(tick, reason, tuple(contacts), frames)

    def close(self) -> None:
        """End everything that was started."""
        self.process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def first_contacts(contacts: Sequence[Contact]) -> list[Contact]:
    """Return when each pair first touched in the run, as the actor with the lower number felt it.

    Both cars of a pair may tell of it. Who touches already when the run begins is not counted.
    """
    met: set[tuple[int, int]] = set()
    found = []
    for one in contacts:
        low, high = (one.actor, -1) if one.other is None else sorted((one.actor, one.other))
        if (low, high) in met:
            continue
        met.add((low, high))
        if one.tick < 1:
            continue
        if one.other is None or one.actor < one.other:
            found.append(one)
        else:
            x, y, z = one.impulse_ns
            found.append(Contact(one.tick, one.other, one.actor, (-x, -y, -z)))
    return found


def record_contacts(recorder: Recorder, contacts: Sequence[Contact], last_tick: int) -> None:
    """Record when each pair first touched, at its tick or, where the run was over by then, at the last."""
    for one in first_contacts(contacts):
        recorder.event(min(one.tick, last_tick), "collision", one.actor, one.other, one.impulse_ns)
