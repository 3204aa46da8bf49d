"""Datasets of many runs: one scenario, again and again, with other seeds and under other skies; and in the layouts of others.

Seeds and weathers come from streams named by the dataset's seed, the number of the run and what is drawn: the fifth run is the
same whether there are five or five hundred, and a parameter more moves no other. Every run is a dataset of its own until all
are there; so an interrupted command goes on where it stopped. In the layouts of COCO and KITTI they then become one.

Runs side by side are each in a thread of their own, with one card: what they ask for is drawn in one launch. Every world has a
:class:`GatheredRenderer`. Its call waits until every other world that is still there has asked too; the last one then draws for
all of them, in the order of their numbers. Frames do not depend on who is drawn with whom, so neither do they on how threads
come along. A world that is done closes its renderer: the others no longer wait for it.
"""

import json
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from samepath.core.digests import first_link, link
from samepath.core.errors import InputError, SimulatorError, StoreError
from samepath.core.files import write_atomically
from samepath.core.streams import stream
from samepath.simulator.dataset.files import FrameFolder, LayoutFrame, RecordSettings, json_of
from samepath.simulator.dataset.layouts import require_coco, require_kitti, write_coco, write_kitti
from samepath.simulator.dataset.recording import HEADER, INDEX, RecordingResult, open_dataset, record
from samepath.simulator.sensors.renderer import Camera, CameraFrame, RenderScene, WorldCameras, WorldsRenderer, create_renderer
from samepath.simulator.sensors.rig import build_scenery
from samepath.simulator.sensors.weather import SceneWeather


class RenderGatherer:
    """Owns a renderer that draws worlds together, and hands out a renderer for each world."""

    def __init__(self, renderer: WorldsRenderer) -> None:
        self.renderer = renderer
        self._turn = threading.Condition()
        self._parties = 0
        self._there: set[int] = set()
        self._asked: dict[int, WorldCameras] = {}
        self._answers: dict[int, Sequence[CameraFrame] | BaseException] = {}

    def join(self) -> "GatheredRenderer":
        """A renderer for one more world. From now on the others wait for its calls, until it is closed."""
        with self._turn:
            self._parties += 1
            self._there.add(self._parties)
            return GatheredRenderer(self, self._parties)

    def draw(self, party: int, scene: RenderScene, cameras: Sequence[Camera]) -> Sequence[CameraFrame]:
        """Draw for one world, together with the others."""
        with self._turn:
            if party not in self._there:
                raise SimulatorError("a renderer that is open was wanted, but a closed one came")
            self._asked[party] = (scene, cameras)
            self._draw_if_all_have_asked()
            while party not in self._answers:
                self._turn.wait()
            answer = self._answers.pop(party)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, party: int) -> None:
        """A world is done. If all others wait already, it draws for them before it goes."""
        with self._turn:
            self._there.discard(party)
            self._draw_if_all_have_asked()

    def close(self) -> None:
        """Let go of the renderer."""
        self.renderer.close()

    def _draw_if_all_have_asked(self) -> None:
        if not self._asked or len(self._asked) < len(self._there):
            return
        parties = sorted(self._asked)
        try:
            drawn = self.renderer.render_worlds([self._asked[party] for party in parties])
            self._answers.update(zip(parties, drawn, strict=True))
        except BaseException as error:
            self._answers.update(dict.fromkeys(parties, error))
        self._asked.clear()
        self._turn.notify_all()


class GatheredRenderer:
    """What one world draws with; see :class:`RenderGatherer`."""

    def __init__(self, gatherer: RenderGatherer, party: int) -> None:
        self._gatherer, self._party = gatherer, party

    @property
    def name(self) -> str:
        """Who draws now."""
        return self._gatherer.renderer.name

    @property
    def facts(self) -> Mapping[str, str]:
        """What pictures depend on beside scene and cameras."""
        return self._gatherer.renderer.facts

    def render(
        self,
        scene: RenderScene,
        cameras: Sequence[Camera],
        out: Sequence[CameraFrame] | None = None,
    ) -> Sequence[CameraFrame]:
        """Draw all cameras, with those of the other worlds; ``out`` is not used again."""
        return self._gatherer.draw(self._party, scene, cameras)

    def close(self) -> None:
        """Leave."""
        self._gatherer.leave(self._party)


RUNS_MOST: Final = 1000
AT_ONCE_MOST: Final = 64
_RUNS: Final = "runs"
_SEEDS: Final = 1 << 31
# How often it rains and how often there is fog; the rest of the time there is none of it.
_RAIN_CHANCE, _FOG_CHANCE = 0.35, 0.25


@dataclass(frozen=True)
class DatasetSettings:
    """A recording, how often it is made, and whether each run has a weather of its own."""

    recording: RecordSettings
    runs: int = 1
    random_weather: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.runs <= RUNS_MOST:
            raise InputError(f"runs: a whole number from 1 to {RUNS_MOST} was wanted, but {self.runs} came")

    @property
    def frames_most(self) -> int:
        """How many frames there can be."""
        return self.runs * self.recording.frames_most

    def run(self, number: int) -> RecordSettings:
        """What one run is asked to be; a single one keeps the seed that was given."""
        asked, seed = self.recording, self.recording.seed
        weather = drawn_weather(seed, number) if self.random_weather else asked.weather
        return replace(asked, seed=seed if self.runs == 1 else drawn_seed(seed, number), weather=weather)

    def as_object(self) -> dict[str, Any]:
        """Plain data: all that the bytes of a dataset depend on."""
        asked = self.recording.as_object() | {"runs": self.runs}
        return asked | {"weather": "random"} if self.random_weather else asked


def drawn_seed(seed: int, run: int) -> int:
    """The seed of a run."""
    return int(stream(seed, "dataset", "seed", run).integers(_SEEDS))


def drawn_weather(seed: int, run: int) -> SceneWeather:
    """The weather of a run: any time of day, a third with rain, a quarter with fog, roads at least as wet as it rains."""

    def part(name: str) -> float:
        return float(stream(seed, "dataset", "weather", run, name).random())

    rain = 100.0 * part("precipitation") if part("does it rain") < _RAIN_CHANCE else 0.0
    fog = 80.0 * part("fog_density") if part("is there fog") < _FOG_CHANCE else 0.0
    # Squared: a road may still be wet from the rain before, but most are dry.
    damp = part("wetness") * part("wetness")
    return SceneWeather(
        cloudiness=max(100.0 * part("cloudiness"), 0.8 * rain),
        precipitation=rain,
        precipitation_deposits=rain * part("precipitation_deposits"),
        wind_intensity=100.0 * part("wind_intensity"),
        sun_azimuth_angle=360.0 * part("sun_azimuth_angle"),
        sun_altitude_angle=-20.0 + 95.0 * part("sun_altitude_angle"),
        fog_density=fog,
        fog_distance=20.0 * part("fog_distance"),
        wetness=max(100.0 * damp, rain),
    )


def record_runs(
    settings: DatasetSettings,
    folder: Path,
    *,
    threads: int = 1,
    at_once: int = 1,
    on_frame: Callable[[int, int], None] = lambda tick, frames: None,
) -> RecordingResult:
    """Write a dataset, or go on with one that was interrupted; ``on_frame`` is told the tick and the frames so far.

    ``at_once`` runs go on side by side (:func:`record_together`).
    """
    asked, layout = settings.recording, settings.recording.format
    if layout == "coco":
        require_coco(asked.rig)
    elif layout == "kitti":
        require_kitti(asked.rig, asked.images)
    elif settings.runs == 1:
        return record(settings.run(0), folder, threads=threads, on_frame=on_frame)
    in_others = layout in ("coco", "kitti")
    is_new = not folder.exists()
    open_dataset(json_of(settings.as_object()), folder)
    if (folder / INDEX).exists():
        if in_others:
            shutil.rmtree(folder / _RUNS, ignore_errors=True)
        return _finished(folder)
    recordings = [(settings.run(number), _run_folder(folder, number)) for number in range(settings.runs)]
    if in_others:
        recordings = [(replace(run, format="files", masks=layout == "coco"), place) for run, place in recordings]
    try:
        results = record_together(recordings, threads=threads, at_once=at_once, on_frame=on_frame)
    except InputError:
        if is_new and not (folder / _RUNS).exists():
            shutil.rmtree(folder, ignore_errors=True)  # what is refused leaves no folder behind
        raise
    listed: dict[str, Any] = {}
    if in_others:
        frames = [frame for number in range(settings.runs) for frame in _frames(folder, number)]
        if layout == "coco":
            write_coco(folder, frames, f"{asked.scenario.name}, recorded with the rig {asked.rig.name}")
        else:
            listed = {"frames": write_kitti(folder, asked.rig, frames)}
    return _close(settings, folder, results, listed, keeps_runs=not in_others)


def record_together(
    recordings: Sequence[tuple[RecordSettings, Path]],
    *,
    threads: int = 1,
    at_once: int = 1,
    on_frame: Callable[[int, int], None] = lambda tick, frames: None,
) -> list[RecordingResult]:
    """Write datasets of any scenarios, seeds and weathers, each into its folder, ``at_once`` of them side by side.

    Where a card draws, those that are side by side are drawn in one launch. No byte depends on that, and ``on_frame`` is told
    the tick of one of them and the frames of all so far.
    """
    if not 1 <= at_once <= AT_ONCE_MOST:
        raise InputError(f"at once: a whole number from 1 to {AT_ONCE_MOST} was wanted, but {at_once} came")
    if at_once == 1 or len(recordings) == 1:
        results: list[RecordingResult] = []
        for asked, folder in recordings:
            before = sum(result.frames for result in results)

            def told(tick: int, frames: int, before: int = before) -> None:
                on_frame(tick, before + frames)

            results.append(record(asked, folder, threads=threads, on_frame=told))
        return results
    for asked, _ in recordings:
        build_scenery(asked.scenario)  # here, once: two threads that begin with one map would each build it
    gatherers = {name: _gatherer(name) for name in dict.fromkeys(asked.renderer for asked, _ in recordings)}
    told_of, lock = [0] * len(recordings), threading.Lock()

    def record_numbered(number: int) -> RecordingResult:
        asked, folder = recordings[number]

        def told(tick: int, frames: int) -> None:
            with lock:
                told_of[number] = frames
                on_frame(tick, sum(told_of))

        gatherer = gatherers[asked.renderer]
        shared = None if gatherer is None else gatherer.join()
        try:
            return record(asked, folder, threads=threads, on_frame=told, shared=shared)
        finally:
            if shared is not None:
                shared.close()

    try:
        with ThreadPoolExecutor(at_once, "samepath-record") as pool:
            running = [pool.submit(record_numbered, number) for number in range(len(recordings))]
            # In their order, so that of several that fail it is always the first that is told of.
            return [each.result() for each in running]
    finally:
        for gatherer in gatherers.values():
            if gatherer is not None:
                gatherer.close()


def _gatherer(name: str) -> RenderGatherer | None:
    """Who draws for several worlds at once; nobody where the processor draws: there each world has a thread of its own."""
    if name not in {"cuda", "auto"}:
        return None
    made = create_renderer(name)
    if made.name == "cuda" and isinstance(made, WorldsRenderer):
        return RenderGatherer(made)
    made.close()
    return None


def _run_folder(folder: Path, number: int) -> Path:
    return folder / _RUNS / f"{number:03d}"


def _frames(folder: Path, number: int) -> list[LayoutFrame]:
    """The frames of a run, in their order."""
    kept = FrameFolder(_run_folder(folder, number))
    return [LayoutFrame(number, tick, kept.read_labels(tick), kept) for tick in sorted(kept.done())]


def _close(
    settings: DatasetSettings, folder: Path, results: Sequence[RecordingResult], more: dict[str, Any], *, keeps_runs: bool
) -> RecordingResult:
    """Write the list of runs, and ``more``; its digest names every bit that was measured in any of them."""
    chain = first_link("dataset of runs", settings.recording.scenario.name)
    listed: list[dict[str, Any]] = []
    for number, result in enumerate(results):
        run = settings.run(number)
        chain = link(chain, result.digest.encode())
        weather = {parameter.name: getattr(run.weather, parameter.name) for parameter in fields(run.weather)}
        where = {"folder": _run_folder(folder, number).relative_to(folder).as_posix()} if keeps_runs else {}
        listed.append(
            {
                "run": number,
                "seed": run.seed,
                "weather": weather,
                "frames": result.frames,
                "reason": result.reason,
                "digest": result.digest,
                "renderer": json.loads((_run_folder(folder, number) / HEADER).read_text("utf-8"))["renderer"]["name"],
                **where,
            }
        )
    index = json_of({"runs": listed, "digest": chain.hex(), **more})
    write_atomically(folder / INDEX, lambda partial: _write(partial, index))
    if not keeps_runs:
        shutil.rmtree(folder / _RUNS, ignore_errors=True)
    frames, written = (sum(getattr(result, name) for result in results) for name in ("frames", "written"))
    return RecordingResult(frames, written, _ended(results), chain.hex())


def _finished(folder: Path) -> RecordingResult:
    """What the index of a dataset that is whole says."""
    try:
        index = json.loads((folder / INDEX).read_text("utf-8"))
        frames = sum(run["frames"] for run in index["runs"])
        reasons = sorted({run["reason"] for run in index["runs"]})
        return RecordingResult(frames, 0, "; ".join(reasons), index["digest"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder / INDEX} is damaged ({error}): delete {folder} and record again") from error


def _ended(results: Sequence[RecordingResult]) -> str:
    return "; ".join(sorted({result.reason for result in results}))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
