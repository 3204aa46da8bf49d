"""The renderer ``cuda`` on the card of this machine: are its bytes those of the software renderer, and how fast are they?

``python -m bench gpu`` compares first and measures then, and writes ``bench/results/gpu.json`` after every step, so that what
was found is kept whatever happens to the machine. Without a card it says so and fails. ``--emulated`` runs the same with a card
that is none, on small pictures: that tests this program, its speeds mean nothing, and it writes where ``--out`` says only.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from bench.cameras import NOON, SIZES, traffic
from bench.other_renderers import best_cpu_s
from bench.tools import code_measured, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.core.states import Pose
from samepath.simulator.sensors.cuda.card import CardDevice, Pending
from samepath.simulator.sensors.cuda.driver import CudaDriver, Driver
from samepath.simulator.sensors.cuda.renderer import CudaRenderer
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.raster.arrays import FrameBatch
from samepath.simulator.sensors.raster.prepare import camera_arrays_of
from samepath.simulator.sensors.renderer import Camera, RenderScene, create_renderer
from samepath.simulator.sensors.scene_builder import SceneBuilder
from tests.support import ROOT
from tests.support.camera_scenes import WEATHERS, cameras, digest, fuzzed_cameras, street_scene
from tests.support.sensor_bytes import in_a_rig

PINNED = ROOT / "tests" / "simulator" / "sensors" / "camera_golden.json"
SENSORS_PINNED = PINNED.with_name("sensor_golden.json")
COUNTS = (1, 40, 256, 1024)
AIMS = (60_000.0, 30_000.0, 10_000.0, 3_000.0)
"""Images per second of a lockstep tick with 40 cameras, on an H200."""
PIXEL_BYTES = 9
MOST_BYTES = 6 << 30
"""Colour, depth and labels of a tick in pinned memory; larger ones are left out, and the table says so."""
FUZZED_A_CALL = 50


def main(arguments: list[str]) -> bool:
    """Compare and measure; return whether every byte was equal and every aim met."""
    options = _options(arguments)
    try:
        driver = _driver(emulated=options.emulated)
    except SimulatorError as error:
        print(f"gpu: {error}")
        return False
    figures: dict[str, object] = {"card": driver.told, "multiprocessors": driver.multiprocessors, "emulated": options.emulated}

    def keep(name: str, found: object) -> None:
        figures[name] = found
        _save(options, figures)

    device = CardDevice(driver)
    ours = CudaRenderer(device)
    same = _golden(ours, device, options.repeats, keep)
    same = (options.emulated or _sensors(keep)) and same
    same = _fuzzed(ours, options.fuzzed, keep) and same
    if not same:
        print("gpu: there are differing bytes, so nothing is timed")
        return False
    if not options.emulated:
        keep("pcie_bytes_per_s", _pcie(driver))
    met = _speeds(ours, device, options, keep)
    ours.close()
    return met or options.emulated


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench gpu", description=__doc__)
    parser.add_argument("--emulated", action="store_true", help="a card that is none: tests this program")
    parser.add_argument("--repeats", type=int, default=100, help="of the pinned pictures, in every weather")
    parser.add_argument("--fuzzed", type=int, default=10_000, help="cameras in odd places, compared with the software renderer")
    parser.add_argument("--rounds", type=int, default=30, help="ticks that a speed is the best of")
    parser.add_argument("--dirty", action="store_true", help="measure although changes are in no commit")
    parser.add_argument("--out", type=Path, help="write the figures there instead")
    options = parser.parse_args(arguments)
    if options.emulated and options.out is None:
        parser.error("--emulated needs --out: such figures do not belong among the results")
    if not (options.dirty or options.emulated or code_measured()["clean"]):
        parser.error(
            "figures belong to a commit, but there are changes in none: commit them, or measure all the same with --dirty"
        )
    return options


def _driver(*, emulated: bool) -> Driver:
    if not emulated:
        return CudaDriver()
    from tests.support.emulated_card import EmulatedCard

    return EmulatedCard()


def _save(options: argparse.Namespace, figures: dict[str, object]) -> None:
    if options.out is None:
        save("gpu", figures)
    else:
        options.out.write_text(json.dumps({"figures": figures, "code": code_measured()}, indent=1) + "\n", "utf-8")


def _golden(ours: CudaRenderer, device: CardDevice, repeats: int, keep: Callable[[str, object], None]) -> bool:
    """The pinned pictures of every weather, again and again, over memory full of rubbish."""
    pinned = json.loads(PINNED.read_text("utf-8"))
    views = [*cameras(), *cameras(width=64, height=48, samples=2, vignette=0.5)]
    batch = FrameBatch(views, device.empty)
    found = {}
    for name in WEATHERS:
        scene, equal = street_scene(name), 0
        for number in range(repeats):
            for array in batch.arrays:
                array.view(np.uint8)[:] = 0xA5 if number % 2 else 0x5A
            equal += digest(ours.render(scene, views, batch)) == pinned[name]
        found[name] = {"repeats": repeats, "equal": equal}
        keep("pinned_pictures", found)
    rows = [[name, str(one["repeats"]), str(one["equal"])] for name, one in found.items()]
    show(f"pinned pictures, six channels; {device.told}", ["weather", "repeats", "equal"], rows)
    return all(one["equal"] == repeats for one in found.values())


def _sensors(keep: Callable[[str, object], None]) -> bool:
    """Every kind of sensor on a car of a scenario, with its cameras drawn by the card: the pinned digests."""
    pinned = json.loads(SENSORS_PINNED.read_text("utf-8"))["rig"]
    found = in_a_rig(1, "cuda")
    differing = sorted(kind for kind in pinned if found.get(kind) != pinned[kind])
    keep("pinned_sensors", {"kinds": len(pinned), "differing": differing})
    print(f"pinned sensors: {len(pinned)} kinds, {len(differing)} differing {' '.join(differing)}")
    return not differing


def _fuzzed(ours: CudaRenderer, count: int, keep: Callable[[str, object], None]) -> bool:
    """Cameras in walls, under the ground, far off, wide and narrow: against the software renderer, bit by bit."""
    software = create_renderer("software")
    found = {name: {"cameras": 0, "differing": 0} for name in WEATHERS}
    each = max(count // len(WEATHERS), 1)
    for name in WEATHERS:
        scene = street_scene(name)
        for start in range(0, each, FUZZED_A_CALL):
            eyes = list(fuzzed_cameras(min(FUZZED_A_CALL, each - start), f"{name} {start}"))
            for mine, theirs in zip(ours.render(scene, eyes), software.render(scene, eyes), strict=True):
                found[name]["cameras"] += 1
                found[name]["differing"] += digest([mine]) != digest([theirs])
            keep("fuzzed_cameras", found)
    software.close()
    show(
        "fuzzed cameras, against the software renderer", ["weather", "cameras", "differing"],
        [[name, str(one["cameras"]), str(one["differing"])] for name, one in found.items()],
    )  # fmt: skip
    return not any(one["differing"] for one in found.values())


def _pcie(driver: Driver) -> float:
    """Bytes per second from the card into pinned memory."""
    size = 1 << 28
    to, given, stream, event = driver.pinned(size), driver.allocate(size), driver.stream(), driver.event()

    def once() -> None:
        driver.download(to, given, stream)
        driver.record(event, stream)
        driver.wait(event)

    speed = size / _median_s(once, 9)
    driver.release(given)
    print(f"from the card: {speed / 1e9:.1f} GB/s")
    return speed


def _median_s(work: Callable[[], object], rounds: int) -> float:
    """The median of some rounds, after one that does not count: a card's clock goes up and down."""
    work()
    times = []
    for _ in range(rounds):
        start = SYSTEM_CLOCK.monotonic_s()
        work()
        times.append(SYSTEM_CLOCK.monotonic_s() - start)
    return statistics.median(times)


def _speeds(ours: CudaRenderer, device: CardDevice, options: argparse.Namespace, keep: Callable[[str, object], None]) -> bool:
    """Images per second of ``town`` with 40 cars at noon: colour, depth and labels; every tick has a new scene."""
    street, cars, poses = traffic("town")
    sizes, counts = (((48, 32),), (1, 4)) if options.emulated else (SIZES, COUNTS)
    rounds = 2 if options.emulated else options.rounds
    found: list[dict[str, object]] = []
    for width, height in sizes:
        for count in counts:
            if count * width * height * PIXEL_BYTES > MOST_BYTES:
                found.append({"size": [width, height], "cameras": count, "left_out": "more than 6 GiB a tick"})
                continue
            place = SimpleNamespace(street=street, cars=cars, cameras=_cameras(poses, width, height, count))
            speed = {"size": [width, height], "cameras": count}
            speed["kernels"] = count / _pipelined_s(ours, device, place, rounds, brings=False)
            speed["tick"] = count / _tick_s(ours, device, place, rounds)
            speed["overlapped"] = count / _pipelined_s(ours, device, place, rounds, brings=True)
            found.append(speed)
            keep("images_per_s", found)
    processor = [] if options.emulated else _others(street, cars, poses)
    keep("images_per_s_of_others", processor)
    rows = [
        [f"{one['size'][0]} x {one['size'][1]}", str(one["cameras"]), *(f"{one[key]:.0f}" if key in one else "left out"
         for key in ("kernels", "overlapped", "tick"))]
        for one in found
    ]  # fmt: skip
    show(
        f"images/s: colour, depth, labels; town, 40 cars; {device.told}",
        ["size", "cameras", "kernels", "overlapped", "tick"],
        rows,
    )
    if options.emulated:
        return True
    ticks = [one["tick"] for one in found if one["cameras"] == 40]
    checks = [[f"{w} x {h}", f"{one:.0f}", f"{aim:.0f}", verdict(met=one >= aim)]
              for (w, h), one, aim in zip(SIZES, ticks, AIMS, strict=True)]  # fmt: skip
    show("a lockstep tick of 40 cameras", ["size", "images/s", "aim", ""], checks)
    return all(row[-1] == verdict(met=True) for row in checks)


def _cameras(poses: list[Pose], width: int, height: int, count: int) -> list[Camera]:
    """On the roofs of the cars in turn, each a little turned, so that no two are the same."""
    chosen = [poses[k % len(poses)] for k in range(count)]
    return [
        Camera(pose._replace(yaw_deg=pose.yaw_deg + 7.0 * (k // len(poses))), width, height, 90.0)
        for k, pose in enumerate(chosen)
    ]


def _scene(place: SimpleNamespace, tick: int) -> RenderScene:
    moved = [replace(car, pose=car.pose._replace(x_m=car.pose.x_m + 0.01 * (tick % 50))) for car in place.cars]
    made: RenderScene = place.street.scene(moved, NOON, tick=tick)
    return made


def _tick_s(ours: CudaRenderer, device: CardDevice, place: SimpleNamespace, rounds: int) -> float:
    """One tick after the other: a scene, all its pictures, and back in this machine's memory."""
    batch, ticks = FrameBatch(place.cameras, device.empty), iter(range(1 << 30))
    return _median_s(lambda: ours.render(_scene(place, next(ticks)), place.cameras, batch), rounds)


def _pipelined_s(ours: CudaRenderer, device: CardDevice, place: SimpleNamespace, rounds: int, *, brings: bool) -> float:
    """A tick, where the next is started before the last has come back; without ``brings`` pictures stay on the card."""
    batches = [FrameBatch(place.cameras, device.empty) for _ in range(2)]
    views = [camera_arrays_of(place.cameras, batch.offsets) for batch in batches]
    # The same scenes for all: what is measured is the card, not what makes scenes.
    scenes = [_scene(place, tick) for tick in range(2)]

    def several() -> None:
        under_way: list[Pending] = []
        for tick in range(rounds):
            k = tick % 2
            if len(under_way) == 2:
                under_way.pop(0).wait()
            under_way.append(device.start(ours.prepare(scenes[k]), views[k], batches[k].arrays, 1.0, brings=brings))
        for pending in under_way:
            pending.wait()

    return _median_s(several, 3) / rounds


def _others(street: SceneBuilder, cars: list[ActorAppearance], poses: list[Pose]) -> list[dict[str, object]]:
    """One core of the software renderer, and OpenGL where it is there; 40 cameras."""
    found: list[dict[str, object]] = []
    for name, time in (("software", best_cpu_s), ("opengl", _median_s)):
        try:
            renderer = create_renderer(name, **({"threads": 1} if name == "software" else {}))
        except SimulatorError as error:
            found.append({"renderer": name, "left_out": str(error)})
            continue
        speeds = []
        for width, height in SIZES:
            eyes, kept = _cameras(poses, width, height, 40), [None]

            def once(eyes: list[Camera] = eyes, kept: list[object] = kept) -> None:
                kept[0] = renderer.render(street.scene(cars, NOON), eyes, kept[0])  # type: ignore[arg-type] # noqa: B023

            once()
            speeds.append(40 / time(once, 5))
        renderer.close()
        found.append({"renderer": name, "images_per_s": speeds})
    show(
        "images/s of the others, 40 cameras (software: one core)", ["renderer", *(f"{w} x {h}" for w, h in SIZES)],
        [[one["renderer"], *(f"{s:.0f}" for s in one["images_per_s"])] for one in found if "images_per_s" in one],
    )  # fmt: skip
    return found
