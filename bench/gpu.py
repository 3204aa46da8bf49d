"""The renderer ``cuda`` on the card of this machine: are its bytes those of the software renderer, and how fast are they?

``python -m bench gpu`` compares first and measures then, and goes on comparing for what is left of ``--budget-s``. It writes
``bench/results/gpu.json`` after every step, so that what was found is kept whatever happens to the machine. Without a card it
says so and fails. ``--emulated`` runs the same with a card that is none, on small pictures: that tests this program, its speeds
mean nothing, and it writes where ``--out`` says only.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.cameras import NOON, SIZES, traffic
from bench.lidar import CHANNELS, COLUMNS, QUIET, SCAN, STEP_S
from bench.other_renderers import best_cpu_s
from bench.tools import code_measured, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.core.processes import keep_freed_memory
from samepath.core.states import Pose
from samepath.simulator.sensors.cuda.card import CardDevice, Pending
from samepath.simulator.sensors.cuda.driver import CudaDriver, Driver
from samepath.simulator.sensors.cuda.rays import CardRayCaster
from samepath.simulator.sensors.cuda.renderer import CudaRenderer
from samepath.simulator.sensors.images import IMAGES
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.lidar import Lidar
from samepath.simulator.sensors.raster.arrays import FrameBatch
from samepath.simulator.sensors.raster.prepare import camera_arrays_of
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.renderer import Camera, CameraFrame, Channel, Renderer, RenderScene, create_renderer
from samepath.simulator.sensors.scene_builder import SceneBuilder
from samepath.simulator.sensors.sensor import NoiseKey
from tests.support import ROOT
from tests.support.camera_scenes import WEATHERS, cameras, digest, fuzzed_cameras, street_scene
from tests.support.sensor_bytes import in_a_rig

PINNED = ROOT / "tests" / "simulator" / "sensors" / "camera_golden.json"
SENSORS_PINNED = PINNED.with_name("sensor_golden.json")
COUNTS = (40, 1, 256, 1024)
# A round of forty scans takes a tenth of a second on one core: of fewer rounds the median is a matter of chance.
RAYS_S = 2.0
AIMS = (60_000.0, 30_000.0, 10_000.0, 3_000.0)
"""Images per second of a lockstep tick with 40 cameras, on an H200."""
PIXEL_BYTES = 9
MOST_BYTES = 4 << 30
"""Colour, depth and labels of a tick in pinned memory; larger ones are left out, and the table says so."""
FUZZED_A_CALL = 50
FUZZED_FIRST = 400
WORLDS = (16, 256)
CELL_S = 0.5
"""How long each figure is measured, after a round that does not count."""
WARM_S = 2.0
"""How long is drawn before the first figure: a card that did nothing has a slow clock, and the first cell would show that."""
PROFILED = (((180, 120), 40), ((720, 480), 40), ((360, 240), 256))
SAVED_S = 5.0
LEAST_S = 25.0
"""With less than this left nothing more is measured."""


@dataclass
class Run:
    """One run of the program: its options, what it has found, and how much time is left."""

    options: argparse.Namespace
    figures: dict[str, object]
    began_s: float = field(default_factory=SYSTEM_CLOCK.monotonic_s)
    saved_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Of the budget."""
        return float(self.options.budget_s) - (SYSTEM_CLOCK.monotonic_s() - self.began_s)

    def keep(self, name: str, found: object, *, now: bool = True) -> None:
        """Keep a figure, and write all of them if ``now`` or the last time is a while ago."""
        self.figures[name] = found
        self.figures["seconds"] = SYSTEM_CLOCK.monotonic_s() - self.began_s
        if now or SYSTEM_CLOCK.monotonic_s() - self.saved_s > SAVED_S:
            self.saved_s = SYSTEM_CLOCK.monotonic_s()
            save("gpu", self.figures, out=self.options.out)


@dataclass(frozen=True)
class Place:
    """A town with cars, and a camera on each."""

    street: SceneBuilder
    moved: list[list[ActorAppearance]]
    """The cars at some ticks, a little further on each: what a world hands over."""
    poses: list[Pose]

    @classmethod
    def town(cls) -> "Place":
        """Forty cars."""
        street, cars, poses = traffic("town")
        moved = [[replace(c, pose=c.pose._replace(x_m=c.pose.x_m + 0.01 * tick)) for c in cars] for tick in range(50)]
        return cls(street, moved, poses)

    def scene(self, tick: int) -> RenderScene:
        """The scene of a tick."""
        return self.street.scene(self.moved[tick % len(self.moved)], NOON, tick=tick)

    def cameras(self, width: int, height: int, count: int, channels: Channel | None = None) -> list[Camera]:
        """On the roofs of the cars in turn, each a little turned, so that no two are the same."""
        wanted = Channel.COLOUR | Channel.DEPTH | Channel.LABEL if channels is None else channels
        return [
            Camera(pose._replace(yaw_deg=pose.yaw_deg + 7.0 * (k // len(self.poses))), width, height, 90.0, wanted)
            for k, pose in enumerate(self.poses[k % len(self.poses)] for k in range(count))
        ]


def main(arguments: list[str]) -> bool:
    """Compare and measure; return whether every byte was equal and every aim met."""
    options = _options(arguments)
    keep_freed_memory()  # as a server and ``samepath record`` do
    try:
        driver = _driver(emulated=options.emulated)
    except SimulatorError as error:
        print(f"gpu: {error}")
        return False
    figures = {"card": driver.told, "multiprocessors": driver.multiprocessors, "emulated": options.emulated}
    run = Run(options, figures)
    device = CardDevice(driver)
    ours = CudaRenderer(device)
    same = _golden(run, ours, device, 2 if options.emulated else min(options.repeats, 20), "pinned_pictures")
    same = (options.emulated or _sensors(run)) and same
    software = create_renderer("software")
    fuzz = _Fuzz(run, ours, software)
    same = fuzz.draw(min(options.fuzzed, FUZZED_FIRST), 0.25 * run.left_s) and same
    met = False
    if same:
        place = Place.town()
        if not options.emulated:
            run.keep("pcie_bytes_per_s", _pcie(driver))
        met = _speeds(run, ours, device, place)
        _worlds(run, ours, place)
        steps = [
            partial(_others, run, place), partial(_profile, run, ours, device, place),
            partial(_encoded, run, ours, device, place), partial(_rays, run, place),
        ]  # fmt: skip
        for step in [] if options.emulated else steps:
            if run.left_s > LEAST_S:
                step()
        # What is left goes into comparing: half into repeats, half into cameras.
        same = _golden(run, ours, device, options.repeats, "pinned_pictures", 0.5 * run.left_s) and same
        same = fuzz.draw(options.fuzzed, run.left_s) and same
    fuzz.show()
    software.close()
    ours.close()
    run.keep("every_byte_equal", same)
    if not same:
        print("gpu: there are DIFFERING bytes")
    return same and (met or options.emulated)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench gpu", description=__doc__)
    parser.add_argument("--emulated", action="store_true", help="a card that is none: tests this program")
    parser.add_argument("--budget-s", type=float, default=280.0, help="seconds in all; comparing ends with them (default 280)")
    parser.add_argument("--repeats", type=int, default=1000, help="of the pinned pictures, in every weather, at most")
    parser.add_argument("--fuzzed", type=int, default=10_000, help="cameras in odd places, against software, at most")
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


def _golden(run: Run, ours: CudaRenderer, device: CardDevice, repeats: int, name: str, most_s: float = float("inf")) -> bool:
    """The pinned pictures of every weather, again and again, over memory full of rubbish; weathers in turn."""
    pinned = json.loads(PINNED.read_text("utf-8"))
    views = [*cameras(), *cameras(width=64, height=48, samples=2, vignette=0.5)]
    batch, scenes = FrameBatch(views, device.empty), {weather: street_scene(weather) for weather in WEATHERS}
    found: dict[str, dict[str, int]] = {weather: {"repeats": 0, "equal": 0} for weather in WEATHERS}
    before = run.figures.get(name)
    if isinstance(before, dict):
        found = before
    began_s = SYSTEM_CLOCK.monotonic_s()
    for number in range(max(tally["repeats"] for tally in found.values()), repeats):
        if SYSTEM_CLOCK.monotonic_s() - began_s > most_s:
            break
        for weather, scene in scenes.items():
            for array in batch.arrays:
                array.view(np.uint8)[:] = 0xA5 if number % 2 else 0x5A
            found[weather]["repeats"] += 1
            found[weather]["equal"] += digest(ours.render(scene, views, batch)) == pinned[weather]
        run.keep(name, found, now=False)
    run.keep(name, found)
    rows = [[weather, str(tally["repeats"]), str(tally["equal"])] for weather, tally in found.items()]
    show(f"pinned pictures, six channels; {device.told}", ["weather", "repeats", "equal"], rows)
    return all(tally["equal"] == tally["repeats"] for tally in found.values())


def _sensors(run: Run) -> bool:
    """Every kind of sensor on a car of a scenario, with its cameras drawn by the card: the pinned digests."""
    pinned = json.loads(SENSORS_PINNED.read_text("utf-8"))["rig"]
    found = in_a_rig(1, "cuda")
    differing = sorted(kind for kind in pinned if found.get(kind) != pinned[kind])
    run.keep("pinned_sensors", {"kinds": len(pinned), "differing": differing})
    print(f"pinned sensors: {len(pinned)} kinds, {len(differing)} differing {' '.join(differing)}")
    return not differing


class _Fuzz:
    """Cameras in walls, under the ground, far off, wide and narrow: against the software renderer, bit by bit.

    In one call for one world, in the next for all weathers in one launch, and with CARLA's pictures beside the numbers.
    """

    def __init__(self, run: Run, ours: CudaRenderer, software: Renderer) -> None:
        self._run, self._ours, self._software = run, ours, software
        self._scenes = {weather: street_scene(weather) for weather in WEATHERS}
        self._found = {weather: {"cameras": 0, "differing": 0} for weather in WEATHERS}
        self._call = 0

    def draw(self, count: int, most_s: float) -> bool:
        """Go on up to so many cameras in all, or so many seconds."""
        began_s, ours = SYSTEM_CLOCK.monotonic_s(), self._ours
        while sum(tally["cameras"] for tally in self._found.values()) < count and SYSTEM_CLOCK.monotonic_s() - began_s < most_s:
            eyes = {weather: list(self._eyes(weather)) for weather in WEATHERS}
            groups = [(self._scenes[weather], eyes[weather]) for weather in WEATHERS]
            drawn = ours.render_worlds(groups) if self._call % 2 else [ours.render(*group) for group in groups]
            for weather, mine, (scene, asked) in zip(WEATHERS, drawn, groups, strict=True):
                for frame, other in zip(mine, self._software.render(scene, asked), strict=True):
                    self._found[weather]["cameras"] += 1
                    self._found[weather]["differing"] += not _equal(frame, other)
            self._call += 1
            self._run.keep("fuzzed_cameras", self._found, now=False)
        self._run.keep("fuzzed_cameras", self._found)
        return not any(tally["differing"] for tally in self._found.values())

    def _eyes(self, weather: str) -> Iterator[Camera]:
        count = 3 if self._run.options.emulated else FUZZED_A_CALL
        for number, eye in enumerate(fuzzed_cameras(count, f"{weather} {self._call}")):
            yield replace(eye, channels=eye.channels | IMAGES) if number % 5 == 0 else eye

    def show(self) -> None:
        """Print the table."""
        rows = [[weather, str(tally["cameras"]), str(tally["differing"])] for weather, tally in self._found.items()]
        show("fuzzed cameras, against the software renderer", ["weather", "cameras", "differing"], rows)


def _equal(frame: CameraFrame, other: CameraFrame) -> bool:
    """Every channel, bit by bit."""
    for name in CameraFrame.__slots__:
        mine, theirs = getattr(frame, name), getattr(other, name)
        if name != "camera" and (
            (mine is None) != (theirs is None) or (mine is not None and mine.tobytes() != theirs.tobytes())
        ):
            return False
    return True


def _pcie(driver: Driver) -> float:
    """Bytes per second from the card into pinned memory."""
    size = 1 << 28
    to, given, stream, event = driver.pinned(size), driver.allocate(size), driver.stream(), driver.event()

    def once() -> None:
        driver.download(to, given, stream)
        driver.record(event, stream)
        driver.wait(event)

    speed = size / _median_s(once)
    driver.release(given)
    print(f"from the card: {speed / 1e9:.1f} GB/s")
    return speed


def _median_s(work: Callable[[], object], most_s: float = CELL_S) -> float:
    """The median of the rounds of some time, at least three, after one that does not count: a card's clock goes up and down."""
    work()
    times: list[float] = []
    while len(times) < 3 or sum(times) < most_s:
        start = SYSTEM_CLOCK.monotonic_s()
        work()
        times.append(SYSTEM_CLOCK.monotonic_s() - start)
    return statistics.median(times)


def _speeds(run: Run, ours: CudaRenderer, device: CardDevice, place: Place) -> bool:
    """Images per second of ``town`` with 40 cars at noon: colour, depth and labels; every tick has a new scene."""
    emulated = run.options.emulated
    sizes, counts = (((48, 32),), (1, 4)) if emulated else (SIZES, COUNTS)
    pcie, found = run.figures.get("pcie_bytes_per_s"), []
    if not emulated:
        _median_s(partial(_pipelined_s, ours, device, place, place.cameras(*sizes[0], counts[0]), brings=False), WARM_S)
    for width, height in sizes:
        for count in counts:
            row: dict[str, Any] = {"size": [width, height], "cameras": count}
            found.append(row)
            if isinstance(pcie, float):
                row["pcie_limit"] = pcie / (PIXEL_BYTES * width * height)
            if count * width * height * PIXEL_BYTES > MOST_BYTES:
                row["left_out"] = f"more than {MOST_BYTES >> 30} GiB a tick"
                continue
            if run.left_s < LEAST_S:
                row["left_out"] = "no time was left"
                continue
            eyes = place.cameras(width, height, count)
            row["kernels"] = count / _pipelined_s(ours, device, place, eyes, brings=False)
            row["tick"] = count / _tick_s(ours, device, place, eyes)
            row["overlapped"] = count / _pipelined_s(ours, device, place, eyes, brings=True)
            run.keep("images_per_s", found)
    found.sort(key=lambda row: (row["size"], row["cameras"]))
    keys = ("kernels", "overlapped", "tick", "pcie_limit")
    rows = [
        [f"{row['size'][0]} x {row['size'][1]}", str(row["cameras"]), *(f"{row[key]:.0f}" if key in row else "left out"
         for key in keys)]
        for row in found
    ]  # fmt: skip
    show(f"images/s: colour, depth, labels; town, 40 cars; {device.told}", ["size", "cameras", *keys], rows)
    if emulated:
        return True
    ticks = [row.get("tick", 0.0) for row in found if row["cameras"] == 40]
    checks = [[f"{w} x {h}", f"{rate:.0f}", f"{aim:.0f}", verdict(met=rate >= aim)]
              for (w, h), rate, aim in zip(SIZES, ticks, AIMS, strict=True)]  # fmt: skip
    show("a lockstep tick of 40 cameras", ["size", "images/s", "aim", ""], checks)
    return all(row[-1] == verdict(met=True) for row in checks)


def _tick_s(ours: CudaRenderer, device: CardDevice, place: Place, eyes: list[Camera]) -> float:
    """One tick after the other: a scene, all its pictures, and back in this machine's memory."""
    batch, ticks = FrameBatch(eyes, device.empty), iter(range(1 << 30))
    return _median_s(lambda: ours.render(place.scene(next(ticks)), eyes, batch))


def _pipelined_s(ours: CudaRenderer, device: CardDevice, place: Place, eyes: list[Camera], *, brings: bool) -> float:
    """A tick, where the next is started before the last has come back; without ``brings`` pictures stay on the card."""
    batches = [FrameBatch(eyes, device.empty) for _ in range(2)]
    views = [camera_arrays_of(eyes, batch.offsets) for batch in batches]
    # The same prepared scenes for all: what is measured is the card, not what makes scenes.
    scenes = [ours.prepare(place.scene(tick)) for tick in range(2)]
    under_way: list[Pending] = []
    turn = iter(range(1 << 30))

    def once() -> None:
        k = next(turn) % 2
        if len(under_way) == 2:
            under_way.pop(0).wait()
        under_way.append(device.start(scenes[k], views[k], batches[k].arrays, 1.0, brings=brings))

    def several() -> None:
        for _ in range(10):
            once()

    median_s = _median_s(several) / 10
    for pending in under_way:
        pending.wait()
    return median_s


def _worlds(run: Run, ours: CudaRenderer, place: Place) -> None:
    """A camera in each of many worlds: all in one launch, and one world after the other."""
    found = []
    for count in (2,) if run.options.emulated else WORLDS:
        width, height = (24, 16) if run.options.emulated else SIZES[0]
        eyes = place.cameras(width, height, count)
        groups = [(place.scene(tick), [eye]) for tick, eye in enumerate(eyes)]

        def together(groups: list[Any] = groups) -> object:
            return ours.render_worlds(groups)

        def apart(groups: list[Any] = groups) -> object:
            return [ours.render(*group) for group in groups]

        row = {"size": [width, height], "worlds": count}
        found.append(row | {"one_launch": count / _median_s(together), "apart": count / _median_s(apart)})
        run.keep("worlds_images_per_s", found)
    rows = [[str(row["worlds"]), f"{row['one_launch']:.0f}", f"{row['apart']:.0f}"] for row in found]
    show("images/s of a camera in each of many worlds, 180 x 120", ["worlds", "in one launch", "one after the other"], rows)


def _encoded(run: Run, ours: CudaRenderer, device: CardDevice, place: Place) -> None:
    """A lockstep tick of 40 cameras with CARLA's pictures of depth and labels beside colours: 12 bytes a pixel."""
    found = []
    for width, height in SIZES:
        eyes = place.cameras(width, height, 40, Channel.COLOUR | Channel.DEPTH_IMAGE | Channel.LABEL_IMAGE)
        found.append({"size": [width, height], "tick": 40 / _tick_s(ours, device, place, eyes)})
        run.keep("encoded_images_per_s", found)
    rows = [[f"{row['size'][0]} x {row['size'][1]}", f"{row['tick']:.0f}"] for row in found]
    show("a lockstep tick of 40 cameras, as CARLA encodes depth and labels", ["size", "images/s"], rows)


def _profile(run: Run, ours: CudaRenderer, device: CardDevice, place: Place) -> None:
    """How long each kernel takes, one waited for after the other; and what Python takes."""
    driver: Any = device.driver
    launch, found = driver.launch, []
    for (width, height), count in PROFILED:
        eyes, times = place.cameras(width, height, count), dict[str, list[float]]()
        batch = FrameBatch(eyes, device.empty)
        ours.render(place.scene(0), eyes, batch)

        def timed(kernel: str, *more: Any, times: dict[str, list[float]] = times, **options: Any) -> None:  # noqa: ANN401
            driver.finish()
            start = SYSTEM_CLOCK.monotonic_s()
            launch(kernel, *more, **options)
            driver.finish()
            times.setdefault(kernel, []).append(SYSTEM_CLOCK.monotonic_s() - start)

        driver.launch = timed
        try:
            for tick in range(5):
                ours.render(place.scene(tick), eyes, batch)
        finally:
            driver.launch = launch
        us = {kernel: 1e6 * sum(each) / 5 for kernel, each in times.items()}
        scene = _median_s(lambda: place.scene(3), 0.1)
        prepare = _median_s(lambda: camera_arrays_of(eyes, batch.offsets) and ours.prepare(place.scene(3)), 0.1)  # noqa: B023
        found.append({
            "size": [width, height], "cameras": count, "kernels_us": us, "scene_us": 1e6 * scene, "prepare_us": 1e6 * prepare,
        })  # fmt: skip
        run.keep("profile", found)
    names = list(dict.fromkeys(name for profile in found for name in profile["kernels_us"]))
    rows = [[name, *(f"{profile['kernels_us'].get(name, 0.0):.0f}" for profile in found)] for name in names]
    rows += [[key, *(f"{profile[key]:.0f}" for profile in found)] for key in ("scene_us", "prepare_us")]
    heads = [f"{profile['size'][0]} x {profile['size'][1]} x {profile['cameras']}" for profile in found]
    show("microseconds a tick, each kernel waited for (about 10 of them are the waiting)", ["kernel", *heads], rows)


def _rays(run: Run, place: Place) -> None:
    """Scans of LiDARs: millions of rays a second, on the card and on one core, and whether every byte is the same.

    A scan at a time, and one on each of the forty cars, all begun before the first is asked for; scenes are made anew.
    """
    lidar = Lidar.from_attributes({**SCAN, **QUIET, "range": 100})
    found: dict[str, Any] = {"rays": CHANNELS * COLUMNS, "scanners": len(place.poses)}
    bytes_of = {}
    for name, caster in (("cuda", CardRayCaster()), ("software", RayCaster(1))):

        def scans(tick: int, poses: Sequence[Pose], caster: RayCaster = caster) -> list[bytes]:
            scene = place.scene(tick)
            begun = [lidar.begin(caster, scene, pose, tick * STEP_S, STEP_S, NoiseKey(0, 0, tick)) for pose in poses]
            return [scan().to_bytes() for scan in begun]

        bytes_of[name] = scans(0, place.poses)
        ticks, count = iter(range(1 << 30)), len(place.poses)
        alone_s = _median_s(lambda: scans(tick := next(ticks), [place.poses[tick % count]]), RAYS_S)  # noqa: B023
        together_s = _median_s(lambda: scans(next(ticks), place.poses), RAYS_S) / count  # noqa: B023
        found[f"{name}_mrays_per_s"] = CHANNELS * COLUMNS / alone_s / 1e6
        found[f"{name}_mrays_per_s_together"] = CHANNELS * COLUMNS / together_s / 1e6
        if isinstance(caster, CardRayCaster):
            found["parts_us"] = _parts_us(caster, lidar, place)
        caster.close()
    found["scans"], found["differing"] = len(place.poses), sum(a != b for a, b in zip(*bytes_of.values(), strict=True))
    run.keep("lidar", found)
    show(f"LiDAR, 32,768 rays a scan, Mray/s; {found['differing']} of {found['scans']} scans differ", [
        "renderer", "a scan at a time", f"{len(place.poses)} scanners a tick"], [
        [name, f"{found[f'{name}_mrays_per_s']:.1f}", f"{found[f'{name}_mrays_per_s_together']:.1f}"] for name in bytes_of
    ])  # fmt: skip
    show("a scan alone, microseconds", list(found["parts_us"]), [[f"{part:.0f}" for part in found["parts_us"].values()]])


def _parts_us(caster: CardRayCaster, lidar: Lidar, place: Place) -> dict[str, float]:
    """What a scan takes where nothing is done at the same time as anything else, medians of 40: who is waited for."""
    scene, parts = place.scene(1), []
    for tick, pose in enumerate(place.poses):
        start_s = SYSTEM_CLOCK.monotonic_s()
        begun = lidar.begin(caster, scene, pose, tick * STEP_S, STEP_S, NoiseKey(0, 0, tick))
        begun_s = SYSTEM_CLOCK.monotonic_s()
        caster.finish()
        landed_s = SYSTEM_CLOCK.monotonic_s()
        begun().to_bytes()
        parts.append((begun_s - start_s, landed_s - begun_s, SYSTEM_CLOCK.monotonic_s() - landed_s))
    names = ("processor, before", "card", "processor, after")
    return {name: 1e6 * statistics.median(times) for name, times in zip(names, zip(*parts, strict=True), strict=True)}


def _others(run: Run, place: Place) -> None:
    """One core of the software renderer, and OpenGL where it is there; 40 cameras."""
    found: list[dict[str, Any]] = []
    for name, time in (("software", lambda work: best_cpu_s(work, 5)), ("opengl", _median_s)):
        try:
            renderer = create_renderer(name, **({"threads": 1} if name == "software" else {}))
        except SimulatorError as error:
            found.append({"renderer": name, "left_out": str(error)})
            continue
        speeds = []
        for width, height in SIZES:
            eyes, kept = place.cameras(width, height, 40), [None]

            def once(eyes: list[Camera] = eyes, kept: list[Any] = kept) -> None:
                kept[0] = renderer.render(place.scene(0), eyes, kept[0])  # noqa: B023

            once()
            speeds.append(40 / time(once))
        renderer.close()
        found.append({"renderer": name, "images_per_s": speeds})
        run.keep("images_per_s_of_others", found)
    run.keep("images_per_s_of_others", found)
    show(
        "images/s of the others, 40 cameras (software: one core)", ["renderer", *(f"{w} x {h}" for w, h in SIZES)],
        [[row["renderer"], *(f"{s:.0f}" for s in row["images_per_s"])] for row in found if "images_per_s" in row],
    )  # fmt: skip
