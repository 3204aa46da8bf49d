"""Recording a dataset: a scenario runs once, every so many ticks a frame is written; what is there is not drawn again.

An interrupted recording runs the scenario from the beginning, as measurements depend on what came before (walked distances,
pictures of event cameras), but renders only the frames that are missing. An MCAP file is made of the frames when all are there;
only then they go.

Labels of a frame are plain data in CARLA's frame and with CARLA's labels, units in the names: the actor that carries the
sensors, what they measured and where, the boxes of all other actors.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from samepath.core.digests import array_digest, first_link, link
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
from samepath.simulator.dataset.mcap import FILE, require_mcap, write_mcap
from samepath.simulator.sensors.cameras import CameraView
from samepath.simulator.sensors.ground_truth import CameraBox, VisibleBox, before_camera, box_of, visible_boxes
from samepath.simulator.sensors.labels import OF_KIND, Label
from samepath.simulator.sensors.renderer import Camera, Renderer
from samepath.simulator.sensors.rig import Measurement, SensorSuite, boxes_of
from samepath.simulator.sensors.weather import tyre_grip
from samepath.simulator.simulation import Simulation, SimulationSettings, check_on_map
from samepath.simulator.world.world import World

Plain = dict[str, Any]


def frame_labels(
    world: World, parent_id: int, measurements: Sequence[Measurement], views: Sequence[CameraView], images: str
) -> Plain:
    visible = [(view, visible_boxes(view.instances, view.alone_px)) for view in views]
    by_name = {name: view for view in views for name in view.names}
    return {
        "tick": world.tick_count,
        "time_s": world.time_s,
        "ego": _actor(world, parent_id),
        "sensors": {
            measured.sensor.name: _sensor(measured, by_name.get(measured.sensor.name), images) for measured in measurements
        },
        "objects": [
            {
                **_actor(world, actor.id),
                "cameras": {
                    view.names[0]: found
                    for view, boxes in visible
                    if (found := _in_view(world, actor.id, view, boxes.get(actor.id))) is not None
                },
            }
            for actor in world.actors
            if actor.id != parent_id
        ],
    }


def _sensor(measured: Measurement, view: CameraView | None, images: str) -> Plain:
    kind, name = measured.sensor.type, measured.sensor.name
    file = file_of(kind, name, images)
    # The digest is that of the numbers, not of the file: PNG and JPEG libraries may pack the same picture in other bytes.
    numbers = np.ascontiguousarray(measured.values, measured.values.dtype.newbyteorder("<"))
    digest = array_digest(numbers.dtype.str, numbers.shape, numbers.tobytes()).hex()
    camera = {} if view is None else {"view": view.names[0], "calibration": _calibration(view.camera)}
    return {"type": kind, "pose": dict(measured.pose._asdict()), "digest": digest, **camera, **_content(measured, file)}


def _calibration(camera: Camera) -> Plain:
    return {"width_px": camera.width, "height_px": camera.height, "fov_deg": camera.fov_deg, "focal_px": camera.focal_px}


def _content(measured: Measurement, file: str | None) -> Plain:
    if file is not None:
        return {"file": file}
    values = measured.values.tolist()
    match measured.sensor.type:
        case "sensor.other.imu":
            return {"accelerometer_mps2": values[:3], "gyroscope_radps": values[3:6], "compass_rad": values[6]}
        case "sensor.other.gnss":
            return {"latitude_deg": values[0], "longitude_deg": values[1], "altitude_m": values[2]}
        case _:
            return {"distance_m": values[0] if values else None, "actor": int(values[1]) if values else None}


def _actor(world: World, number: int) -> Plain:
    kind, state = world.kind(number), world.state(number)
    box = box_of(kind, state.pose)
    label = OF_KIND.get(kind.kind, Label.DYNAMIC)
    return {
        "id": number,
        "type": kind.name,
        "label": int(label),
        "pose": dict(state.pose._asdict()),
        "velocity_mps": list(state.velocity_mps),
        "angular_velocity_degps": list(state.angular_velocity_degps),
        "box": {"pose": dict(box.pose._asdict()), "extent_m": list(box.extent_m)},
    }


def _in_view(world: World, number: int, view: CameraView, visible: VisibleBox | None) -> Plain | None:
    """What a camera has of an actor; None where no part of it could be in the picture, whatever stands before it."""
    alone_px = view.alone_px.get(number, 0)
    if not alone_px:
        return None
    box = before_camera(box_of(world.kind(number), world.state(number).pose), view.camera)
    visible_px = 0 if visible is None else visible.visible_px
    return {
        "box_px": None if visible is None else list(visible.box_px),
        "visible_px": visible_px,
        "alone_px": alone_px,
        "occluded_ratio": 1.0 - visible_px / alone_px,
        "truncated_ratio": _outside(box, view.camera),
        "centre_m": list(box.centre_m),
        "corners_m": [list(corner) for corner in box.corners_m],
    }


def _outside(box: CameraBox, camera: Camera) -> float | None:
    """The share of the projected box beyond the picture's edges; None where it reaches behind the camera."""
    if box.projected_px is None:
        return None
    left, top, right, bottom = box.projected_px
    width = max(min(right, camera.width) - max(left, 0.0), 0.0)
    height = max(min(bottom, camera.height) - max(top, 0.0), 0.0)
    return 1.0 - width * height / ((right - left) * (bottom - top))


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
