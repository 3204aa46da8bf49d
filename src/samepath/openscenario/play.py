"""Plays a storyboard once, without physics, and writes down when everybody is where: a plan that any engine can drive.

In each tick, in this order and by the order of the file: triggers are looked at and parts begin or stop; then everybody moves.
There is no chance and no clock: a file gives the same plan on every machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError
from samepath.openscenario.conditions import Situation, TriggerMemory
from samepath.openscenario.motion import MotionJob, Mover, SpeedJob, WayJob, move, side_job
from samepath.openscenario.records import (
    Act,
    ChangeLane,
    ChangeOffset,
    ChangeSpeed,
    Clothoids,
    Curve,
    DriveItself,
    FileAction,
    FileTrigger,
    FollowRoute,
    FollowTrajectory,
    JudgedAfterwards,
    KeepBeside,
    KeepDistance,
    LeftOut,
    ManeuverGroup,
    NamedAction,
    Nurbs,
    ScenarioFile,
    SetParameter,
    SpeedProfile,
    Story,
    StoryEvent,
    StoryManeuver,
    Synchronise,
    Teleport,
)
from samepath.openscenario.roads import Roads, Spot

STEP_S: Final = 0.05
# Of all ways that are begun: an event may begin one at every tick, and a point of a curve takes tens of microseconds.
POINTS_MAX: Final = 1_000_000
# A storyboard that nothing ends is played for so long.
LONGEST_S: Final = 60.0
SHORTEST_S: Final = 1.0
STANDBY, RUNNING, COMPLETE = "standbyState", "runningState", "completeState"
_START, _END, _STOP, _SKIP = "startTransition", "endTransition", "stopTransition", "skipTransition"


@dataclass(frozen=True)
class Track:
    """Where one entity's middle is, tick by tick: (x, y) in metres, and the speed it starts with."""

    points: tuple[tuple[float, float], ...]
    yaw_deg: float
    start_mps: float


@dataclass(frozen=True)
class MotionPlan:
    """What everybody does, by name in the order of the file, every ``STEP_S``; ``ended`` says what ended it."""

    tracks: tuple[tuple[str, Track], ...]
    ticks: int
    ended: str


class _Part:
    """A part of the storyboard with a state."""

    def __init__(self, kind: str, name: str, now: Situation) -> None:
        self.kind, self.name, self._now = kind, name, now
        self.state = STANDBY
        now.states.setdefault((kind, name), STANDBY)

    def turn(self, state: str, transition: str) -> None:
        self.state = state
        self._now.states[self.kind, self.name] = state
        self._now.happened.append((self.kind, self.name, transition))


class _RunningEvent(_Part):
    def __init__(self, event: StoryEvent, actors: tuple[str, ...], player: "Player") -> None:
        super().__init__("event", event.name, player.now)
        self.event, self._actors, self._player = event, actors, player
        self._trigger = player.trigger(event.start)
        self._jobs: list[tuple[_Part, list[MotionJob]]] = []
        self._left = max(1, event.times_max)
        for action in event.actions:
            player.now.states.setdefault(("action", action.name), STANDBY)

    def fires(self) -> bool:
        return self.state == STANDBY and (self._trigger is None or self._trigger.fires(self._player.now))

    def begin(self, *, uses_triggering: bool) -> None:
        self.turn(RUNNING, _START)
        self._left -= 1
        triggering = self._trigger.triggering if self._trigger is not None else ()
        actors = triggering if uses_triggering and triggering else self._actors
        self._jobs = []
        for named in self.event.actions:
            part = _Part("action", named.name, self._player.now)
            part.turn(RUNNING, _START)
            self._jobs.append((part, self._player.start(named, actors)))

    def check(self) -> None:
        """Actions whose jobs are over have ended; with the last of them the event has."""
        for part, jobs in self._jobs:
            if part.state == RUNNING and all(job.ended for job in jobs):
                part.turn(COMPLETE, _END)
        if self.state == RUNNING and all(part.state == COMPLETE for part, _ in self._jobs):
            self.turn(STANDBY if self._left > 0 else COMPLETE, _END)

    def stop(self) -> None:
        for part, jobs in self._jobs:
            if part.state == RUNNING:
                for job in jobs:
                    job.ended = True
                self._player.forget(jobs)
                part.turn(COMPLETE, _STOP)
        if self.state != COMPLETE:
            was_running = self.state == RUNNING
            self.turn(COMPLETE, _STOP if was_running else _SKIP)

    def skip(self) -> None:
        self._left -= 1
        self.turn(STANDBY if self._left > 0 else COMPLETE, _SKIP)


class _RunningManeuver(_Part):
    def __init__(self, maneuver: StoryManeuver, group: ManeuverGroup, player: "Player") -> None:
        super().__init__("maneuver", maneuver.name, player.now)
        self._uses_triggering = group.uses_triggering
        self.events = [_RunningEvent(event, group.actors, player) for event in maneuver.events]

    def step(self) -> None:
        # All triggers are looked at before any event begins: what one starts must not hide what another saw.
        firing = [event for event in self.events if event.fires()]
        for event in firing:
            others = [other for other in self.events if other is not event and other.state == RUNNING]
            if event.event.priority == "skip" and others:
                event.skip()
                continue
            if event.event.priority in ("overwrite", "override"):
                for other in others:
                    other.stop()
            event.begin(uses_triggering=self._uses_triggering)

    def check(self) -> None:
        for event in self.events:
            event.check()
        if self.state == RUNNING and all(event.state == COMPLETE for event in self.events):
            self.turn(COMPLETE, _END)

    def stop(self) -> None:
        for event in self.events:
            event.stop()
        if self.state == RUNNING:
            self.turn(COMPLETE, _STOP)


class _RunningGroup(_Part):
    def __init__(self, group: ManeuverGroup, player: "Player") -> None:
        super().__init__("maneuverGroup", group.name, player.now)
        self._group, self._player = group, player
        self._left = max(1, group.times_max)
        self.maneuvers = self._made()

    def _made(self) -> list[_RunningManeuver]:
        return [_RunningManeuver(maneuver, self._group, self._player) for maneuver in self._group.maneuvers]

    def begin(self) -> None:
        self._left -= 1
        self.turn(RUNNING, _START)
        for maneuver in self.maneuvers:
            maneuver.turn(RUNNING, _START)

    def check(self) -> None:
        for maneuver in self.maneuvers:
            maneuver.check()
        if self.state == RUNNING and all(maneuver.state == COMPLETE for maneuver in self.maneuvers):
            if self._left > 0 and self.maneuvers:
                self.maneuvers = self._made()
                self.begin()
            else:
                self.turn(COMPLETE, _END)

    def stop(self) -> None:
        for maneuver in self.maneuvers:
            maneuver.stop()
        if self.state == RUNNING:
            self.turn(COMPLETE, _STOP)


class _RunningAct(_Part):
    def __init__(self, act: Act, player: "Player") -> None:
        super().__init__("act", act.name, player.now)
        self._start, self._stop, self._player = player.trigger(act.start), player.trigger(act.stop, stop=True), player
        self.groups = [_RunningGroup(group, player) for group in act.groups]

    def step(self) -> None:
        now = self._player.now
        if self.state == STANDBY and (self._start is None or self._start.fires(now)):
            self.turn(RUNNING, _START)
            for group in self.groups:
                group.begin()
        if self.state == RUNNING and self._stop is not None and self._stop.fires(now):
            for group in self.groups:
                group.stop()
            self.turn(COMPLETE, _STOP)
        if self.state == RUNNING:
            for group in self.groups:
                if group.state == RUNNING:
                    for maneuver in group.maneuvers:
                        maneuver.step()

    def check(self) -> None:
        for group in self.groups:
            group.check()
        if self.state == RUNNING and all(group.state == COMPLETE for group in self.groups):
            self.turn(COMPLETE, _END)


class _RunningStory(_Part):
    def __init__(self, story: Story, player: "Player") -> None:
        super().__init__("story", story.name, player.now)
        self.acts = [_RunningAct(act, player) for act in story.acts]

    def check(self) -> None:
        for act in self.acts:
            act.check()
        if self.state == RUNNING and all(act.state == COMPLETE for act in self.acts):
            self.turn(COMPLETE, _END)


class Player:
    """Plays one file."""

    def __init__(self, file: ScenarioFile) -> None:
        self._file = file
        self.roads = Roads(file.map)
        self.movers: dict[str, Mover] = {}
        self.now = Situation(0.0, self.movers, self.roads, dict(file.parameters))
        self._points_left = POINTS_MAX
        self._place()
        self._stories = [_RunningStory(story, self) for story in file.stories]
        self._stop = self.trigger(file.stop, stop=True)

    def trigger(self, trigger: FileTrigger | None, *, stop: bool = False) -> TriggerMemory | None:
        """A trigger's memory; one without conditions starts at once and stops never."""
        if not trigger:
            return None
        if stop and all(isinstance(condition.test, JudgedAfterwards) for group in trigger for condition in group):
            return None
        return TriggerMemory(trigger, latches=self._file.latches)

    def _place(self) -> None:
        """Put everybody where the file begins, then begin what they do from there."""
        spots = self._places()
        for entity in self._file.entities:
            spot = spots.get(entity.name)
            if spot is None:
                starts = [action for name, action in self._file.first if name == entity.name]
                line = next((action for action in starts if isinstance(action, FollowTrajectory)), None)
                if line is None:
                    raise InputError(f"a TeleportAction in <Init> was wanted for {entity.name!r}: it is nowhere")
                spot = self._start_of(line.curve, spots)
                if spot is None:
                    raise InputError(
                        f"a TeleportAction in <Init> was wanted for {entity.name!r}: its trajectory begins where it is"
                    )
            if entity.kind != "vehicle":
                spot = Spot(spot.x_m, spot.y_m, spot.yaw_deg)
            self.movers[entity.name] = Mover(entity, spot)
        for name, action in self._file.first:
            if isinstance(action, SetParameter):
                self.now.parameters[action.name] = action.value
            elif not isinstance(action, Teleport | LeftOut):
                mover = self.movers[name]
                self._begin(action, mover, first=True)
                if isinstance(action, ChangeSpeed) and action.dynamics.shape == "step" and mover.speed_job is not None:
                    mover.speed_mps = mover.speed_job.speed_mps(0.0)

    def _start_of(self, curve: Curve, spots: dict[str, Spot]) -> Spot | None:
        match curve:
            case Clothoids():
                start = curve.pieces[0].start
                return None if start is None else self.roads.resolve(start, spots)
            case Nurbs():
                return self.roads.resolve(curve.places[0], spots)
            case _:
                return self.roads.resolve(curve[0], spots)

    def _places(self) -> dict[str, Spot]:
        """Where everybody is put. Places may be beside others that are put somewhere later: those wait."""
        waiting = [(name, action.place) for name, action in self._file.first if isinstance(action, Teleport)]
        spots: dict[str, Spot] = {}
        while waiting:
            later = []
            for name, place in waiting:
                base = getattr(place, "entity", None)
                if base is not None and base not in spots:
                    later.append((name, place))
                else:
                    spots[name] = self.roads.resolve(place, spots)
            if len(later) == len(waiting):
                raise InputError(f"a place for {later[0][0]!r} was wanted, but it is beside somebody who has none")
            waiting = later
        return spots

    def start(self, named: NamedAction, actors: tuple[str, ...]) -> list[MotionJob]:
        """Begin an action for its actors; what is not a matter of time is over at once."""
        if isinstance(named.action, SetParameter):
            self.now.parameters[named.action.name] = named.action.value
            return []
        if isinstance(named.action, LeftOut):
            return []
        found = [self._begin(named.action, self.movers[name]) for name in actors]
        return [job for job in found if job is not None]

    def _begin(self, action: FileAction, mover: Mover, *, first: bool = False) -> MotionJob | None:
        match action:
            case ChangeSpeed() | SpeedProfile() | KeepDistance() | Synchronise() | DriveItself():
                if isinstance(action, DriveItself) and mover.entity.kind != "vehicle":
                    return None
                speed_job = SpeedJob(action, mover, self.movers, self.roads)
                mover.speed_job, before = speed_job, mover.speed_job
                _end(before)
                return speed_job
            case ChangeLane() | ChangeOffset() | KeepBeside():
                job = side_job(action, mover, self.movers, self.roads)
                mover.side_job, side_before = job, mover.side_job
                _end(side_before)
                return job
            case FollowRoute() | FollowTrajectory():
                way_job = WayJob(action, mover, self.movers, self.roads, self.now.time_s, first=first)
                self._points_left -= way_job.points
                if self._points_left < 0:
                    raise InputError(f"ways of at most {POINTS_MAX} points in all were wanted")
                mover.way_job, way_before = way_job, mover.way_job
                _end(way_before)
                return way_job
        return None

    def forget(self, jobs: list[MotionJob]) -> None:
        """Stopped jobs go on no more."""
        for mover in self.movers.values():
            if mover.speed_job in jobs:
                mover.speed_job = None
            if mover.side_job in jobs:
                mover.side_job = None
            if mover.way_job in jobs:
                mover.way_job = None

    def play(self) -> MotionPlan:
        """Play from the first tick to the last."""
        starts = {name: (mover.spot.yaw_deg, mover.speed_mps) for name, mover in self.movers.items()}
        points: dict[str, list[tuple[float, float]]] = {name: [_point(mover)] for name, mover in self.movers.items()}
        ticks, ended = round(LONGEST_S / STEP_S), f"nothing ended it within {LONGEST_S:g} s"
        for story in self._stories:
            story.turn(RUNNING, _START)
        for tick in range(ticks):
            self.now.time_s = tick * STEP_S
            reason = self._step()
            if reason and tick * STEP_S >= SHORTEST_S:
                ticks, ended = tick, reason
                break
            for mover in self.movers.values():
                move(mover, self.roads, STEP_S, self.now.time_s)
            for story in self._stories:
                story.check()
            for name, mover in self.movers.items():
                points[name].append(_point(mover))
        tracks = ((name, Track(tuple(points[name]), *starts[name])) for name in self.movers)
        return MotionPlan(tuple(tracks), ticks, ended)

    def _step(self) -> str:
        if self._stop is not None and self._stop.fires(self.now):
            self._stop = _ALWAYS
        if self._stop is _ALWAYS:
            return "its stop trigger"
        for act in self._acts():
            act.step()
        over = self._stop is None and bool(self._stories) and all(story.state == COMPLETE for story in self._stories)
        return "its stories are over" if over else ""

    def _acts(self) -> Iterator[_RunningAct]:
        for story in self._stories:
            yield from story.acts


_ALWAYS: Final = TriggerMemory(((),), latches=True)


def _end(job: MotionJob | None) -> None:
    if job is not None:
        job.ended = True


def _point(mover: Mover) -> tuple[float, float]:
    middle = mover.middle
    # A millionth of a metre: below what anybody can drive, above the last bit of a square root.
    return round(middle.x_m, 6), round(middle.y_m, 6)
