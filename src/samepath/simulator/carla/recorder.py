"""Recordings of a session in CARLA's own file format: written, described and played again.

The format itself is :mod:`samepath.simulator.carla.recorder_file`, which the importer of recordings shares. Nothing in here
touches a world: :class:`LogReplay` says what appears, disappears and where everything is for any step of time (between two
frames poses are interpolated, at the time of a frame they are the frame's own), and the server does it. The texts about a
recording are in CARLA's wording and columns. A client names files only inside the data folder (:func:`inside`).
"""

import contextlib
import heapq
import itertools
import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path, PureWindowsPath
from typing import Final

import numpy as np

from samepath.core.errors import InputError
from samepath.simulator.carla.recorder_file import (
    NO_ACTOR,
    ActorKind,
    AddedActor,
    Content,
    Door,
    Log,
    LogFrame,
    LogHeader,
    LogPose,
    LogWriter,
    Parent,
    SignalLight,
    VehicleInput,
    VehicleLights,
    WalkerInput,
    WriterState,
    is_log,
)

NAME_MAX_BYTES: Final = 200
PATH_MAX_BYTES: Final = 1000
_REFUSED: Final = frozenset('\\:*?"<>|')


def inside(folder: Path, name: str) -> Path:
    """The file called ``name`` in ``folder``, or an InputError: no way leads out, by dots, roots, links or odd characters.

    Subfolders may be named; links may not, not even those that stay inside. Of an absolute path outside the folder only the
    last part counts: scripts for CARLA name files on the server's disk, such as ``/home/user/run.log``.
    """
    shown = repr(name[:80])
    if is_absolute(name):
        root = folder.absolute().as_posix().rstrip("/") + "/"
        name = name.removeprefix(root) if name.startswith(root) else re.split(r"[/\\]", name)[-1]
    if not name or name.strip() != name:
        raise InputError(f"a file name was wanted, but {shown} came")
    if any(letter in _REFUSED or not letter.isprintable() for letter in name):
        raise InputError(f"a plain file name was wanted, but {shown} has a character that files may not have")
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise InputError(f"a file name inside the data folder was wanted, but {shown} walks through folders")
    sizes = [len(part.encode("utf-8", errors="surrogatepass")) for part in parts]
    if max(sizes) > NAME_MAX_BYTES or sum(sizes) + len(parts) > PATH_MAX_BYTES:
        raise InputError(f"a file name of at most {NAME_MAX_BYTES} bytes was wanted, but one of {max(sizes)} came")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise InputError(f"{shown} leads through a link, which could lead out of the data folder; remove the link")
    if path.is_dir():
        raise InputError(f"a file was wanted, but {shown} is a folder")
    return path


def is_absolute(name: str) -> bool:
    """Return True for a path from the root of a disk, as Linux or Windows writes it."""
    return name.startswith("/") or PureWindowsPath(name).is_absolute()


_HEAD_BYTES: Final = 64
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


class _NullSink:
    """Takes what is written and forgets it: for a file that holds it already."""

    def write(self, data: bytes, /) -> int:
        return len(data)

    def seek(self, place: int, /) -> int:
        return place

    def close(self) -> None:
        pass


class LogRecording:
    """An open recorder file; feed it once a tick, close it in the end. It never follows a link.

    The name comes from a client, and the folder may hold anything: only another recording is written over, any other file is
    refused and stays as it is.

    Every frame is in the hands of the kernel before the next tick: the death of this process loses none. ``rehearsed`` only
    counts what is written, for ticks that are played again after such a death: the file has them, and :meth:`go_on` goes on.
    """

    def __init__(self, path: Path, map_name: str, started_unix_s: int, *, rehearsed: bool = False) -> None:
        self.path = path
        self._file: FileIO | _NullSink = _NullSink()
        if rehearsed:
            # The answer must be the one of then: where a file that is no recording stood in the way, it still does. An empty
            # one is what a power cut may leave of a recording.
            if path.is_file() and path.stat().st_size:
                self._opened().close()
        else:
            self._file = self._new()
        try:
            self._writer = LogWriter(self._file, LogHeader(map_name, started_unix_s))
        except OSError as error:
            self.close()
            # What has no header is no recording, and would be in the way of the next one.
            with contextlib.suppress(OSError):
                self.path.unlink()
            raise self._trouble(error) from error

    def _new(self) -> FileIO:
        """A file that was not there, or an empty one in the place of a recording."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return FileIO(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644), "r+b")
        except FileExistsError:
            file = self._opened()
        except OSError as error:
            raise self._trouble(error) from error
        try:
            file.truncate(0)
        except OSError as error:
            file.close()
            raise self._trouble(error) from error
        return file

    def _opened(self) -> FileIO:
        """The recording that is there. Looked at through its own handle: the name may mean another file a moment later."""
        try:
            # Without waiting: a pipe in this place would hold the server until somebody writes into it.
            file = FileIO(os.open(self.path, os.O_RDWR | os.O_NONBLOCK | _NO_LINK), "r+b")
        except OSError as error:
            raise self._trouble(error) from error
        try:
            is_recording = stat.S_ISREG(os.fstat(file.fileno()).st_mode) and is_log(os.pread(file.fileno(), _HEAD_BYTES, 0))
        except OSError as error:
            file.close()
            raise self._trouble(error) from error
        if not is_recording:
            file.close()
            raise InputError(f"{self.path.name} is there and is no recording, which alone is written over: choose another name")
        return file

    def _trouble(self, error: OSError) -> InputError:
        return InputError(f"{self.path.name} cannot be written: {error.strerror or error}")

    @classmethod
    def restore(cls, path: Path, state: WriterState) -> "LogRecording":
        """A rehearsed recording that has come as far as ``state`` says."""
        made = cls.__new__(cls)
        made.path, made._file = path, _NullSink()
        made._writer = LogWriter.go_on(made._file, state)
        return made

    def go_on(self) -> None:
        """After a rehearsal: take up the file where it was at the last tick, whatever came after."""
        state = self._writer.state
        file = self._opened()
        try:
            fits = os.fstat(file.fileno()).st_size >= state.size
            if fits:
                file.truncate(state.size)
                self._writer = LogWriter.go_on(file, state)
        except OSError as error:
            file.close()
            raise self._trouble(error) from error
        if not fits:
            file.close()
            raise InputError(f"{self.path.name} does not have the {state.frames} frames that were recorded")
        self._file = file

    @property
    def state(self) -> WriterState:
        """How far it has come."""
        return self._writer.state

    @property
    def frames(self) -> int:
        """How many frames have been written."""
        return self._writer.frames

    def frame(self, content: Content, step_s: float) -> None:
        """Write one tick, or nothing of it."""
        whole = self._writer.state.size
        try:
            self._writer.frame(content, step_s)
        except OSError as error:
            if isinstance(self._file, FileIO):
                with contextlib.suppress(OSError):
                    self._file.truncate(whole)
            raise self._trouble(error) from error

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


_SAME_S: Final = 1e-6
_PLAYABLE: Final = 1e9
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
    placed: tuple[LogPose, ...] = ()
    signal_lights: tuple[SignalLight, ...] = ()
    vehicles: tuple[VehicleInput, ...] = ()
    walkers: tuple[WalkerInput, ...] = ()
    vehicle_lights: tuple[VehicleLights, ...] = ()
    finished: bool = False


class LogReplay:
    """Plays a recording. ``time_factor`` may be changed on the way."""

    def __init__(self, log: Log, options: ReplayOptions) -> None:
        self.log = log
        self.options = options
        self.time_factor = options.time_factor
        self.start_s, self.end_s = span_s(log, options)
        self._time_s = self.start_s
        self._frames = (_sound(frame, log.path) for frame in log.frames())
        self._here: LogFrame | None = None
        self._next: LogFrame | None = next(self._frames, None)
        self._present: dict[int, AddedActor] = {}
        self._places: dict[int, int] = {}  # the order in which those who are present came
        self._came = 0
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
        before: dict[int, tuple[int, AddedActor | None]] = {}  # of those who come or go in this step: not of all, every tick
        parents: list[Parent] = []
        doors: list[Door] = []
        while self._next is not None and self._next.elapsed_s <= time_s + _SAME_S:
            self._here, self._next = self._next, next(self._frames, None)
            content = self._here.content
            for added in content.added:
                if self._is_ignored(added):
                    self._ignored.add(added.actor)
                    continue
                before.setdefault(added.actor, (self._places.get(added.actor, -1), self._present.get(added.actor)))
                self._present[added.actor] = added
                if added.actor not in self._places:
                    self._came += 1
                    self._places[added.actor] = self._came
            for actor in content.removed:
                before.setdefault(actor, (self._places.get(actor, -1), self._present.get(actor)))
                self._present.pop(actor, None)
                self._places.pop(actor, None)
            parents.extend(content.parents)
            doors.extend(content.doors)
        self._time_s = time_s
        here, present = self._here, self._present
        came = [actor for actor, (_, former) in before.items() if actor in present and present[actor] is not former]
        went = [actor for actor, (_, former) in before.items() if former is not None and present.get(actor) is not former]
        step = ReplayStep(
            time_s,
            added=tuple(present[actor] for actor in sorted(came, key=self._places.__getitem__)),
            removed=tuple(sorted(went, key=lambda actor: before[actor][0])),
            parents=tuple(parent for parent in parents if parent.actor in present and parent.parent in present),
            doors=tuple(door for door in doors if door.actor in present),
            finished=time_s >= self.end_s - _SAME_S or self._next is None,
        )
        if here is None:
            return step
        content = here.content
        return replace(
            step,
            placed=tuple(pose for pose in self._between(here, time_s) if pose.actor in present),
            signal_lights=tuple(light for light in content.signal_lights if light.actor not in self._ignored),
            vehicles=tuple(vehicle for vehicle in content.vehicles if vehicle.actor in present),
            walkers=tuple(walker for walker in content.walkers if walker.actor in present),
            vehicle_lights=tuple(lights for lights in content.vehicle_lights if lights.actor in present),
        )

    def _is_ignored(self, actor: AddedActor) -> bool:
        options = self.options
        if actor.type.startswith("sensor.") or actor.type.startswith("controller."):
            return not options.replay_sensors
        return (options.ignore_hero and actor.role == "hero") or (options.ignore_spectator and actor.type == _SPECTATOR)

    def _between(self, here: LogFrame, time_s: float) -> Sequence[LogPose]:
        following = self._next
        if following is None or time_s - here.elapsed_s <= _SAME_S:
            return here.content.placed
        part = (time_s - here.elapsed_s) / (following.elapsed_s - here.elapsed_s)
        ahead = {pose.actor: pose for pose in following.content.placed}
        return [_mixed(pose, ahead[pose.actor], part) if pose.actor in ahead else pose for pose in here.content.placed]


def _mixed(a: LogPose, b: LogPose, part: float) -> LogPose:
    """A place between two, turning the short way round."""
    metres = [p + part * (q - p) for p, q in zip(a[1:4], b[1:4], strict=True)]
    degrees = [p + part * math.remainder(q - p, 360.0) for p, q in zip(a[4:], b[4:], strict=True)]
    return LogPose(a.actor, *metres, *degrees)


def _sound(frame: LogFrame, path: Path) -> LogFrame:
    """A frame that a world can be put into: one number that is none, and the physics would stop."""
    content = frame.content
    for rows in (content.placed, content.vehicles, content.walkers, content.added):
        for row in rows:
            odd = next((value for value in row if isinstance(value, float) and not abs(value) <= _PLAYABLE), None)
            if odd is not None:
                where = f"{path.name}, frame {frame.number}, actor {row[0]}"
                raise InputError(f"{where}: numbers up to {_PLAYABLE:g} were wanted, but {odd:g} came")
    return frame


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


_LETTERS: Final = {ActorKind.OTHER: "o", ActorKind.VEHICLE: "v", ActorKind.WALKER: "w", ActorKind.TRAFFIC_LIGHT: "t"}
_LIGHTS: Final = (
    "Position", "LowBeam", "HighBeam", "Brake", "RightBlinker", "LeftBlinker", "Reverse", "Fog", "Interior",
    "Special1", "Special2",
)  # fmt: skip
_CM_PER_M: Final = 100.0
# What a text about a recording may hold. A name of 60 KB stands in the file once, and in the text with every collision.
LINES_MAX: Final = 100_000
TEXT_MAX_BYTES: Final = 8 * 1024 * 1024


class _Lines:
    """The lines of a text, up to its bound; then one that says so, and no more."""

    def __init__(self, log: Log, *titles: str) -> None:
        self._log = log
        self._lines = [*_head(log), *titles]
        self._left_bytes = TEXT_MAX_BYTES
        self.is_full = False

    def add(self, line: str, until: str) -> None:
        """Add a line; if it does not fit, ``until`` tells how far the text goes."""
        self._left_bytes -= len(line) if line.isascii() else len(line.encode())
        if not self.is_full and (self._left_bytes < 0 or len(self._lines) >= LINES_MAX):
            self._lines.append(f"... and more: the text ends {until}")
            self.is_full = True
        if not self.is_full:
            self._lines.append(line)

    def text(self) -> str:
        frames, duration_s = self._log.extent
        cut = ["The recording was not ended: what follows its last whole frame is left out"] if self._log.is_cut else []
        return "\n".join([*self._lines, "", *cut, f"Frames: {frames}", f"Duration: {duration_s:g} seconds", ""])


def info_text(log: Log, *, everything: bool) -> str:
    """The events of a recording, or with ``everything`` all that happens in every frame."""
    lines = _Lines(log)
    for frame in log.frames():
        title: str | None = f"Frame {frame.number} at {frame.elapsed_s:g} seconds"
        found = itertools.chain(_events(frame.content), _states(frame.content) if everything else ())
        for line in found:
            if title is not None:
                lines.add(title, f"before frame {frame.number}")
                title = None
            lines.add(line, f"within frame {frame.number}")
            if lines.is_full:
                return lines.text()
    return lines.text()


def _head(log: Log) -> Iterator[str]:
    yield f"Version: {log.header.version}"
    yield f"Map: {log.header.map_name}"
    yield f"Date: {_date(log.header.started_unix_s)}"
    yield ""


def _date(unix_s: int) -> str:
    """Month, day, year and time in UTC."""
    if not 0 <= unix_s < 253402300800:
        return "unknown"
    day, _, clock = str(np.datetime64(unix_s, "s")).partition("T")
    year, month, number = day.split("-")
    return f"{month}/{number}/{year[2:]} {clock}"


def _place(*metres: float) -> str:
    return "(" + ", ".join(f"{value * _CM_PER_M:g}" for value in metres) + ")"


def _numbers(*values: float) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _events(content: Content) -> Iterator[str]:
    for actor in content.added:
        yield f" Create {actor.actor}: {actor.type} ({actor.kind}) at {_place(actor.x_m, actor.y_m, actor.z_m)}"
        yield from (f"  {name} = {value}" for _, name, value in actor.attributes)
    yield from (f" Destroy {actor}" for actor in content.removed)
    yield from (f" Parenting {actor} with {parent} (parent)" for actor, parent in content.parents)
    for hit in content.hits:
        first, second = (" (hero) " if hero else "" for hero in (hit.actor_is_hero, hit.other_is_hero))
        yield f" Collision id {hit.number} between {hit.actor}{first} with {hit.other}{second}"


def _states(content: Content) -> Iterator[str]:
    yield f" Positions: {len(content.placed)}"
    for pose in content.placed:
        where, turn = _place(pose.x_m, pose.y_m, pose.z_m), _numbers(pose.roll_deg, pose.pitch_deg, pose.yaw_deg)
        yield f"  Id: {pose.actor} Location: {where} Rotation: {turn}"
    yield f" State traffic lights: {len(content.signal_lights)}"
    for light in content.signal_lights:
        yield f"  Id: {light.actor} state: {light.shows} frozen: {int(light.frozen)} elapsedTime: {light.elapsed_s:g}"
    yield f" Vehicle animations: {len(content.vehicles)}"
    for car in content.vehicles:
        pedals = f"Steering: {car.steer:g} Throttle: {car.throttle:g} Brake: {car.brake:g}"
        yield f"  Id: {car.actor} {pedals} Handbrake: {int(car.hand_brake)} Gear: {car.gear}"
    yield f" Walker animations: {len(content.walkers)}"
    yield from (f"  Id: {walker.actor} speed: {walker.speed_mps:g}" for walker in content.walkers)
    yield f" Vehicle light animations: {len(content.vehicle_lights)}"
    for lamp in content.vehicle_lights:
        names = [name for bit, name in enumerate(_LIGHTS) if lamp.flags >> bit & 1]
        yield f"  Id: {lamp.actor} {' '.join(names) or 'None'}"
    if content.kinematics:
        yield f" Dynamic actors: {len(content.kinematics)}"
        for one_speed in content.kinematics:
            actor, *speeds = one_speed
            yield f"  Id: {actor} linear_velocity: {_numbers(*speeds[:3])} angular_velocity: {_numbers(*speeds[3:])}"
    for title, boxes in (("Actor bounding boxes", content.boxes), ("Actor trigger volumes", content.triggers)):
        if boxes:
            yield f" {title}: {len(boxes)}"
            for actor, *sizes in boxes:
                yield f"  Id: {actor} origin: {_place(*sizes[:3])} extension: {_place(*sizes[3:])}"
    if content.light_times:
        yield f" Traffic Light time events: {len(content.light_times)}"
        for times in content.light_times:
            each = f"green_time: {times.green_s:g} yellow_time: {times.yellow_s:g} red_time: {times.red_s:g}"
            yield f"  Id: {times.actor} {each}"
    if content.platform_s is not None:
        yield f" Current platform time: {content.platform_s:g}"


def collisions_text(log: Log, first: str, second: str) -> str:
    """When actors of two categories began to touch: o other, v vehicle, w walker, t traffic light, h hero, a any."""
    lines = _Lines(log, f"{'Time':>8} {'Types':>6} {'Id':>6} {'Actor 1':<35} {'Id':>6} {'Actor 2':<35}")
    known: dict[int, tuple[str, str]] = {NO_ACTOR: ("o", "")}
    before: set[tuple[int, int]] = set()
    for frame in log.frames():
        for actor in frame.content.added:
            known[actor.actor] = (_LETTERS.get(ActorKind(min(actor.kind, 4)), "o"), actor.type)
        now: set[tuple[int, int]] = set()
        for hit in frame.content.hits:
            if lines.is_full:
                return lines.text()
            letters, names = zip(*(known.get(actor, ("o", "")) for actor in (hit.actor, hit.other)), strict=True)
            heroes = (hit.actor_is_hero, hit.other_is_hero)
            wanted = zip((first, second), letters, heroes, strict=True)
            if not all(asked in {"a", letter} or (asked == "h" and hero) for asked, letter, hero in wanted):
                continue
            now.add((hit.actor, hit.other))
            if (hit.actor, hit.other) not in before:
                ids = [f"{-1 if actor == NO_ACTOR else actor:>6}" for actor in (hit.actor, hit.other)]
                lines.add(
                    f"{frame.elapsed_s:>8.0f}   {letters[0]} {letters[1]}  {ids[0]} {names[0]:<35} {ids[1]} {names[1]:<35}",
                    f"within frame {frame.number}",
                )
        before = now
    return lines.text()


def blocked_text(log: Log, least_s: float, least_cm: float) -> str:
    """Which actors moved less than ``least_cm`` for at least ``least_s``, the longest first."""
    lines = _Lines(log, f"{'Time':>8} {'Id':>6} {'Actor':<35} {'Duration':>10}")
    types: dict[int, str] = {}
    long = ((for_s, since_s, actor) for for_s, since_s, actor in _stops(log, least_cm, types) if for_s >= least_s)
    # No more are kept than are shown: with 0 cm everybody stops in every frame, which is twenty million times in a long file.
    for for_s, since_s, actor in heapq.nsmallest(LINES_MAX + 1, long, key=lambda row: (-row[0], row[1], row[2])):
        if lines.is_full:
            break
        lines.add(
            f"{since_s:>8.0f} {actor:>6} {types.get(actor, ''):<35} {for_s:>10.0f}", f"with those who stood for {for_s:.0f} s"
        )
    return lines.text()


def _stops(log: Log, least_cm: float, types: dict[int, str]) -> Iterator[tuple[float, float, int]]:
    """For how long, since when and who: every stay of every actor within ``least_cm``. Fills in the types of actors."""
    stopped: dict[int, tuple[LogPose, float, float]] = {}  # where, since when, for how long
    for frame in log.frames():
        types.update({actor.actor: actor.type for actor in frame.content.added})
        for pose in frame.content.placed:
            place, since_s, for_s = stopped.get(pose.actor, (pose, frame.elapsed_s, 0.0))
            if _apart_cm(place, pose) < least_cm or pose is place:
                stopped[pose.actor] = (place, since_s, for_s + max(frame.duration_s, 0.0))
            else:
                yield for_s, since_s, pose.actor
                stopped[pose.actor] = (pose, frame.elapsed_s, max(frame.duration_s, 0.0))
    yield from ((for_s, since_s, actor) for actor, (_, since_s, for_s) in stopped.items())


def _apart_cm(a: LogPose, b: LogPose) -> float:
    return math.dist(a[1:4], b[1:4]) * _CM_PER_M


__all__ = [
    "LogRecording",
    "LogReplay",
    "ReplayOptions",
    "ReplayStep",
    "blocked_text",
    "collisions_text",
    "info_text",
    "inside",
    "replay_text",
]
