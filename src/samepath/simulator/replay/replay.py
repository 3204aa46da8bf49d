"""Replaying: a recording of either kind is opened, played, and gone through in both directions.

Forwards goes by simulating, backwards by snapshots and from there forwards. Every step is held against the recording. Snapshots
are taken on the way, every so many steps, and thinned out where they take too much memory; to go back is to restore the last
one before and to simulate the rest, which costs at most so many steps. What comes out of that is held against the recording as
well: a way back that led elsewhere would be noticed.

:class:`RunReplay` plays the run of a scenario: each step as long as it was, with what everybody was told and what pushed them.
What a server did for its clients is played in ``served.py``, which brings the whole server with it and is loaded when such a
recording is opened.
"""

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import floor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, SamepathError
from samepath.core.states import ActorState, Command, Pose
from samepath.simulator.replay.recording import (
    RUN,
    RecordingDamagedError,
    RunRecording,
    is_recording,
    made_with,
    read_parts,
    read_run,
)
from samepath.simulator.run_setup import FedRun
from samepath.simulator.simulation import Simulation
from samepath.simulator.world.world import World

if TYPE_CHECKING:
    from samepath.simulator.sensors.renderer import RenderScene

# A tick of every trace of ours.
TICK_S: Final = 0.05
_ROUNDING: Final = 1e-9
SNAPSHOT_STEPS: Final = 50
_SNAPSHOT_BYTES_MOST: Final = 512 << 20


class ReplayDiffersError(SamepathError):
    """What was played again did not come out as it was recorded."""

    exit_code = 1


@dataclass(frozen=True)
class ReplayActor:
    """An actor at this moment; ``command`` is what led here, None where it was under none or none is known."""

    id: int
    type: str
    state: ActorState
    command: Command | None = None


class Replay(ABC):
    """A recorded run, stopped after ``position`` of its ``steps``. ``samepath.replay(path)`` opens one.

    ``step``, ``back``, ``go_to`` and ``until`` move it; ``world``, ``state`` and ``actors`` are what is there now; ``camera``
    and ``draw`` make pictures of it. Nothing here changes the recording.
    """

    def __init__(self, name: str, steps: int) -> None:
        self.name = name
        self.steps = steps
        self.position = 0
        self.frames = 0  # of sensors, held against the recording on the way
        self._snapshots: dict[int, bytes] = {}
        self._every = SNAPSHOT_STEPS
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<replay of {self.name}: step {self.position} of {self.steps}, tick {self.tick}, {self.time_s:.3f} s>"

    # What there is, of a run and of a served one.

    @property
    @abstractmethod
    def world(self) -> World:
        """The world as it is now."""

    @property
    @abstractmethod
    def ended(self) -> str:
        """Why the recorded run ended."""

    @property
    def time_s(self) -> float:
        """Simulated time."""
        return self.world.time_s

    @property
    def tick(self) -> int:
        """The last tick of the trace that this moment has reached."""
        return floor(self.time_s / TICK_S + _ROUNDING)

    @property
    def state(self) -> dict[int, ActorState]:
        """Where everybody is, by id."""
        return self.world.states()

    @property
    def actors(self) -> tuple[ReplayActor, ...]:
        """Everybody who is there, by id."""
        commands, states = self._commands(), self.world.states()
        return tuple(ReplayActor(actor.id, actor.type, states[actor.id], commands.get(actor.id)) for actor in self.world.actors)

    def actor(self, number: int) -> ReplayActor:
        """One of them; who is not there is refused with those who are."""
        found = {actor.id: actor for actor in self.actors}
        if number not in found:
            here = ", ".join(map(str, found)) or "nobody"
            raise InputError(f"actor {number} is not there after step {self.position}; there are: {here}")
        return found[number]

    # Moving.

    def step(self, count: int = 1) -> Self:
        """Go on by steps; at the end of the run it stays there."""
        return self.go_to(min(self.position + count, self.steps)) if count >= 0 else self.back(-count)

    def back(self, count: int = 1) -> Self:
        """Go back by steps; at the beginning it stays there."""
        return self.go_to(max(self.position - count, 0))

    def go_to(self, step: int) -> Self:
        """Go to where so many steps were made, in either direction."""
        if not 0 <= step <= self.steps:
            raise InputError(f"a step from 0 to {self.steps} was wanted, but {step} came")
        kept = sorted(self._snapshots)
        index = bisect_right(kept, step) - 1
        if step < self.position:
            if index < 0:
                self._start()
                self.position = 0
            else:
                self._go_back(kept[index])
        elif index >= 0 and kept[index] > self.position:
            self._go_back(kept[index])
        while self.position < step:
            self._keep()
            self._forward()
            self.position += 1
            self._check()
        return self

    def until(self, tick: int) -> Self:
        """Go to the first step at or after a tick of the trace, in either direction."""
        if tick < 0:
            raise InputError(f"a tick of at least 0 was wanted, but {tick} came")
        if self.tick >= tick:
            # Back to where it was not yet there: how many steps a tick has is not fixed.
            while self.position and self.tick >= tick:
                self.go_to(max(0, self.position - self._every))
        while self.tick < tick:
            if self.position == self.steps:
                raise InputError(f"the run ended at tick {self.tick} ({self.ended}), before tick {tick}")
            self.go_to(self.position + 1)
        return self

    def play(self, on_step: Callable[["Replay"], None] = lambda _: None) -> Self:
        """Go on to the end."""
        while self.position < self.steps:
            self.go_to(self.position + 1)
            on_step(self)
        return self

    def _keep(self) -> None:
        if self.position % self._every or self.position in self._snapshots:
            return
        packed = self._snapshot()
        if packed is None:
            return
        self._snapshots[self.position] = packed
        self._bytes += len(packed)
        while self._bytes > _SNAPSHOT_BYTES_MOST and len(self._snapshots) > 2:
            # Every other one goes, and from now on half as many are taken: the way back gets longer, never the memory.
            self._every *= 2
            for step in [step for step in self._snapshots if step % self._every]:
                self._bytes -= len(self._snapshots.pop(step))

    def _go_back(self, step: int) -> None:
        self._restore(self._snapshots[step])
        self.position = step
        if step:
            self._check()

    # Looking.

    def camera(
        self,
        on: int | Pose | None = None,
        *,
        size: tuple[int, int] = (800, 450),
        fov_deg: float = 90.0,
        path: str | Path | None = None,
    ) -> NDArray[np.uint8]:
        """Draw what a camera sees: behind an actor, or at a pose of your own; u8[height, width, 3], red, green, blue.

        Without anybody it follows the first vehicle. ``path``: also written there, as PNG.
        """
        from samepath.simulator.replay import picture

        return picture.seen_from(self, on, size, fov_deg, path)

    def draw(self, path: str | Path, on: int | Pose | None = None) -> Path:
        """Draw the scene from above and from a camera, with a table of who is there: a page (.html) or a picture (.png)."""
        from samepath.simulator.replay import picture

        return picture.write(self, Path(path), on)

    @abstractmethod
    def scene(self) -> "RenderScene":
        """What there is to see now, for the renderers of cameras; flat ground has nothing to see."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The moment in plain data, for JSON."""
        return {
            "step": self.position,
            "steps": self.steps,
            "tick": self.tick,
            "time_s": self.time_s,
            "digest": self.world.digest,
        }

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # What a kind of recording implements.

    @abstractmethod
    def _commands(self) -> Mapping[int, Command]: ...

    @abstractmethod
    def _start(self) -> None:
        """Begin anew."""

    @abstractmethod
    def _forward(self) -> None:
        """Make the next step."""

    @abstractmethod
    def _check(self) -> None:
        """Hold what is there against the recording."""

    @abstractmethod
    def _snapshot(self) -> bytes | None:
        """Everything the rest of the replay depends on; None where none can be taken now."""

    @abstractmethod
    def _restore(self, packed: bytes) -> None: ...


class RunReplay(Replay):
    """The replay of a run. ``check`` holds every step against the recorded digest; without it nothing is promised."""

    def __init__(self, recording: RunRecording, name: str = "recording", *, check: bool = True) -> None:
        super().__init__(name, recording.steps)
        recording.check_map()
        self.recording = recording
        self._checks = check
        self._start()

    @classmethod
    def open(cls, path: Path) -> "RunReplay":
        """Open a file."""
        return cls(read_run(path), str(path))

    @property
    def simulation(self) -> Simulation:
        """The scenario as it is played now."""
        return self._run.simulation

    @property
    def world(self) -> World:
        return self._run.simulation.world

    @property
    def ended(self) -> str:
        return self.recording.ended

    def _commands(self) -> Mapping[int, Command]:
        return self._run.simulation.commands

    def _start(self) -> None:
        self._run: FedRun = self.recording.setup.fed(self.recording.inputs)

    def _forward(self) -> None:
        result = self._run.step()
        # A fork that was cut off has no end of its own.
        ends = self.position + 1 == self.steps and bool(self.recording.ended)
        if bool(result.ended) != ends and self._checks:
            how = f"ended ({result.ended})" if result.ended else "goes on"
            raise self._differs(f"the run {how} after step {self.position + 1}, but the recorded one had {self.steps} steps")

    def _check(self) -> None:
        if self._checks and bytes.fromhex(self.world.digest) != self.recording.digest_after(self.position):
            raise self._differs(f"step {self.position} (tick {self.tick}) came out differently from what was recorded")

    def _differs(self, what: str) -> ReplayDiffersError:
        other = made_with(self.recording.made_by)
        return ReplayDiffersError(f"{self.name}: {what}{other or '; the versions are the same: the simulator does not repeat'}")

    def _snapshot(self) -> bytes:
        return self._run.simulation.snapshot()

    def _restore(self, packed: bytes) -> None:
        self._run.restore(packed)

    def scene(self) -> "RenderScene":
        from samepath.simulator.replay.picture import scene_of

        if self.recording.scenario.map == "flat":
            raise InputError("flat ground has nothing to see: pictures of cameras need a scenario with a map")
        return scene_of(self.simulation)

    def close(self) -> None:
        self._run.close()


SERVED: Final = "served"


def open_file(path: Path, *, sensors: bool = False) -> Replay:
    """Open a recording; whatever is none, or not whole, is refused in one line. ``sensors``: those of a server measure too."""
    # Imported when it is needed: a server's code is most of the package.
    if path.is_dir():
        from samepath.simulator.replay.served import ServedReplay, read_folder
        from samepath.simulator.server.journal_files import numbers_of

        if not any(numbers_of(path)):
            raise InputError(f"{path}: a recording, a study's folder or a server's journal was wanted, but this folder is none")
        return ServedReplay(read_folder(path), str(path), sensors=sensors)
    _, parts = read_parts(path)
    what = kind_of(path, parts.get("head", b""))
    if what == RUN:
        return RunReplay(read_run(path, parts), str(path))
    if what == SERVED:
        from samepath.simulator.replay.served import ServedReplay, read_served

        return ServedReplay(read_served(path, parts), str(path), sensors=sensors)
    raise RecordingDamagedError(f"{path}: a recording of a run or of a server was wanted, but that of {what[:40]!r} came")


def kind_of(path: Path, head: bytes) -> str:
    """Say what a recording is of."""
    try:
        return str(json.loads(head)["what"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingDamagedError(f"{path} is no recording that this samepath knows: it does not say of what") from error


def recorded_run(path: Path) -> RunRecording | None:
    """Read the recording of a run; None where the file, or the folder, is of a server."""
    if path.is_dir():
        return None
    _, parts = read_parts(path)
    return None if kind_of(path, parts.get("head", b"")) == SERVED else read_run(path, parts)


def is_served(path: Path) -> bool:
    """Is this what a server did for its clients: a recording of it, or its journal?"""
    if path.is_dir():
        from samepath.simulator.server.journal_files import numbers_of

        return any(numbers_of(path))
    return path.is_file() and is_recording(path) and kind_of(path, read_parts(path)[1].get("head", b"")) == SERVED
