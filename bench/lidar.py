"""LiDAR: rays per second and core, the update of the scene included, against Embree on the same triangles."""

import numpy as np

from bench.tools import best_s, save, show, verdict
from samepath.core.states import Pose, Vector
from samepath.simulator.maps import load_map
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.lidar import Lidar
from samepath.simulator.sensors.radar import Radar
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.renderer import RenderScene
from samepath.simulator.sensors.scene_builder import SceneBuilder, scene_builder_of
from samepath.simulator.sensors.sensor import NoiseKey

AIM_MRAYS = 5.0
CHANNELS, COLUMNS, CARS = 32, 1024, 40
STEP_S = 0.05
QUIET = {"dropoff_general_rate": 0, "dropoff_intensity_limit": 0, "dropoff_zero_intensity": 0}
SCAN = {"channels": CHANNELS, "points_per_second": round(CHANNELS * COLUMNS / STEP_S), "rotation_frequency": 1 / STEP_S}


def main() -> bool:
    """Measure; return whether the aim was met."""
    road_map = load_map("town")
    street, places = scene_builder_of(road_map), road_map.spawn_points
    looks = [_car(number, places[number]) for number in range(CARS)]
    x, y, z, yaw = places[0]
    pose = Pose(x, y, z + 1.9, 0.5, -0.5, yaw)
    scene = street.scene(looks)
    sizes = np.diff(scene.shapes.first_face)
    faces = int(sizes[scene.fixed.mesh].sum()), int(sizes[scene.moving.mesh].sum())
    rows: list[list[str]] = []
    figures: dict[str, object] = {"faces_fixed": faces[0], "faces_moving": faces[1], "rays": CHANNELS * COLUMNS}
    kinds = {
        "distances": (Lidar.from_attributes({**SCAN, **QUIET, "range": 100}), 100.0),
        "with drop-off and noise": (Lidar.from_attributes({**SCAN, "range": 100, "noise_stddev": 0.02}), 100.0),
        "semantic": (Lidar.from_attributes({**SCAN, "range": 100}, semantic=True), 100.0),
        "distances, 50 m": (Lidar.from_attributes({**SCAN, **QUIET, "range": 50}), 50.0),
        "distances, 200 m": (Lidar.from_attributes({**SCAN, **QUIET, "range": 200}), 200.0),
    }
    speeds = {name: _speed(street, looks, pose, lidar) for name, (lidar, _) in kinds.items()}
    for name, mrays in speeds.items():
        rows.append([f"ours, {name}", f"{mrays:.1f}", f"{CHANNELS * COLUMNS / mrays / 1e3:.2f} ms"])
    figures["ours_mrays_per_s"] = speeds
    embree = _embree(scene, pose)
    if embree is not None:
        build_ms, mrays = embree
        whole = CHANNELS * COLUMNS / (build_ms * 1e3 + CHANNELS * COLUMNS / mrays)
        rows.append(["Embree, casting only", f"{mrays:.1f}", f"{CHANNELS * COLUMNS / mrays / 1e3:.2f} ms"])
        rows.append([f"Embree, scene rebuilt every tick ({build_ms:.0f} ms)", f"{whole:.2f}", ""])
        figures["embree_mrays_per_s"] = {"casting": mrays, "with_rebuild": whole, "build_ms": build_ms}
    figures["radar_ms"] = radar_ms = _radar_ms(scene, pose)
    rows.append(["ours, radar of 75 rays", "", f"{radar_ms:.2f} ms"])
    title = f"{CHANNELS} x {COLUMNS} rays of 100 m, one core, with the scene's update; {faces[0]} + {faces[1]} triangles"
    show(title, ["what", "Mray/s", "time"], rows)
    met = speeds["distances"] >= AIM_MRAYS
    show("aim", ["what", "measured", "aim", ""], [["Mray/s", f"{speeds['distances']:.1f}", f"{AIM_MRAYS}", verdict(met=met)]])
    save("lidar", figures)
    return met


def _car(number: int, place: tuple[float, float, float, float]) -> ActorAppearance:
    x, y, z, yaw = place
    return ActorAppearance(number + 1, "vehicle.tesla.model3", Pose(x, y, z - 0.5, yaw_deg=yaw))


def _speed(street: SceneBuilder, looks: list[ActorAppearance], pose: Pose, lidar: Lidar) -> float:
    """Millions of rays per second: a new scene, a scan and its bytes, each time."""
    caster, tick = RayCaster(), 0

    def once() -> None:
        nonlocal tick
        tick += 1
        lidar.scan(caster, street.scene(looks, tick=tick), pose, tick * STEP_S, STEP_S, NoiseKey(0, 0, tick)).to_bytes()

    once()
    return CHANNELS * COLUMNS / best_s(once, 60) / 1e6


def _radar_ms(scene: RenderScene, pose: Pose) -> float:
    caster, radar = RayCaster(), Radar.from_attributes({})

    def once() -> None:
        radar.begin(caster, scene, pose, Vector(), {}, STEP_S, NoiseKey())()

    once()
    return best_s(once, 30) * 1e3


def _embree(scene: RenderScene, pose: Pose) -> tuple[float, float] | None:
    """Milliseconds to build the scene and millions of rays per second after that; None where it is not installed."""
    try:
        from embreex import mesh_construction, rtcore_scene
    except ImportError:
        return None
    parts = [scene.world_triangles(placed, k) for placed in (scene.fixed, scene.moving) for k in range(len(placed))]
    triangles = np.concatenate(parts)
    elevation, azimuth = np.radians(np.linspace(10, -30, CHANNELS)), np.radians(np.arange(COLUMNS) * 360 / COLUMNS)
    flat = np.cos(elevation)[:, None]
    up = np.broadcast_to(np.sin(elevation)[:, None], (CHANNELS, COLUMNS))
    local = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), up], axis=-1)
    ahead = (local.reshape(-1, 3) @ np.array(axes_of(quaternion_of(pose)))).astype(np.float32)
    start = np.tile(np.float32(pose[:3]), (len(ahead), 1))
    reach = np.full(len(ahead), 100.0, np.float32)

    def build() -> rtcore_scene.EmbreeScene:
        made = rtcore_scene.EmbreeScene()
        mesh_construction.TriangleMesh(made, triangles)
        made.run(start[:1], ahead[:1])
        return made

    built = build()
    cast_s = best_s(lambda: built.run(start, ahead, query="DISTANCE", dists=reach), 20)
    return best_s(build, 5) * 1e3, len(ahead) / cast_s / 1e6
