"""Recording a dataset: a scenario runs once, every so many ticks a frame is written; what is there is not drawn again.

An interrupted recording runs the scenario from the beginning, as measurements depend on what came before (walked distances,
pictures of event cameras), but renders only the frames that are missing. An MCAP file is made of the frames when all are there;
only then they go.
"""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from samepath.core.digests import first_link, link
from samepath.core.errors import InputError, StoreError
from samepath.core.files import make_folder, write_atomically
from samepath.simulator.dataset.files import (
    LABELS,
    FrameFolder,
    RecordSettings,
    array_file,
    content_of,
    file_of,
    json_of,
    masks_file,
)
from samepath.simulator.dataset.labels import frame_labels
from samepath.simulator.dataset.mcap import FILE, require_mcap, write_mcap
from samepath.simulator.sensors.renderer import Renderer
from samepath.simulator.sensors.rig import Measurement, SensorSuite, boxes_of
from samepath.simulator.sensors.weather import tyre_grip
from samepath.simulator.simulation import Simulation, SimulationSettings, check_on_map

HEADER: Final = "dataset.json"
INDEX: Final = "index.json"


@dataclass(frozen=True)
class RecordingResult:
    """How a recording ended: frames in all, those written now, why the scenario ended, and a name of every bit."""

    frames: int
    written: int
    reason: str
    digest: str


def record(
    settings: RecordSettings,
    folder: Path,
    *,
    threads: int = 1,
    on_frame: Callable[[int, int], None] = lambda tick, frames: None,
    shared: Renderer | None = None,
) -> RecordingResult:
    """Write a dataset, or go on with one that was interrupted; ``on_frame`` is told the tick and the frames so far.

    ``shared`` draws, together with what other recordings ask for.
    """
    check_on_map(settings.scenario)
    if settings.format == "mcap":
        require_mcap()
    with (
        closing(Simulation(settings.scenario, SimulationSettings(seed=settings.seed))) as simulation,
        closing(_suite(settings, simulation, threads, shared)) as suite,
    ):
        settings = replace(settings, drawn_by=suite.drawn_by)
        if settings.weather_felt:
            simulation.world.set_grip(tyre_grip(settings.weather))
        open_dataset(json_of(settings.as_object()), folder)  # not before: what is refused leaves no folder behind
        if settings.format == "mcap" and (folder / FILE).exists() and (folder / INDEX).exists():
            return _finished(folder)
        frames = FrameFolder(folder)
        ticks, written, reason = _run(settings, simulation, suite, frames, on_frame)
    frames.sync()
    return _close(settings, folder, frames, ticks, written, reason)


def _suite(settings: RecordSettings, simulation: Simulation, threads: int, shared: Renderer | None) -> SensorSuite:
    boxes, renderer = boxes_of(settings.scenario), settings.renderer
    return SensorSuite(
        settings.rig,
        simulation.world,
        boxes=boxes,
        weather=settings.weather,
        weather_felt=settings.weather_felt,
        threads=threads,
        renderer=renderer,
        shared=shared,
    )


def _run(
    settings: RecordSettings,
    simulation: Simulation,
    suite: SensorSuite,
    frames: FrameFolder,
    on_frame: Callable[[int, int], None],
) -> tuple[list[int], int, str]:
    """Run the scenario and write the frames that are not there; return all their ticks, how many are new, why it ended."""
    there, written, ended = frames.done(), 0, None
    ticks: list[int] = []
    while ended is None and suite.is_there and (settings.most is None or len(ticks) < settings.most):
        ended = simulation.step().ended
        # Also at ticks whose frames are there already: the world and its sensors must come to the next one as they did before.
        suite.follow(commands=simulation.commands)
        tick = simulation.world.tick_count
        if tick % settings.every or not suite.is_there:
            continue
        if tick not in there:
            frames.write(tick, _frame(settings, simulation, suite))
            written += 1
        ticks.append(tick)
        on_frame(tick, len(ticks))
    if ended is None:
        ended = "as many frames as asked for" if suite.is_there else "the actor with the sensors is gone"
    return ticks, written, ended


def open_dataset(header: bytes, folder: Path) -> None:
    """Write what was asked for, or refuse a folder that holds something else."""
    path = folder / HEADER
    if path.exists():
        if path.read_bytes() != header:
            raise InputError(f"{folder} holds another dataset, or one of another samepath: choose an empty folder")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder: choose another --out")
    else:
        write_atomically(make_folder(folder) / HEADER, lambda partial: _write(partial, header))


def _frame(settings: RecordSettings, simulation: Simulation, suite: SensorSuite) -> dict[str, bytes]:
    """The files of a frame."""
    measurements, views = suite.look(simulation.commands)
    labels = frame_labels(simulation.world, suite.parent_id, measurements, views, settings.images)
    masks = {masks_file(view.names[0]): array_file(view.instances) for view in views} if settings.masks else {}
    return {**_files(measurements, settings.images), **masks, LABELS: json_of(labels)}


def _files(measurements: tuple[Measurement, ...], images: str) -> dict[str, bytes]:
    files = {}
    for measured in measurements:
        name = file_of(measured.sensor.type, measured.sensor.name, images)
        if name is not None:
            files[name] = content_of(measured.sensor.type, measured.values, name)
    return files


def _close(
    settings: RecordSettings, folder: Path, frames: FrameFolder, ticks: list[int], written: int, reason: str
) -> RecordingResult:
    """Write the list of frames; its digest names every bit that was measured, whatever the files' compression."""
    chain = first_link("dataset", settings.scenario.name)
    listed: list[dict[str, Any]] = []
    for tick in ticks:
        labels = frames.read_labels(tick)
        chain = link(chain, json_of(labels))
        where = {} if settings.format == "mcap" else {"folder": f"{frames.folder.name}/{frames.name(tick)}"}
        listed.append({"tick": tick, "time_s": labels["time_s"], **where})
    if settings.format == "mcap":
        write_mcap(folder / FILE, json_of(settings.as_object()), frames, ticks)
    index = json_of({"frames": listed, "reason": reason, "digest": chain.hex()})
    write_atomically(folder / INDEX, lambda partial: _write(partial, index))
    if settings.format == "mcap":
        frames.remove()
    return RecordingResult(len(ticks), written, reason, chain.hex())


def _finished(folder: Path) -> RecordingResult:
    """What the index of an MCAP file that is whole says; frames that an interruption left behind go."""
    FrameFolder(folder).remove()
    try:
        index = json.loads((folder / INDEX).read_text("utf-8"))
        return RecordingResult(len(index["frames"]), 0, index["reason"], index["digest"])
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{folder / INDEX} is damaged ({error}): delete {folder} and record again") from error


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
