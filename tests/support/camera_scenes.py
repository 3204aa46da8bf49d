"""Scenes for cameras: a street with a bit of everything, and bare triangles made by hand."""

import hashlib
import random
from functools import cache

import numpy as np

from samepath.core.states import Pose
from samepath.core.trig import sincos_deg
from samepath.simulator.maps import load_map
from samepath.simulator.physics.frames import places_and_axes
from samepath.simulator.sensors.labels import ActorAppearance, Label
from samepath.simulator.sensors.meshes.builder import MeshBank, MeshModel, MeshShape
from samepath.simulator.sensors.renderer import NO_LAMPS, Camera, Channel, Lamp, Material, MeshInstances, RenderScene
from samepath.simulator.sensors.scene_builder import scene_builder_of
from samepath.simulator.sensors.weather import SceneWeather

EVERYTHING = Channel.COLOUR | Channel.DEPTH | Channel.LABEL | Channel.INSTANCE | Channel.NORMAL | Channel.FLOW
_START, _YAW_DEG = (-61.54, -23.73), 21.8


def along(ahead_m, right_m, z_m=0.0, roll_deg=0.0, pitch_deg=0.0, yaw_deg=0.0):
    """A pose beside a lane of the T-junction: so far along it and to the right of its middle, turned from its direction."""
    sine, cosine = sincos_deg(_YAW_DEG)
    x, y = _START[0] + ahead_m * cosine - right_m * sine, _START[1] + ahead_m * sine + right_m * cosine
    return Pose(x, y, z_m, roll_deg, pitch_deg, _YAW_DEG + yaw_deg)


ACTORS = (
    ("vehicle.tesla.model3", along(18.0, -3.5, yaw_deg=180.0)),
    ("vehicle.audi.tt", along(7.0, 0.0, 0.0, 1.0, 2.0, 3.0)),
    ("vehicle.mercedes.sprinter", along(27.0, 0.2)),
    ("vehicle.mitsubishi.fusorosa", along(45.0, -3.5, yaw_deg=178.0)),
    ("vehicle.carlamotors.firetruck", along(60.0, 0.0)),
    ("vehicle.yamaha.yzf", along(12.0, -3.8, yaw_deg=180.0)),
    ("vehicle.bh.crossbike", along(15.0, 1.0)),
    ("walker.pedestrian.0001", along(10.0, 3.4, 1.0, yaw_deg=20.0)),
    ("walker.pedestrian.0010", along(14.0, -6.6, 0.73, yaw_deg=200.0)),
    ("static.prop.trafficcone01", along(5.0, 2.0)),
)
WEATHERS = {
    "noon": SceneWeather(cloudiness=30.0, sun_azimuth_angle=-60.0, sun_altitude_angle=50.0),
    "dusk": SceneWeather(cloudiness=20.0, sun_azimuth_angle=170.0, sun_altitude_angle=3.0),
    "night": SceneWeather(sun_altitude_angle=-30.0),
    "rain": SceneWeather(80.0, 70.0, 60.0, sun_altitude_angle=40.0, fog_density=15.0, fog_distance=10.0, wetness=80.0),
}


@cache
def street():
    return scene_builder_of(load_map("t-junction"))


def looks(shift_m=0.0, lamps=NO_LAMPS):
    return [
        ActorAppearance(number, kind, pose._replace(x_m=pose.x_m + shift_m), lamps=lamps, walked_m=0.3 * number + shift_m)
        for number, (kind, pose) in enumerate(ACTORS, start=1)
    ]


def street_scene(weather="noon"):
    lamps = Lamp.LOW_BEAM | Lamp.POSITION if weather in {"dusk", "night"} else NO_LAMPS
    before = street().scene(looks(-0.4, lamps), WEATHERS[weather], tick=6)
    return street().scene(looks(lamps=lamps), WEATHERS[weather], before=before, tick=7)


def cameras(channels=EVERYTHING, width=120, height=80, **changes):
    """One along the street, one on a leaning car, one from above."""
    poses = (
        (along(0.0, 0.5, 2.2, 0.0, -5.0, 2.0), 90.0),
        (along(8.0, 0.0, 1.4, 1.0, 2.0, 3.0), 70.0),
        (along(15.0, -1.0, 35.0, 10.0, -80.0, 40.0), 60.0),
    )
    return [
        Camera(pose, width, height, fov, channels, pose._replace(x_m=pose.x_m - 0.3, yaw_deg=pose.yaw_deg - 1.0), **changes)
        for pose, fov in poses
    ]


def fuzzed_cameras(count, seed):
    """Anywhere: in walls, under the ground, far off and high up, wide and narrow, of odd sizes and few channels."""
    chance = random.Random(seed)
    for _ in range(count):
        reach_m = chance.choice((20.0, 20.0, 100.0, 3000.0))
        pose = along(
            chance.uniform(-reach_m, reach_m), chance.uniform(-reach_m, reach_m),
            chance.choice((chance.uniform(-2.0, 6.0), chance.uniform(-50.0, 300.0))),
            chance.uniform(-180.0, 180.0), chance.uniform(-90.0, 90.0), chance.uniform(-180.0, 180.0),
        )  # fmt: skip
        was = pose._replace(x_m=pose.x_m + chance.uniform(-1.0, 1.0), pitch_deg=pose.pitch_deg + chance.uniform(-20.0, 20.0))
        channels = chance.choice((EVERYTHING, EVERYTHING, Channel.COLOUR, Channel.DEPTH | Channel.FLOW, Channel.LABEL))
        yield Camera(
            pose, chance.randint(1, 90), chance.randint(1, 70), chance.uniform(1.0, 170.0), channels,
            chance.choice((was, None)), chance.choice((1, 1, 2)), chance.choice((0.0, 0.7)),
        )  # fmt: skip


def digest(frames):
    """A name for the exact bytes of frames."""
    link = hashlib.blake2b(digest_size=16)
    for frame in frames:
        for name in ("bgra", "depth_m", "label", "instance", "normal", "flow"):
            array = getattr(frame, name)
            if array is not None:
                link.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return link.hexdigest()


def instances(rows):
    """Rows of (mesh, pose, id)."""
    position, axes = places_and_axes([pose for _, pose, _ in rows])
    count = len(rows)
    return MeshInstances(
        np.array([mesh for mesh, *_ in rows], np.int32), position, axes, np.array([number for *_, number in rows], np.int32),
        np.zeros(count, np.uint8), np.full((count, 3), 0.5, np.float32), np.zeros(count, np.uint16), position[:, 2].copy(),
        position, axes,
    )  # fmt: skip


def shape_of(triangles, labels=None):
    """A mesh of any triangles f64[n, 3, 3], degenerate ones included; each face has its own label where none is given."""
    corners = np.asarray(triangles, np.float64).astype(np.float32).reshape(-1, 3, 3)
    count = len(corners)
    exact = corners.astype(np.float64)
    with np.errstate(all="ignore"):
        normals = np.cross(exact[:, 1] - exact[:, 0], exact[:, 2] - exact[:, 0])
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(np.isfinite(normals), normals, 0.0).astype(np.float32)
    labels = np.arange(1, count + 1) % 11 if labels is None else np.asarray(labels)
    return MeshShape(
        corners.reshape(-1, 3), np.arange(3 * count, dtype=np.int32).reshape(-1, 3), normals,
        np.full((count, 3), 0.4, np.float32),
        labels.astype(np.uint8), np.full(count, int(Material.PLAIN), np.uint8), np.zeros(count, np.uint16),
        np.full(count, -1, np.int32), np.zeros((0, 8), np.float32),
    )  # fmt: skip


def bare_scene(triangles, labels=None):
    """Nothing but triangles, as one instance; a second mesh that nobody uses shows that rows are kept apart."""
    bank = MeshBank()
    bank.add(MeshModel((shape_of([[(0, 0, 0), (1, 0, 0), (0, 1, 0)]]),)))
    mesh = bank.add(MeshModel((shape_of(triangles, labels),)))
    none = instances([(0, Pose(), 0)])
    empty = MeshInstances(*(getattr(none, name)[:0] for name in MeshInstances.__slots__))
    return RenderScene(
        bank.shapes(), empty, instances([(mesh, Pose(), 77)]), SceneWeather(), np.zeros((0, 4), np.float32), False
    )


SKY = int(Label.SKY)
