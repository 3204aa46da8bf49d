"""The renderer opengl: how fast it is, how far it agrees with the software one, whether it repeats itself; nothing promised.

Runs on a GPU where EGL has one, else on Mesa; ``SAMEPATH_GL_DEVICE`` chooses among several devices. Fresh processes draw the
same pictures, idle, under load and beside another one that draws, and the digests of every channel are compared. On a GPU the
result goes to ``opengl-gpu.json``, so that both kinds can be kept side by side.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.cameras import NIGHT, NOON, SIZES, traffic
from bench.other_renderers import best_cpu_s
from bench.tools import best_s, save, show
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.instrument.conditions.cpu_load import CpuLoad
from samepath.simulator.sensors.opengl.context import is_on_cpu
from samepath.simulator.sensors.renderer import Camera, CameraFrame, Channel, Renderer, create_renderer
from samepath.simulator.sensors.weather import SceneWeather
from tests.support import ROOT

REPEATS = int(os.environ.get("SAMEPATH_BENCH_OPENGL_REPEATS", "20"))
# Mesa takes seconds for what a GPU does in milliseconds: fewer cameras, the same scene.
CAMERAS, CAMERAS_ON_CPU = 40, 4
DEPTH_WITHIN = 1e-3
ALL = Channel.COLOUR | Channel.DEPTH | Channel.LABEL | Channel.INSTANCE | Channel.NORMAL | Channel.FLOW
ARRAYS = ("bgra", "depth_m", "label", "instance", "normal", "flow")
VARIANTS: dict[str, tuple[SceneWeather, dict[str, object]]] = {
    "shadows, 4 samples a pixel": (NOON, {}),
    "the same, night": (NIGHT, {}),
    "neither": (NOON, {"msaa": 1, "shadows": False}),
}


def main() -> bool:
    """Measure and report; there is no aim to miss."""
    try:
        renderer = create_renderer("opengl")
    except SimulatorError as error:
        print(f"opengl: skipped: {error}")
        return True
    facts = dict(renderer.facts)
    on_cpu = is_on_cpu(facts["gl_renderer"])
    figures: dict[str, object] = {"renderer": facts, "on_cpu": on_cpu}
    figures["agrees_with_software"] = _agreement(renderer)
    renderer.close()
    figures["images_per_s"] = _speeds(facts["gl_renderer"], on_cpu=on_cpu)
    figures["same_bytes"] = _same_bytes()
    save("opengl" if on_cpu else "opengl-gpu", figures)
    return True


def _speeds(name: str, *, on_cpu: bool) -> dict[str, list[float]]:
    """Images per second: a new scene and all its cameras, read back, each time.

    By the clock on the wall, or, where the processor draws, by the time it worked: what one core would do.
    """
    count, best = (CAMERAS_ON_CPU, best_cpu_s) if on_cpu else (CAMERAS, best_s)
    street, cars, poses = traffic("t-junction")
    found: dict[str, list[float]] = {}
    for variant, (weather, options) in VARIANTS.items():
        renderer = create_renderer("opengl", **options)
        found[variant] = []
        for width, height in SIZES:
            cameras = [Camera(pose, width, height, 90.0) for pose in poses[:count]]
            kept: list[object] = [None]

            def once(
                renderer: Renderer = renderer,
                cameras: list[Camera] = cameras,
                kept: list[object] = kept,
                weather: SceneWeather = weather,
            ) -> None:
                kept[0] = renderer.render(street.scene(cars, weather), cameras, kept[0])  # type: ignore[arg-type]

            once()
            found[variant].append(count / best(once, 3))
        renderer.close()
    rows = [[variant, *(f"{speed:.0f}" for speed in speeds)] for variant, speeds in found.items()]
    by = "on one core" if on_cpu else "wall clock"
    title = f"images/s, {by}: colour, depth, labels; {count} cameras a tick, 40 cars; {name}"
    show(title, ["drawn with", *(f"{w} x {h}" for w, h in SIZES)], rows)
    return found


def _scenes() -> tuple[list[str], dict[str, tuple[object, list[Camera]]]]:
    from tests.support.camera_scenes import WEATHERS, cameras, street_scene

    return list(WEATHERS), {name: (street_scene(name), cameras(ALL, 240, 160)) for name in WEATHERS}


def _agreement(renderer: Renderer) -> dict[str, dict[str, float]]:
    """Parts of the pixels that are as the software renderer has them."""
    software = create_renderer("software")
    names, scenes = _scenes()
    found = {}
    for name in names:
        scene, cameras = scenes[name]
        pairs = list(zip(renderer.render(scene, cameras), software.render(scene, cameras), strict=True))  # type: ignore[arg-type]
        found[name] = {key: float(np.mean([_agrees(a, b)[key] for a, b in pairs])) for key in _agrees(*pairs[0])}
    software.close()
    keys = list(found[names[0]])
    title = f"agreement with the software renderer (depth within {DEPTH_WITHIN:.1%})"
    show(title, ["weather", *keys], [[name, *(f"{found[name][key]:.5f}" for key in keys)] for name in names])
    return found


def _agrees(a: CameraFrame, b: CameraFrame) -> dict[str, float]:
    if a.bgra is None or b.bgra is None or a.depth_m is None or b.depth_m is None or a.normal is None or b.normal is None:
        raise ValueError("all channels were wanted")
    apart = np.abs(a.bgra[..., :3].astype(int) - b.bgra[..., :3]).max(axis=-1)
    return {
        "depth": float((np.abs(a.depth_m - b.depth_m) <= DEPTH_WITHIN * b.depth_m).mean()),
        "label": float((a.label == b.label).mean()),
        "instance": float((a.instance == b.instance).mean()),
        "normal": float((np.abs(a.normal.astype(int) - b.normal) <= 1).all(axis=-1).mean()),
        "colour within 8 of 255": float((apart <= 8).mean()),
    }


def _same_bytes() -> dict[str, object]:
    """Digests of 12 pictures of six channels in fresh processes; how many outcomes there are, and which channels differ."""
    first = _digests()
    rows, outcomes = [], {}
    for name, load, busy in (
        ("idle", 0.0, False),
        ("95 % CPU load beside", 0.95, False),
        ("another renderer beside", 0.0, True),
    ):
        with CpuLoad(load) as loaded, _drawing() if busy else contextlib.nullcontext():
            loaded.settle()
            found = [_digests() for _ in range(REPEATS)]
        distinct = {json.dumps(digests, sort_keys=True) for digests in found}
        differing = sorted({channel for digests in found for channel, digest in digests.items() if digest != first[channel]})
        outcomes[name] = {"repeats": REPEATS, "outcomes": len(distinct), "differing": differing}
        rows.append([name, str(REPEATS), str(len(distinct)), ", ".join(differing) or "none"])
    show("bytes of fresh processes", ["circumstances", "repeats", "outcomes", "channels that differ from the first"], rows)
    return {"digests": first, "circumstances": outcomes}


def _command(verb: str) -> tuple[list[str], dict[str, str]]:
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return [sys.executable, "-m", "bench.opengl", verb], {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _digests() -> dict[str, str]:
    command, environment = _command("digests")
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=Path.cwd())
    read: dict[str, str] = json.loads(done.stdout)
    return read


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    command, environment = _command("draw")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is not None:
            process.stdout.readline()  # it says when it has begun
        try:
            yield
        finally:
            process.terminate()


def _print_digests() -> None:
    import hashlib

    renderer = create_renderer("opengl")
    names, scenes = _scenes()
    links = {array: hashlib.blake2b(digest_size=16) for array in ARRAYS}
    for name in names:
        scene, cameras = scenes[name]
        for frame in renderer.render(scene, cameras):  # type: ignore[arg-type]
            for array, link in links.items():
                link.update(np.ascontiguousarray(getattr(frame, array)).tobytes())
    renderer.close()
    print(json.dumps({array: link.hexdigest() for array, link in links.items()}))


def _draw_on() -> None:
    """Draw until told to stop, or for ten minutes."""
    renderer = create_renderer("opengl")
    names, scenes = _scenes()
    scene, cameras = scenes[names[0]]
    until_s = SYSTEM_CLOCK.monotonic_s() + 600.0
    said = False
    while SYSTEM_CLOCK.monotonic_s() < until_s:
        renderer.render(scene, cameras)  # type: ignore[arg-type]
        if not said:
            print("drawing", flush=True)
            said = True


if __name__ == "__main__":
    {"digests": _print_digests, "draw": _draw_on}[sys.argv[1]]()
