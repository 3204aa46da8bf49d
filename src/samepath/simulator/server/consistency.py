"""Compares everything the server reports about where actors are with the physics engine, after every tick.

A fault that is deterministic is the same in every run, so no comparison of runs can find it. This
check compares different ways out of one world instead: the snapshot that clients receive, the state
table, bones and components, collision geometry, camera images, LiDAR points, sensor transforms,
collision events and the recorder file. The reference is Rapier's own rigid body. Whatever can be
decoded independently is: this module parses bytes with its own layouts and turns angles into
matrices with its own formulas.

The check reads the world and changes nothing, so every bit stays the same with and without it. It
draws an image and casts rays for every actor, which makes ticks several times slower.
"""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError
from samepath.core.states import Collision, Pose, Vector
from samepath.simulator.physics.actors import BodyState
from samepath.simulator.server.actors import ActorEntry, VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import SPECTATOR, Episode, Publisher
from samepath.simulator.server.methods.parts import (
    get_actor_bone_world_transforms,
    get_actor_component_world_transform,
)
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, SceneView
from samepath.simulator.server.sensors import SensorEntry

F64 = NDArray[np.float64]

# Angles are sent as 32-bit degrees, so a rotation matrix made from them is off by about 1e-5 at most.
ROTATION_TOLERANCE: Final = 2e-5
# For places that are composed from others (attached actors, bones): 32-bit metres far from the origin.
PLACE_TOLERANCE_M: Final = 2e-3
# How far outside of its bounding box a pixel, a LiDAR point or a collider of an actor may be.
BOX_TOLERANCE_M: Final = 0.05
# The same for walkers: as in CARLA, legs and arms swing out of their box. The toes of a long step are 0.25 m outside.
LIMB_TOLERANCE_M: Final = 0.3
# Colliding actors may have moved apart by the end of the tick; this is added to what their speeds allow.
CONTACT_TOLERANCE_M: Final = 0.3
# The state message shows a vehicle that creeps slower than this at a standstill, as CARLA does.
STANDSTILL_MPS: Final = 0.07
MAX_REPORTED: Final = 5

_WORLD_STREAM: Final = 1
_STATE_HEADER_BYTES: Final = 48 + 36
_SENSOR_HEADER: Final = struct.Struct("<QQd6f")
_STATE_ROW: Final = np.dtype(
    {
        "names": ["id", "motion"],
        "formats": ["<u4", ("<f4", 15)],
        "offsets": [0, 5],
        "itemsize": 119,
    }
)
_IMAGE_PIXELS: Final = 48
_IMAGE_HEADER_BYTES: Final = 12
_DEPTH_RANGE_M: Final = 1000.0
_DEPTH_STEPS: Final = float(2**24 - 1)
_INSTANCE_IDS: Final = 1 << 16
_LIDAR_POINT: Final = np.dtype([("place", "<f4", 3), ("cosine", "<f4"), ("actor", "<u4"), ("tag", "<u4")])
_LIDAR_RINGS: Final = 2
_RECORDER_POSITIONS: Final = 6
_RECORDER_PACKET: Final = struct.Struct("<BI")
_RECORDER_POSE: Final = np.dtype([("actor", "<u4"), ("place_cm", "<f4", 3), ("angles", "<f4", 3)])


class InconsistentWorldError(SimulatorError):
    """Two ways out of the world disagree about an actor."""


@dataclass(frozen=True)
class CheckedBody:
    """A rigid body as the physics engine has it, with the bounding box that clients get."""

    id: int
    type: str
    place_m: F64
    axes: F64  # columns: forward, right, up
    velocity_mps: F64
    box_centre_m: F64
    box_half_m: F64

    def outside_m(self, points_m: F64) -> float:
        """Return how far the farthest of some points is outside of the bounding box; 0: none is."""
        if not len(points_m):
            return 0.0
        local = (points_m - self.place_m) @ self.axes - self.box_centre_m
        return float(np.maximum(np.abs(local) - self.box_half_m, 0.0).max())

    @property
    def tolerance_m(self) -> float:
        """Return how far a pixel, a point or a bone may be outside of the bounding box."""
        return LIMB_TOLERANCE_M if self.type.startswith("walker.") else BOX_TOLERANCE_M

    @property
    def middle_m(self) -> F64:
        """Return the middle of the bounding box in the world."""
        middle: F64 = self.place_m + self.axes @ self.box_centre_m
        return middle

    @property
    def top_m(self) -> float:
        """Return the height of the highest corner of the bounding box."""
        return float(self.middle_m[2] + np.abs(self.axes[2]) @ self.box_half_m)


class ConsistencyCheck:
    """A publisher that remembers the messages of a tick, and the comparison made after it.

    ``full_every``: images and LiDAR scans are made in every such tick; everything else in each.
    """

    def __init__(self, outbox: Publisher, *, full_every: int = 1) -> None:
        self._outbox = outbox
        self._full_every = full_every
        self._messages: list[tuple[int, bytes]] = []
        self._renderer: LocalRenderer | None = None
        self._recording: tuple[Path, int] | None = None
        self.ticks_checked = 0
        self.counts: dict[str, int] = {}

    # What an episode publishes passes through here on its way to the clients.

    def publish(self, stream_id: int, payload: bytes) -> None:
        self._messages.append((stream_id, payload))
        self._outbox.publish(stream_id, payload)

    def prepare(self, payload: bytes) -> None:
        self._outbox.prepare(payload)

    def expect(self, stream_id: int, home: int) -> None:
        self._outbox.expect(stream_id, home)

    def forget(self, stream_id: int) -> None:
        self._outbox.forget(stream_id)

    def summary(self) -> str:
        """Return what was compared so far, as one line."""
        counts = ", ".join(f"{number} x {kind}" for kind, number in self.counts.items())
        return f"--check: {self.ticks_checked} ticks without a difference ({counts or 'no actors'})"

    def close(self) -> None:
        """Release the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def after_tick(self, episode: Episode, collisions: tuple[Collision, ...]) -> None:
        """Compare, and raise :class:`InconsistentWorldError` with the first differences."""
        messages, self._messages = self._messages, []
        if episode.rehearsed:  # a resumed server repeats old ticks; they were checked when they happened
            return
        found = list(self._differences(episode, collisions, messages))
        self.ticks_checked += 1
        if found:
            more = f"; and {len(found) - MAX_REPORTED} more" if len(found) > MAX_REPORTED else ""
            shown = "; ".join(found[:MAX_REPORTED])
            raise InconsistentWorldError(f"the world contradicts itself: {shown}{more}")

    def _differences(
        self,
        episode: Episode,
        collisions: tuple[Collision, ...],
        messages: Sequence[tuple[int, bytes]],
    ) -> Iterator[str]:
        state = next((payload for stream, payload in messages if stream == _WORLD_STREAM), None)
        if state is None:
            yield "no state of the actors was published"
            return
        engine = episode.world.engine_bodies()
        different = list(_check_ids(episode, list(engine)))
        if different:
            yield from different
            return
        bodies = _read_bodies(episode, engine)
        rows = _read_rows(state)
        yield from _check_rows(episode, bodies, rows)
        yield from _check_records(episode, bodies)
        yield from _check_parts(episode, bodies)
        yield from _check_collisions(bodies, collisions, episode.delta_s)
        yield from _check_sensor_headers(episode, rows, messages)
        yield from _check_geometry(episode, bodies)
        yield from self._check_recorder(episode, bodies)
        for kind in ("state", "record", "bones and components", "collision geometry"):
            self._count(kind, len(bodies))
        self._count("collision event", len(collisions))
        self._count("sensor transform", len(messages) - 1)
        if bodies and episode.frame % self._full_every == 0:
            yield from self._check_rendering(episode, bodies)

    def _count(self, kind: str, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number

    def _check_recorder(self, episode: Episode, bodies: Mapping[int, CheckedBody]) -> Iterator[str]:
        """Read what the recorder has appended to its file in this tick."""
        if episode.recorder is None:
            self._recording = None
            return
        path = episode.recorder.path
        known, start = self._recording or (path, -1)
        with path.open("rb") as file:
            if start < 0 or known != path:
                # The first tick of a recording: its header and settings are not parsed here.
                self._recording = path, file.seek(0, 2)
                return
            file.seek(start)
            appended = file.read()
        self._recording = path, start + len(appended)
        recorded = _recorded_places(appended)
        self._count("recorder position", len(recorded))
        moving = {entry.id for entry in episode.actors if entry.has_body or _is_spectator(entry)}
        if set(recorded) != moving:
            yield f"the recorder has actors {sorted(set(recorded) ^ moving)} only on one side"
            return
        for number, body in bodies.items():
            off_m = float(np.abs(recorded[number] - body.place_m).max())
            if off_m > PLACE_TOLERANCE_M:
                yield f"actor {number}: the recorder file is {off_m:.4f} m from the physics engine"

    def _check_rendering(self, episode: Episode, bodies: Mapping[int, CheckedBody]) -> Iterator[str]:
        """Look at every actor from above, with a camera and a LiDAR as clients have them."""
        renderer = self._renderer
        if renderer is None:
            renderer = self._renderer = LocalRenderer()
        renderer.prepare(episode.map.road_map)
        view = episode.viewer.view()
        for body in bodies.values():
            self._count("image", 1)
            self._count("LiDAR scan", 1)
            yield from _check_image(renderer, view, episode, body)
            yield from _check_lidar(renderer, view, episode, body)


def _read_bodies(episode: Episode, engine: Mapping[int, BodyState]) -> dict[int, CheckedBody]:
    """Return the physics engine's bodies with the bounding boxes that clients get."""
    found = {}
    for entry in episode.actors:
        if not entry.has_body:
            continue
        state = engine[entry.id]
        box = entry.record.bounding_box
        found[entry.id] = CheckedBody(
            entry.id,
            entry.type_id,
            np.array(state.position_m),
            _axes_of_quaternion(state.rotation),
            np.array(state.velocity_mps),
            np.array(box.location, np.float64),
            np.array(box.extent, np.float64),
        )
    return found


def _axes_of_quaternion(rotation: tuple[float, float, float, float]) -> F64:
    """Return forward, right and up of Rapier's rotation as columns, in CARLA's left-handed frame."""
    w, x, y, z = rotation
    right_handed = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    # Mirroring y on both sides changes the sign of every entry with exactly one index of y.
    mirror = np.diag([1.0, -1.0, 1.0])
    axes: F64 = mirror @ right_handed @ mirror
    return axes


def axes_of_angles(roll_deg: float, pitch_deg: float, yaw_deg: float) -> F64:
    """Return forward, right and up as columns: the matrix of Unreal's ``FRotator``."""
    roll, pitch, yaw = math.radians(roll_deg), math.radians(pitch_deg), math.radians(yaw_deg)
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return np.array(
        [
            [cp * cy, cy * sp * sr - sy * cr, -cy * sp * cr - sy * sr],
            [cp * sy, sy * sp * sr + cy * cr, cy * sr - sy * sp * cr],
            [sp, -cp * sr, cp * cr],
        ]
    )


def _read_rows(state: bytes) -> dict[int, F64]:
    """Read place, angles (pitch, yaw, roll), velocity, spin and acceleration of every actor."""
    rows = np.frombuffer(state, _STATE_ROW, offset=_STATE_HEADER_BYTES)
    return {int(row["id"]): row["motion"] for row in rows}


def _check_ids(episode: Episode, engine: list[int]) -> Iterator[str]:
    """Compare who there is: registry, world, state table and physics engine."""
    registry = [entry.id for entry in episode.actors if entry.has_body]
    tables = {
        "world": [actor.id for actor in episode.world.actors],
        "state table": episode.world.state_array()[0].tolist(),
        "physics engine": engine,
    }
    for name, ids in tables.items():
        if ids != sorted(registry):
            yield f"expected bodies {sorted(registry)}, the {name} has {ids}"


def _check_rows(episode: Episode, bodies: Mapping[int, CheckedBody], rows: Mapping[int, F64]) -> Iterator[str]:
    """Compare the state message, which ``get_transform()`` and snapshots are made from."""
    if set(rows) != {entry.id for entry in episode.actors}:
        different = sorted(set(rows) ^ {entry.id for entry in episode.actors})
        yield f"the state message has actors {different} only on one side"
        return
    for entry in episode.actors:
        row, body = rows[entry.id], bodies.get(entry.id)
        place, (pitch, yaw, roll) = row[:3], row[3:6].tolist()
        if body is not None:
            place_m, axes = body.place_m, body.axes
            # To the bit: the message has the 32-bit form of the very number.
            if place.tolist() != place_m.astype(np.float32).tolist():
                off_m = float(np.abs(place - place_m).max())
                yield f"actor {entry.id}: the state message is {off_m:.3f} m from the physics engine"
            yield from _check_velocity(episode, entry, body, row[6:9])
        else:
            place_m, axes = _expected_place(episode, entry, bodies)
            off_m = float(np.abs(place - place_m).max())
            if off_m > PLACE_TOLERANCE_M:
                yield f"{entry.type_id} {entry.id}: {off_m:.3f} m from where it belongs"
        turned = float(np.abs(axes_of_angles(roll, pitch, yaw) - axes).max())
        if turned > ROTATION_TOLERANCE:
            yield f"actor {entry.id}: its angles differ from the physics engine by {turned:.2g}"


def _check_velocity(episode: Episode, entry: ActorEntry, body: CheckedBody, reported_mps: F64) -> Iterator[str]:
    if isinstance(entry, WalkerEntry) and not episode.world.simulated(entry.id):
        control = entry.control
        expected = [np.float32(part * control.speed) for part in control.direction]
        if reported_mps.tolist() != [float(part) for part in expected]:
            yield f"walker {entry.id}: expected the velocity of its control, got {reported_mps}"
        return
    stands = not reported_mps.any() and float(np.linalg.norm(body.velocity_mps)) < STANDSTILL_MPS
    if isinstance(entry, VehicleEntry) and stands:
        return
    if reported_mps.tolist() != body.velocity_mps.astype(np.float32).tolist():
        yield f"actor {entry.id}: velocity {reported_mps}, the physics engine has {body.velocity_mps}"


def _expected_place(episode: Episode, entry: ActorEntry, bodies: Mapping[int, CheckedBody]) -> tuple[F64, F64]:
    """Return place and axes of an actor without a body, from what it is attached to."""
    parent = episode.actors.find(entry.record.parent_id) if entry.record.parent_id else None
    own = entry.pose if parent is None or entry.relative is None else entry.relative
    place = np.array(own[:3], np.float64)
    axes = axes_of_angles(own.roll_deg, own.pitch_deg, own.yaw_deg)
    if parent is None or entry.relative is None:
        return place, axes
    body = bodies.get(parent.id)
    if body is not None:
        base_place, base_axes = body.place_m, body.axes
    else:
        base_place, base_axes = _expected_place(episode, parent, bodies)
    return base_place + base_axes @ place, base_axes @ axes


def _check_records(episode: Episode, bodies: Mapping[int, CheckedBody]) -> Iterator[str]:
    """Compare single states, read in another order every tick: reading must not reorder anything."""
    ids = list(bodies)
    some = [number for number in reversed(ids) if number % 3 == episode.frame % 3]
    for number in some:
        pose = episode.world.state(number).pose
        row = episode.world.state_row(number)
        if [*pose] != row[:6] or tuple(row[:3]) != tuple(bodies[number].place_m.tolist()):
            yield f"actor {number}: its record, its row and the physics engine differ: {pose}, {row}"


def _check_parts(episode: Episode, bodies: Mapping[int, CheckedBody]) -> Iterator[str]:
    """Compare bones and components with the body they are part of."""
    for number, body in bodies.items():
        if body.type.startswith(("vehicle.", "walker.")):
            bones = get_actor_bone_world_transforms(episode, number)
            places = np.array([bone.location for bone in bones], np.float64)
            # Hands and feet reach out of a walker's box, wheels below a vehicle's.
            if (off_m := body.outside_m(places)) > 1.0:
                yield f"actor {number}: a bone is {off_m:.2f} m outside of its bounding box"
            root_m = places[0] if body.type.startswith("vehicle.") else places.mean(axis=0)
            if float(np.linalg.norm(root_m - body.place_m)) > 1.0:
                yield f"actor {number}: its bones are at {root_m}, its body at {body.place_m}"
        name = _ROOT_COMPONENTS.get(body.type.split(".")[0], "DefaultSceneRoot")
        root = get_actor_component_world_transform(episode, number, name)
        off_m = float(np.abs(np.array(root.location) - body.place_m).max())
        if off_m > PLACE_TOLERANCE_M:
            yield f"actor {number}: component {name} is {off_m:.3f} m from the physics engine"


_ROOT_COMPONENTS: Final = {"vehicle": "VehicleMesh", "walker": "CollisionCylinder"}


def _check_collisions(bodies: Mapping[int, CheckedBody], collisions: Sequence[Collision], step_s: float) -> Iterator[str]:
    """Compare collision events with the gap between the boxes of who collided."""
    for hit in collisions:
        first, second = bodies.get(hit.actor), None if hit.other is None else bodies.get(hit.other)
        if first is None or second is None:  # scenery, or an actor that was destroyed in this tick
            continue
        gap_m = box_gap_m(first, second)
        speed_mps = float(np.linalg.norm(first.velocity_mps) + np.linalg.norm(second.velocity_mps))
        # Speeds before the impact are not known here; the impulse says how much they changed.
        allowed_m = CONTACT_TOLERANCE_M + 2.0 * speed_mps * step_s
        if gap_m > allowed_m:
            yield (f"actors {hit.actor} and {hit.other} collided, but their bounding boxes are {gap_m:.2f} m apart")


def box_gap_m(first: CheckedBody, second: CheckedBody) -> float:
    """Return a lower bound of the gap between two boxes, by separating axes; 0: they may touch."""
    between = second.middle_m - first.middle_m
    edges = [np.cross(a, b) for a in first.axes.T for b in second.axes.T]
    gap_m = 0.0
    for axis in [*first.axes.T, *second.axes.T, *edges]:
        length = float(np.linalg.norm(axis))
        if length < 1e-6:
            continue
        unit = axis / length
        reach_m = np.abs(unit @ first.axes) @ first.box_half_m
        reach_m += np.abs(unit @ second.axes) @ second.box_half_m
        gap_m = max(gap_m, float(abs(unit @ between) - reach_m))
    return gap_m


def _check_sensor_headers(episode: Episode, rows: Mapping[int, F64], messages: Sequence[tuple[int, bytes]]) -> Iterator[str]:
    """Compare the transform in front of each measurement with the sensor's in the state message."""
    sensors = {entry.stream_id: entry.id for entry in episode.actors.all(SensorEntry)}
    for stream_id, payload in messages:
        number = sensors.get(stream_id)
        if number is None:
            continue
        _, frame, _, *motion = _SENSOR_HEADER.unpack_from(payload)
        if frame != episode.frame or motion != rows[number][:6].tolist():
            yield f"sensor {number}: its measurement says frame {frame} at {motion}"


def _check_geometry(episode: Episode, bodies: Mapping[int, CheckedBody]) -> Iterator[str]:
    """Cast a ray of the physics engine down through every actor: its collider must be in its box."""
    for number, body in bodies.items():
        x_m, y_m, _ = body.middle_m.tolist()
        top_m, reach_m = body.top_m + 1.0, 2.0 * float(body.box_half_m.sum()) + 2.0
        hits = episode.world.ray_hits(Vector(x_m, y_m, top_m), Vector(z=-1.0), reach_m)
        own = [hit.point_m for hit in hits if hit.what == number]
        points_m = np.array(own, np.float64).reshape(-1, 3)
        if (off_m := body.outside_m(points_m)) > BOX_TOLERANCE_M:
            yield f"actor {number}: its collider is {off_m:.3f} m outside of its bounding box"


def _recorded_places(appended: bytes) -> dict[int, F64]:
    """Return where the frames in a piece of a recorder file have each actor, in metres."""
    found: dict[int, F64] = {}
    at = 0
    while at < len(appended):
        kind, size = _RECORDER_PACKET.unpack_from(appended, at)
        at += _RECORDER_PACKET.size
        if kind == _RECORDER_POSITIONS:
            poses = np.frombuffer(appended[at + 2 : at + size], _RECORDER_POSE)
            found = {int(pose["actor"]): pose["place_cm"] / 100.0 for pose in poses}
        at += size
    return found


def _is_spectator(entry: ActorEntry) -> bool:
    return entry.type_id == SPECTATOR


def _above(body: CheckedBody) -> tuple[Pose, float]:
    """Return a pose above an actor from which its whole box is in view, and its height above it."""
    height_m = 1.5 * float(np.linalg.norm(body.box_half_m)) + 1.0
    x_m, y_m, _ = body.middle_m.tolist()
    return Pose(x_m, y_m, body.top_m + height_m), height_m


def _request(episode: Episode, type_id: str, pose: Pose, **attributes: object) -> RenderRequest:
    return RenderRequest(
        sensor=0,
        stream=0,
        type_id=type_id,
        attributes=tuple((name, str(value)) for name, value in attributes.items()),
        head=_SENSOR_HEADER.pack(0, episode.frame, episode.elapsed_s, *(0.0,) * 6),
        pose=pose,
        was=None,
        ordinal=0,
        count=1,
        age_s=0.0,
        delta_s=episode.delta_s,
    )


def _measure(renderer: LocalRenderer, view: SceneView, requests: Sequence[RenderRequest]) -> list[bytes]:
    results = [renderer.render(view, [request])[0] for request in requests]
    for result in results:
        if result.error:
            raise InconsistentWorldError(f"the check's own sensor failed: {result.error}")
    return [result.payload for result in results]


def _check_image(renderer: LocalRenderer, view: SceneView, episode: Episode, body: CheckedBody) -> Iterator[str]:
    """Look down at an actor: its pixels must be on its box, and something must be seen of it."""
    above, _ = _above(body)
    pose = above._replace(pitch_deg=-90.0)
    size = {"image_size_x": _IMAGE_PIXELS, "image_size_y": _IMAGE_PIXELS, "fov": 90}
    kinds = ("sensor.camera.instance_segmentation", "sensor.camera.depth")
    requests = [_request(episode, kind, pose, **size) for kind in kinds]
    instances, depths = (
        np.frombuffer(payload, np.uint8, offset=_IMAGE_HEADER_BYTES).reshape(-1, 4).astype(np.int64)
        for payload in _measure(renderer, view, requests)
    )
    blue, green, red = depths[:, :3].T
    depth_m = (red + 256 * green + 65536 * blue) / _DEPTH_STEPS * _DEPTH_RANGE_M
    rows, columns = np.divmod(np.arange(_IMAGE_PIXELS**2), _IMAGE_PIXELS)
    focal = _IMAGE_PIXELS / 2
    right = (columns + 0.5 - focal) / focal
    up = (focal - rows - 0.5) / focal
    rays = np.stack([np.ones_like(right), right, up], axis=1)
    points_m = np.array(pose[:3]) + (rays * depth_m[:, None]) @ axes_of_angles(0.0, -90.0, 0.0).T
    own = instances[:, 1] + 256 * instances[:, 0] == body.id % _INSTANCE_IDS
    if (off_m := body.outside_m(points_m[own])) > body.tolerance_m:
        yield f"{body.type} {body.id}: a camera sees it {off_m:.3f} m outside of its bounding box"
    if not own.any() and not _is_covered(points_m, body):
        yield f"actor {body.id}: a camera above it does not see it"


def _is_covered(points_m: F64, body: CheckedBody) -> bool:
    """Return True if something is above the middle of the actor: a tree, a bridge, another actor."""
    middle = np.linalg.norm(points_m[:, :2] - body.middle_m[:2], axis=1).argmin()
    return bool(points_m[middle, 2] > body.top_m - 0.5)


def _check_lidar(renderer: LocalRenderer, view: SceneView, episode: Episode, body: CheckedBody) -> Iterator[str]:
    """Scan an actor from above: points that carry its id must be on its box, and it must be hit."""
    pose, height_m = _above(body)
    scan = {
        "channels": _LIDAR_RINGS,
        "lower_fov": -90.0,
        "upper_fov": -75.0,
        "range": 4.0 * height_m + 10.0,
        "points_per_second": 16 * _LIDAR_RINGS / episode.delta_s,
        "rotation_frequency": 1.0 / episode.delta_s,
    }
    request = _request(episode, "sensor.lidar.ray_cast_semantic", pose, **scan)
    (payload,) = _measure(renderer, view, [request])
    points = np.frombuffer(payload, _LIDAR_POINT, offset=8 + 4 * _LIDAR_RINGS)
    points_m = np.array(pose[:3]) + points["place"].astype(np.float64)
    own = points["actor"] == body.id
    if (off_m := body.outside_m(points_m[own])) > body.tolerance_m:
        yield f"{body.type} {body.id}: a LiDAR hits it {off_m:.3f} m outside of its bounding box"
    if not own.any() and not (len(points_m) and _is_covered(points_m, body)):
        yield f"actor {body.id}: a LiDAR above it does not hit it"
