"""Cameras: images per second and core with colour, depth and labels, beside other people's renderers on the same triangles.

One thread each, processor time. The others draw the same meshes with plain Lambert shading: no shadows, textures, sky or fog.
Then the proof: the same bytes in fresh processes, under load, with other threads, without fused multiply-add, built for
another processor.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from bench.other_renderers import Others, best_cpu_s, mujoco_speed, opengl_speed, panda_speed
from bench.tools import save, show, verdict
from samepath.core.states import Pose
from samepath.instrument.conditions.cpu_load import CpuLoad
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.raster.arrays import FrameBatch
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import Camera, RenderScene
from samepath.simulator.sensors.scene_builder import SceneBuilder, scene_builder_of
from samepath.simulator.sensors.weather import SceneWeather
from tests.support import ROOT, SUPPORT

SIZES = ((180, 120), (360, 240), (720, 480), (1440, 960))
AIMS = (1500.0, 700.0, 250.0, 60.0)
CARS = 40
NOON = SceneWeather(cloudiness=30.0, sun_azimuth_angle=-60.0, sun_altitude_angle=45.0)
NIGHT = SceneWeather(sun_altitude_angle=-30.0)
# Figures of the thesis, on a GTX 1080 Ti: colour only, one camera.
CARLA = ("CARLA, GTX 1080 Ti (thesis; colour only)", (80.0, None, None, 70.0))
PROOF = ROOT / "tests" / "simulator" / "sensors"
REPEATS = int(os.environ.get("SAMEPATH_BENCH_CAMERA_REPEATS", "100"))


def main() -> bool:
    """Measure and prove; return whether the aims were met."""
    figures: dict[str, object] = {}
    met = _speeds(figures)
    same = _same_bytes(figures)
    save("cameras", figures)
    return met and same


def traffic(name: str) -> tuple[SceneBuilder, list[ActorAppearance], list[Pose]]:
    """A map with 40 cars, and a camera on the roof of each."""
    road_map = load_map(name)
    places = road_map.spawn_points
    chosen = [places[k * len(places) // CARS] for k in range(CARS)]
    cars = [
        ActorAppearance(number, "vehicle.tesla.model3", Pose(x, y, z - 0.5, yaw_deg=yaw))
        for number, (x, y, z, yaw) in enumerate(chosen, start=1)
    ]
    cameras = []
    for x, y, z, yaw in chosen:
        ahead = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        cameras.append(Pose(x + 0.4 * ahead[0], y + 0.4 * ahead[1], z + 1.2, yaw_deg=yaw))
    return scene_builder_of(road_map), cars, cameras


def _triangles(scene: RenderScene) -> int:
    sizes = np.diff(scene.shapes.first_face)
    return int(sizes[scene.fixed.mesh].sum() + sizes[scene.moving.mesh].sum())


def _ours(name: str, weather: SceneWeather, detail: float, *, count: int = CARS, threads: int = 1) -> list[float]:
    """Images per second: a new scene and all its cameras, each time."""
    street, cars, poses = traffic(name)
    speeds = []
    for width, height in SIZES:
        renderer = SoftwareRenderer(threads, detail)
        cameras = [Camera(pose, width, height, 90.0) for pose in poses[:count]]
        kept: list[FrameBatch | None] = [None]

        def once(
            renderer: SoftwareRenderer = renderer, cameras: list[Camera] = cameras, kept: list[FrameBatch | None] = kept
        ) -> None:
            kept[0] = renderer.render(street.scene(cars, weather), cameras, kept[0])

        once()
        speeds.append(count / best_cpu_s(once, max(5, 32 * 180 // width)))
        renderer.close()
    return speeds


def _speeds(figures: dict[str, object]) -> bool:
    street, cars, poses = traffic("t-junction")
    scene = street.scene(cars, NOON)
    count = _triangles(scene)
    town = _triangles(traffic("town")[0].scene(traffic("town")[1], NOON))
    found: dict[str, list[float | None]] = {
        "samepath": [*_ours("t-junction", NOON, 1.0)],
        "samepath, nothing coarser from afar": [*_ours("t-junction", NOON, 0.0)],
        "samepath, one camera a tick": [*_ours("t-junction", NOON, 1.0, count=1)],
        "samepath, night": [*_ours("t-junction", NIGHT, 1.0)],
        f"samepath, town ({town} triangles)": [*_ours("town", NOON, 1.0)],
    }
    others: dict[str, Callable[[Others], list[float | None]]] = {
        "moderngl on Mesa llvmpipe": opengl_speed,
        "panda3d's software renderer (two passes, no depth)": panda_speed,
        "MuJoCo's renderer on Mesa (three passes)": mujoco_speed,
    }
    absent = []
    for name, measure in others.items():
        try:
            found[name] = measure(Others(scene, tuple(poses), SIZES))
        except Exception as error:  # whatever keeps another renderer from running is its row
            absent.append([name, *[""] * 3, f"skipped: {type(error).__name__}: {str(error)[:60]}"])
    rows = [[name, *(f"{speed:.0f}" if speed else "" for speed in speeds)] for name, speeds in found.items()]
    rows.extend(absent)
    rows.append([CARLA[0], *(f"{speed:.0f}" if speed else "" for speed in CARLA[1])])
    title = f"images/s on one core: colour, depth, labels; 40 cameras, 40 cars, {count} triangles"
    show(title, ["renderer", *(f"{w} x {h}" for w, h in SIZES)], rows)
    ours = found["samepath"]
    best = [max((found[name][k] or 0.0 for name in others if name in found), default=0.0) for k in range(len(SIZES))]
    checks = [
        [
            f"{w} x {h}",
            f"{speed:.0f}",
            f"{aim:.0f}",
            f"{speed / rival:.1f}x" if rival else "",
            verdict(met=speed >= aim and speed > rival),
        ]
        for (w, h), speed, aim, rival in zip(SIZES, ours, AIMS, best, strict=True)
        if speed is not None
    ]
    show("aims", ["size", "images/s", "aim", "of the best of the others", ""], checks)
    figures["images_per_s"], figures["triangles"], figures["skipped"] = found, count, [row[0] for row in absent]
    return all(row[-1] == verdict(met=True) for row in checks)


def _same_bytes(figures: dict[str, object]) -> bool:
    """Digests of four weathers and six cameras in fresh processes, again and again, under all kinds of circumstances."""
    pinned = json.loads((PROOF / "camera_golden.json").read_text("utf-8"))
    fused_off = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"}
    variants: dict[str, tuple[str, dict[str, str], float]] = {
        "fresh processes, 1 thread": ("1", {}, 0.0),
        "2 threads": ("2", {"PYTHONHASHSEED": "random"}, 0.0),
        "95 % CPU load beside": ("2", {}, 0.95),
        "glibc's FMA paths off": ("1", fused_off, 0.0),
        "built for plain x86-64": ("2", {"SAMEPATH_RENDER_CPU": "x86-64"}, 0.0),
    }
    rows, good, outcomes = [], True, {}
    repeats = max(1, REPEATS // len(variants))
    for name, (threads, changes, load) in variants.items():
        with CpuLoad(load) as loaded:
            loaded.settle()
            found = {_digests(threads, changes) for _ in range(repeats)}
        same = found == {json.dumps(pinned, sort_keys=True)}
        good, outcomes[name] = good and same, {"repeats": repeats, "outcomes": len(found), "pinned": same}
        rows.append([name, str(repeats), str(len(found)), verdict(met=same)])
    show("the same bytes, 24 pictures of six channels", ["circumstances", "repeats", "outcomes", "the pinned one"], rows)
    figures["same_bytes"] = outcomes
    return good


def _digests(threads: str, changes: dict[str, str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    command = [sys.executable, str(SUPPORT / "camera_bytes.py"), threads]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.dumps(json.loads(done.stdout), sort_keys=True)
