"""What would have happened if: a recorded run up to a step, then a changed command, and the two futures side by side.

Up to the fork everything is as recorded, and held against the recording. From there on steps are as long as they were then and
chance falls as it fell, so that what differs comes from the change alone. Everybody else goes on in one of two ways:

* *open loop*: under the commands that were recorded. The world reacts, nobody does: how far does the change reach through
  physics alone?
* *closed loop*: the scenario's own drivers and walkers see the changed world and decide from it, once in every control period.
  They have the memory of having driven along until then. Whoever was driven by a function or a process of the user's own stays
  under its recorded commands: nothing that a file names is ever run.

Where the fork needs chance that was not drawn in the recorded run (a gust on somebody who was gone then), it comes from streams
that belong to the fork, named by the recording's seed: the same fork gives the same future.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import VehicleType, WalkerType, actor_type
from samepath.core.errors import InputError, unknown
from samepath.core.states import Collision, Command, VehicleCommand, WalkerCommand
from samepath.scenarios.run_inputs import InputFeed, InputRecorder
from samepath.simulator.game_loop import InlineDecider
from samepath.simulator.replay.recording import RunRecording, versions
from samepath.simulator.replay.replay import TICK_S, ReplayDiffersError
from samepath.simulator.run_setup import FedRun
from samepath.simulator.simulation import StepResult
from samepath.simulator.world.state_table import STATE_FIELDS

OPEN: Final = "open loop"
CLOSED: Final = "closed loop"
# What a command's numbers may be; what is not here is true or false, or a gear.
_LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "throttle": (0.0, 1.0),
    "steer": (-1.0, 1.0),
    "brake": (0.0, 1.0),
    "direction_x": (-1.0, 1.0),
    "direction_y": (-1.0, 1.0),
    "speed_mps": (0.0, 10.0),
}
_GEARS: Final = (-1, 20)
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class CommandChange:
    """From the fork on, ``actor`` is under its command with these fields set; everything else of it stays."""

    actor: int
    fields: Mapping[str, float | bool | int]

    @classmethod
    def of_words(cls, words: Sequence[str], recording: RunRecording) -> "CommandChange":
        """Read ``actor=2 throttle=0 brake=1``; what the actor cannot be told is refused by its name."""
        pairs: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not (name and equals and value):
                raise InputError(f"--set: NAME=VALUE was wanted, such as actor=2 throttle=0, but {word!r} came")
            pairs[name] = value
        number = pairs.pop("actor", None)
        specs = {spec.id: spec for spec in recording.scenario.actors}
        if number is None or not number.isdecimal() or int(number) not in specs:
            raise InputError(f"--set: actor= one of {', '.join(map(str, specs))} was wanted, but {number or 'none'} came")
        if not pairs:
            raise InputError(f"--set: what to change of actor {number} was wanted, such as throttle=0, but nothing came")
        kind = actor_type(specs[int(number)].type)
        if not isinstance(kind, VehicleType | WalkerType):
            raise InputError(f"--set: actor {number} is a {kind.name}, which takes no command")
        known = [item.name for item in fields(VehicleCommand if isinstance(kind, VehicleType) else WalkerCommand)]
        found: dict[str, float | bool | int] = {}
        for name, text in pairs.items():
            if name not in known:
                raise unknown(f"field of a command to actor {number}", name, known)
            found[name] = _value(name, text)
        return cls(int(number), found)

    def applied(self, command: Command | None, *, drives: bool) -> Command:
        """Return a command with the change in it."""
        plain: Command = VehicleCommand() if drives else WalkerCommand()
        return replace(command if command is not None else plain, **dict(self.fields))  # type: ignore[arg-type]


def _value(name: str, text: str) -> float | bool | int:
    least, most = _GEARS if name == "manual_gear" else _LIMITS.get(name, (0.0, 1.0))
    try:
        number = {"true": 1.0, "false": 0.0}.get(text.lower()) if name not in _LIMITS else None
        number = float(text) if number is None else number
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise InputError(f"--set: {name}: a number from {least:g} to {most:g} was wanted, but {text!r} came")
    if name == "manual_gear":
        return int(number)
    return number if name in _LIMITS else bool(number)


class ForkedFeed(InputFeed):
    """What went into a run, with commands changed from a step on."""

    def __init__(self, recording: RunRecording, at: int, changes: Sequence[CommandChange]) -> None:
        super().__init__(recording.inputs, fork_seed=recording.seed)
        self.at = at
        self._changes = {change.actor: change for change in changes}
        kinds = {spec.id: actor_type(spec.type) for spec in recording.scenario.actors}
        self._drives = {number: isinstance(kind, VehicleType) for number, kind in kinds.items()}

    def command(self, step: int, actor: int) -> Command | None:
        return self.changed(step, {actor: super().command(step, actor)}).get(actor)

    def commands(self, step: int, here: Iterable[int]) -> dict[int, Command]:
        present = sorted(here)
        told: dict[int, Command | None] = {**super().commands(step, present)}
        return self.changed(step, {number: told.get(number) for number in present})

    def changed(self, step: int, commands: Mapping[int, Command | None]) -> dict[int, Command]:
        """Return commands with the changes that hold in a step."""
        found: dict[int, Command] = {}
        for number, command in commands.items():
            change = self._changes.get(number) if step >= self.at else None
            told = command if change is None else change.applied(command, drives=self._drives[number])
            if told is not None:
                found[number] = told
        return found

    def finished(self, step: int) -> frozenset[int]:
        # Whether somebody who was led elsewhere has arrived was not recorded: nobody of them has.
        return super().finished(step) - self._changes.keys() if step >= self.at else super().finished(step)


@dataclass(frozen=True)
class ForkedActor:
    """Where an actor is in the fork, against where it was: None where it never parts from its recorded way.

    Distances are between centres, at the same step. ``parts_field`` is the first field of its state that differs, to the bit.
    """

    id: int
    type: str
    parts_step: int | None = None
    parts_tick: int | None = None
    parts_s: float | None = None
    parts_field: str = ""
    farthest_m: float = 0.0
    farthest_tick: int | None = None
    last_m: float = 0.0
    only_in: str = ""


@dataclass(frozen=True)
class Future:
    """What happened after the fork: who touched whom first, at which tick, and how it ended; empty: it was cut off."""

    collisions: tuple[tuple[int, int, int | None], ...]
    ended: str
    steps: int


@dataclass(frozen=True)
class Fork:
    """Two futures of one past. ``distances_m[actor]`` is by step after the fork, NaN where one of the two has nobody there."""

    at_step: int
    at_tick: int
    loop: str
    changes: tuple[CommandChange, ...]
    actors: tuple[ForkedActor, ...]
    recorded: Future
    forked: Future
    times_s: NDArray[np.float64]
    distances_m: Mapping[int, NDArray[np.float64]]
    recording: RunRecording = field(repr=False)

    @property
    def same(self) -> bool:
        """Did the change change nothing?"""
        return all(actor.parts_step is None and not actor.only_in for actor in self.actors)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, for JSON."""
        return {
            "same": self.same,
            "at_step": self.at_step,
            "at_tick": self.at_tick,
            "loop": self.loop,
            "changes": [{"actor": change.actor, **change.fields} for change in self.changes],
            "actors": [asdict(actor) for actor in self.actors],
            "recorded": asdict(self.recorded),
            "forked": asdict(self.forked),
        }

    def figure(self, path: Path) -> Path:
        """Draw how far apart the futures are over time, one line per actor."""
        return draw_distances(self, path)


def fork(
    recording: RunRecording,
    at_tick: int,
    changes: Sequence[CommandChange],
    *,
    closed_loop: bool = False,
    until_tick: int | None = None,
    name: str = "recording",
) -> Fork:
    """Change commands from a tick on, go on, and compare what comes of it with what came."""
    recording.check_map()
    base = _base(recording, name)
    at = next((step for step, time_s in enumerate(base.times_s) if time_s >= at_tick * TICK_S - _ROUNDING), None)
    if at_tick < 0 or at is None or at >= recording.steps:
        last = round(base.times_s[-1] / TICK_S)
        raise InputError(f"--at: a tick from 0 to {last - 1} was wanted, before the run's end, but {at_tick} came")
    stop = recording.steps
    if until_tick is not None:
        reached = next((step for step, time_s in enumerate(base.times_s) if time_s >= until_tick * TICK_S - _ROUNDING), None)
        if reached is None or reached <= at:
            raise InputError(f"--until: a tick after {at_tick} and within the run was wanted, but {until_tick} came")
        stop = reached
    other = _forked(recording, at, changes, stop, base, closed_loop=closed_loop, name=name)
    return _compared(recording, at, at_tick, changes, base, other, stop, CLOSED if closed_loop else OPEN)


@dataclass
class _Track:
    """States by step: index 0 is before the first one."""

    times_s: list[float] = field(default_factory=list)
    states: list[dict[int, tuple[float, ...]]] = field(default_factory=list)
    collisions: list[tuple[int, Collision]] = field(default_factory=list)
    digests: bytearray = field(default_factory=bytearray)
    ended: str = ""
    inputs: InputRecorder | None = None

    def take(self, run: FedRun, result: StepResult | None) -> None:
        world = run.simulation.world
        self.times_s.append(world.time_s)
        ids, values = world.state_array()
        self.states.append(dict(zip(ids.tolist(), map(tuple, values.tolist()), strict=True)))
        if result is not None:
            self.collisions += [(run.step_count, collision) for collision in result.collisions]
            self.digests += bytes.fromhex(world.digest)
            self.ended = result.ended or ""


def _base(recording: RunRecording, name: str) -> _Track:
    """The recorded run, played again and held against its digests."""
    run, track = recording.setup.fed(recording.inputs), _Track()
    try:
        track.take(run, None)
        for _ in range(recording.steps):
            track.take(run, run.step())
    finally:
        run.close()
    _hold(recording, track, recording.steps, name)
    return track


def _hold(recording: RunRecording, track: _Track, steps: int, name: str) -> None:
    if bytes(track.digests[: steps * 16]) != recording.digests[: steps * 16]:
        pairs = ((track.digests[16 * k : 16 * k + 16], recording.digest_after(k + 1)) for k in range(steps))
        same = next(k for k, (came, wanted) in enumerate(pairs) if came != wanted)
        raise ReplayDiffersError(f"{name}: step {same + 1} came out differently from what was recorded: nothing to fork from")


def _forked(
    recording: RunRecording,
    at: int,
    changes: Sequence[CommandChange],
    stop: int,
    base: _Track,
    *,
    closed_loop: bool,
    name: str,
) -> _Track:
    feed, inputs = ForkedFeed(recording, at, changes), InputRecorder()
    run = FedRun(recording.setup, feed, inputs, open_loop=not closed_loop)
    track = _Track(inputs=inputs)
    # Asked from the beginning, as they were in the run, and listened to from the fork on.
    drivers = InlineDecider(run.simulation.decide) if closed_loop else None
    try:
        track.take(run, None)
        while run.step_count < stop and not (track.ended and run.step_count > at):
            commands = None
            if drivers is not None:
                told = drivers.commands(run.period_view())
                here = run.simulation.world.states()
                commands = feed.changed(run.step_count, told) if run.step_count >= at else feed.commands(run.step_count, here)
            track.take(run, run.step(commands))
            if run.step_count <= at:
                track.ended = ""
    finally:
        run.close()
    _hold(recording, track, at, name)
    return track


def _compared(
    recording: RunRecording,
    at: int,
    at_tick: int,
    changes: Sequence[CommandChange],
    base: _Track,
    other: _Track,
    stop: int,
    loop: str,
) -> Fork:
    count = min(len(base.states), len(other.states), stop + 1)
    steps = range(at, count)
    found: list[ForkedActor] = []
    distances: dict[int, NDArray[np.float64]] = {}
    for spec in recording.scenario.actors:
        pairs = [(base.states[step].get(spec.id), other.states[step].get(spec.id)) for step in steps]
        away = np.array([np.nan if a is None or b is None else math.dist(a[:3], b[:3]) for a, b in pairs])
        distances[spec.id] = away
        found.append(_actor(spec.id, spec.type, pairs, away, at, base.times_s))
    return Fork(
        at_step=at,
        at_tick=at_tick,
        loop=loop,
        changes=tuple(changes),
        actors=tuple(found),
        recorded=_future(base, at, count),
        forked=_future(other, at, count),
        times_s=np.array(base.times_s[at:count]),
        distances_m=distances,
        recording=_saved(recording, other),
    )


def _actor(
    number: int,
    kind: str,
    pairs: Sequence[tuple[tuple[float, ...] | None, tuple[float, ...] | None]],
    away: NDArray[np.float64],
    at: int,
    times_s: Sequence[float],
) -> ForkedActor:
    first = next((index for index, (a, b) in enumerate(pairs) if _bits(a) != _bits(b)), None)
    if first is None:
        return ForkedActor(number, kind)
    a, b = pairs[first]
    part = ""
    if a is not None and b is not None:
        part = next(name for name, x, y in zip(STATE_FIELDS, a, b, strict=True) if _bits((x,)) != _bits((y,)))
    only = next(("the fork" if a is None else "the recorded run" for a, b in pairs if (a is None) != (b is None)), "")
    seen = away[~np.isnan(away)]
    farthest = int(np.nanargmax(away)) if len(seen) else None
    return ForkedActor(
        number,
        kind,
        parts_step=at + first,
        parts_tick=_tick(times_s[at + first]),
        parts_s=times_s[at + first],
        parts_field=part,
        farthest_m=float(seen.max()) if len(seen) else 0.0,
        farthest_tick=None if farthest is None else _tick(times_s[at + farthest]),
        last_m=float(seen[-1]) if len(seen) else 0.0,
        only_in=only,
    )


def _bits(values: tuple[float, ...] | None) -> bytes | None:
    return None if values is None else np.array(values, "<f8").tobytes()


def _tick(time_s: float) -> int:
    return int(time_s / TICK_S + _ROUNDING)


def _future(track: _Track, at: int, count: int) -> Future:
    hits = tuple((_tick(track.times_s[step]), hit.actor, hit.other) for step, hit in track.collisions if at < step < count)
    return Future(hits, track.ended if len(track.states) <= count else "", count - 1 - at)


def _saved(recording: RunRecording, track: _Track) -> RunRecording:
    """The fork as a recording of its own: everything that went into it, and the digests of what came of it."""
    log = track.inputs.log if track.inputs is not None else recording.inputs
    return replace(
        recording,
        inputs=log,
        digests=bytes(track.digests),
        ended=track.ended,
        trace_digest="",
        sensors=(),
        origin=f"fork of {recording.origin or 'a recording'}",
        made_by=versions(),
    )


def draw_distances(found: Fork, path: Path) -> Path:
    """See :meth:`Fork.figure`; the file's ending says which kind of picture."""
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"--figure: a file *.png, *.svg or *.pdf was wanted, but {path.name!r} came")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for actor in found.actors:
        if actor.parts_step is not None:
            # A distance of nothing has no place on a logarithmic scale: there the two are the same.
            away = np.where(found.distances_m[actor.id] > 0, found.distances_m[actor.id], np.nan)
            axes.plot(found.times_s, away, label=f"actor {actor.id} ({actor.type})")
    axes.axvline(float(found.times_s[0]), color="grey", linestyle=":", label="fork")
    for collisions, style, words in ((found.recorded, "--", "recorded"), (found.forked, "-", "fork")):
        for tick, actor_id, other in collisions.collisions[:10]:
            who = f"{actor_id} and {'scenery' if other is None else other}"
            axes.axvline(tick * TICK_S, color="tab:red", linestyle=style, alpha=0.5, label=f"collision of {who} ({words})")
    axes.set_yscale("log")
    axes.set_xlabel("simulated time, s")
    axes.set_ylabel("distance between the futures, m")
    axes.set_title(f"Fork at tick {found.at_tick}, {found.loop}")
    axes.legend(fontsize="small")
    figure.savefig(path)
    return path
