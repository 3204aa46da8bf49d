"""An episode on file and back: what a tick looks like to CARLA's recorder, and a recording that moves the actors again."""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from samepath.core.errors import InputError, SamepathError, printable
from samepath.core.states import Collision, Pose
from samepath.simulator.carla import recorder_file as log
from samepath.simulator.carla.recorder import LogRecording, LogReplay, ReplayStep
from samepath.simulator.carla.recorder_file import WriterState
from samepath.simulator.carla.records import AttributeValue, Description, VehicleControl, WalkerControl, transform_of
from samepath.simulator.carla.streams import as_sent
from samepath.simulator.physics.frames import attached_pose
from samepath.simulator.server.actors import ActorEntry, SignEntry, VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import SPECTATOR, Episode
from samepath.simulator.server.sensors import SensorEntry
from samepath.simulator.server.ticking import destroy, spawn
from samepath.simulator.world.signals import TrafficLightState

_SIZE_EVERY_FRAMES: Final = 100
# A recording may name actors by the ten thousand that do not exist here; the log is not to be filled with them.
_ABSENT_SAID: Final = 20


def unix_s(utc_iso: str) -> int:
    """Seconds since 1970 of a date and time in UTC."""
    return int(np.datetime64(utc_iso.removesuffix("+00:00"), "s").astype(np.int64))


class RecorderState(NamedTuple):
    """How far a recorder has come: its file, and whom it knows already."""

    recording: WriterState
    additional: bool
    known: set[int]
    doors: dict[int, frozenset[int]]
    hits: int


class EpisodeRecorder:
    """Writes an episode, tick by tick."""

    def __init__(self, recording: LogRecording, *, additional: bool, most_bytes: int) -> None:
        self._recording = recording
        self._additional = additional
        self._most_bytes = most_bytes
        self._known: set[int] = set()
        self._doors: dict[int, frozenset[int]] = {}
        self._hits = 0

    def close(self) -> None:
        """Finish the file."""
        self._recording.close()

    @property
    def is_full(self) -> bool:
        """Has the file grown to its bound? Looked up now and then."""
        return self._recording.frames % _SIZE_EVERY_FRAMES == 0 and self._recording.state.size > self._most_bytes

    def state(self) -> RecorderState:
        """Everything the future depends on."""
        return RecorderState(self._recording.state, self._additional, self._known, self._doors, self._hits)

    @property
    def path(self) -> Path:
        """The file."""
        return self._recording.path

    @classmethod
    def restore(cls, path: Path, state: RecorderState, most_bytes: int) -> "EpisodeRecorder":
        """A rehearsed recorder that has come as far as ``state`` says."""
        recording = LogRecording.restore(path, state.recording)
        made = cls(recording, additional=state.additional, most_bytes=most_bytes)
        made._known, made._doors, made._hits = set(state.known), dict(state.doors), state.hits
        return made

    def go_on(self) -> None:
        """After a rehearsal: take up the file."""
        self._recording.go_on()

    def tick(self, episode: Episode, collisions: tuple[Collision, ...]) -> None:
        """Write a tick."""
        entries = {entry.id: entry for entry in episode.actors if not isinstance(entry, SensorEntry)}
        fresh = [entry for number, entry in entries.items() if number not in self._known]
        gone = sorted(self._known - set(entries))
        self._known = set(entries)
        vehicles = episode.actors.all(VehicleEntry)
        content = log.Content(
            added=tuple(_added(episode, entry) for entry in fresh),
            removed=tuple(gone),
            parents=tuple(log.Parent(entry.id, entry.record.parent_id) for entry in fresh if entry.record.parent_id),
            hits=tuple(self._hit(episode, collision) for collision in collisions),
            doors=tuple(self._door_news(vehicles)),
            placed=tuple(log.LogPose(entry.id, *episode.pose(entry)) for entry in entries.values() if _moves(entry)),
            signal_lights=tuple(_lights(episode)),
            vehicles=tuple(_input(episode, entry) for entry in vehicles),
            walkers=tuple(log.WalkerInput(walker.id, walker.control.speed) for walker in episode.actors.all(WalkerEntry)),
            vehicle_lights=tuple(log.VehicleLights(entry.id, entry.lights) for entry in vehicles),
            kinematics=tuple(self._kinematics(episode)),
            boxes=tuple(_box(entry) for entry in fresh if entry.has_body) if self._additional else (),
        )
        self._recording.frame(content, as_sent(episode.delta_s))

    def _hit(self, episode: Episode, collision: Collision) -> log.LogCollision:
        self._hits += 1
        other = log.NO_ACTOR if collision.other is None else collision.other
        return log.LogCollision(
            self._hits, collision.actor, other, _is_hero(episode, collision.actor), _is_hero(episode, other)
        )

    def _door_news(self, vehicles: list[VehicleEntry]) -> list[log.Door]:
        found = []
        for entry in vehicles:
            before, now = self._doors.get(entry.id, frozenset()), frozenset(entry.open_doors)
            found += [log.Door(entry.id, door, is_open=door in now) for door in sorted(before ^ now)]
            self._doors[entry.id] = now
        return found

    def _kinematics(self, episode: Episode) -> list[log.Kinematics]:
        if not self._additional:
            return []
        states = episode.world.states()
        return [log.Kinematics(actor, *state.velocity_mps, *state.angular_velocity_degps) for actor, state in states.items()]


def _moves(entry: ActorEntry) -> bool:
    return entry.has_body or entry.type_id == SPECTATOR


def _is_hero(episode: Episode, actor_id: int) -> bool:
    entry = episode.actors.find(actor_id)
    return entry is not None and entry.record.description.get("role_name") == "hero"


def _added(episode: Episode, entry: ActorEntry) -> log.AddedActor:
    kind = log.ActorKind.OTHER
    if isinstance(entry, VehicleEntry):
        kind = log.ActorKind.VEHICLE
    elif isinstance(entry, WalkerEntry):
        kind = log.ActorKind.WALKER
    elif isinstance(entry, SignEntry) and entry.light is not None:
        kind = log.ActorKind.TRAFFIC_LIGHT
    description = entry.record.description
    attributes = tuple(log.LogAttribute(attribute.type, attribute.id, attribute.value) for attribute in description.attributes)
    return log.AddedActor(entry.id, int(kind), *episode.pose(entry), description.uid, description.id, attributes)


def _lights(episode: Episode) -> list[log.SignalLight]:
    states = episode.signals.states()
    signs = [(sign, sign.light) for sign in episode.actors.all(SignEntry)]
    return [
        log.SignalLight(sign.id, states[light].frozen, states[light].elapsed_s, int(states[light].shows))
        for sign, light in signs
        if light is not None
    ]


def _input(episode: Episode, entry: VehicleEntry) -> log.VehicleInput:
    control = entry.control
    gear = episode.world.gear(entry.id)
    return log.VehicleInput(entry.id, control.steer, control.throttle, control.brake, control.hand_brake, gear)


def _box(entry: ActorEntry) -> log.LogBox:
    box = entry.record.bounding_box
    return log.LogBox(entry.id, *box.location, *box.extent)


class EpisodePlayer:
    """Moves actors as a recording says. ``ids`` are the actors by their ids in the recording."""

    def __init__(self, replay: LogReplay, follow: int, offset: Pose) -> None:
        self.replay = replay
        self.ids: dict[int, int] = {}
        self.is_over = False
        self._follow = follow
        self._offset = offset
        self._signs: dict[int, int] = {}
        self._absent = 0

    def begin(self, episode: Episode, first: ReplayStep) -> None:
        """Let everything appear that is there at the start."""
        self._do(episode, first)

    def tick(self, episode: Episode, step_s: float) -> None:
        """Go on with the recording; at its end the actors are given back to physics.

        So they are where it cannot be read any further: a file is a client's, and no error of ours that would stop the world.
        A step is read whole before anything of it is done.
        """
        if self.is_over:
            return
        try:
            step = self.replay.advance(step_s)
        except InputError as error:
            episode.context.log(f"replay: ended at {self.replay.time_s:g} s: {error}")
            self.stop(episode, keep=True)
            return
        self._do(episode, step)
        if self.is_over:
            self.stop(episode, keep=True)

    def stop(self, episode: Episode, *, keep: bool) -> None:
        """Let go of the actors, or take them out."""
        self.is_over = True
        for number in self.ids.values():
            if number not in episode.actors:
                continue
            if keep:
                episode.world.set_simulated(number, on=True)
            else:
                destroy(episode, number)
        self.ids = {}

    def _do(self, episode: Episode, step: ReplayStep) -> None:
        for added in step.added:
            self._appear(episode, added)
        for number in step.removed:
            mine = self.ids.pop(number, None)
            if mine is not None and mine in episode.actors:
                destroy(episode, mine)
        for placed in step.placed:
            mine = self.ids.get(placed.actor)
            if mine is not None and mine in episode.actors:
                episode.world.set_pose(mine, Pose(*placed[1:]))
        for light in step.signal_lights:
            mine = self._signs.get(light.actor)
            if mine is not None and light.shows in set(TrafficLightState):
                episode.signals.set_shown(mine, TrafficLightState(light.shows))
        self._controls(episode, step)
        self._watch(episode)
        self.is_over = step.finished

    def _appear(self, episode: Episode, added: log.AddedActor) -> None:
        pose = Pose(added.x_m, added.y_m, added.z_m, added.roll_deg, added.pitch_deg, added.yaw_deg)
        # Lights belong to the map and are not spawned. Their ids are those of the world that was recorded; where they stand
        # is the same in both.
        if added.kind == log.ActorKind.TRAFFIC_LIGHT:
            near = [
                (abs(sign.pose.x_m - pose.x_m) + abs(sign.pose.y_m - pose.y_m), sign) for sign in episode.actors.all(SignEntry)
            ]
            distance_m, sign = min(near, key=lambda pair: pair[0], default=(1e9, None))
            if sign is not None and sign.light is not None and distance_m < 1.0:
                self._signs[added.actor] = sign.light
            return
        if not added.type.startswith(("vehicle.", "walker.", "static.prop.")):
            return
        attributes = tuple(AttributeValue(attribute.id, attribute.type, attribute.value) for attribute in added.attributes)
        try:
            # They were there together when it was recorded: two that touch must not keep one another out.
            entry = spawn(episode, Description(added.uid, added.type, attributes), transform_of(pose), overlapping=True)
        except SamepathError as error:
            self._absent += 1
            if self._absent <= _ABSENT_SAID:
                more = "; of further ones nothing is said" if self._absent == _ABSENT_SAID else ""
                episode.context.log(f"replay: {printable(added.type[:100])} did not appear: {error}{more}")
            return
        # The recording says where it is; physics would pull it elsewhere between two of its frames.
        episode.world.set_simulated(entry.id, on=False)
        self.ids[added.actor] = entry.id

    def _controls(self, episode: Episode, step: ReplayStep) -> None:
        for given in step.vehicles:
            entry = episode.actors.find(self.ids.get(given.actor, 0))
            if isinstance(entry, VehicleEntry):
                entry.control = VehicleControl(
                    given.throttle, given.steer, given.brake, given.hand_brake, reverse=given.gear < 0
                )
                episode.actors.rewrite(entry)
        for walker in step.walkers:
            entry = episode.actors.find(self.ids.get(walker.actor, 0))
            if isinstance(entry, WalkerEntry):
                entry.control = WalkerControl(entry.control.direction, walker.speed_mps)
                episode.actors.rewrite(entry)
        for lights in step.vehicle_lights:
            entry = episode.actors.find(self.ids.get(lights.actor, 0))
            if isinstance(entry, VehicleEntry):
                entry.lights = lights.flags

    def _watch(self, episode: Episode) -> None:
        """Take the spectator along with the actor that is followed."""
        followed = episode.actors.find(self.ids.get(self._follow, 0))
        if followed is not None:
            episode.spectator.pose = attached_pose(episode.pose(followed), self._offset)
            episode.actors.place(episode.spectator)
