"""A dataset as one MCAP file, made of the frames of its folder: JSON messages, times of the simulation, no clock.

Messages use Foxglove's JSON schemas, which viewers of MCAP files know. Viewers want right-handed axes, so y changes its sign: x
forward, y left, z up; in a camera's ``optical`` frame z goes along the optical axis, x right, y down. The labels stay as they
are, in CARLA's frame. The library writes records in the order in which they come, so equal frames are equal files.
"""

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath import __version__
from samepath.core.errors import InputError
from samepath.core.files import write_atomically
from samepath.core.states import Pose
from samepath.core.trig_arrays import sincos_deg
from samepath.simulator.dataset.files import FrameFolder
from samepath.simulator.physics.frames import mirrored, quaternion_of

if TYPE_CHECKING:
    from mcap.writer import Writer

Plain = dict[str, Any]
Array = NDArray[Any]

FILE: Final = "dataset.mcap"
_WORLD: Final = "world"
_DEGREES: Final = 180.0 / np.pi
_LINE_LOOP: Final = 2
_NUMERIC: Final = {"<u4": 5, "<f4": 7}
_CLOUD_POINT: Final = (("x", "<f4"), ("y", "<f4"), ("z", "<f4"))
_EGO_COLOUR: Final = {"r": 0.2, "g": 0.5, "b": 1.0, "a": 0.5}
_COLOUR: Final = {"r": 1.0, "g": 0.6, "b": 0.1, "a": 0.5}

# From x forward, y left, z up to x right, y down, z forward.
_TO_OPTICAL: Final = {"x": -0.5, "y": 0.5, "z": -0.5, "w": 0.5}


class McapMessage(NamedTuple):
    """One message: its topic, the name of its schema, and plain data."""

    topic: str
    schema: str
    content: Plain


def require_mcap() -> None:
    """Say in one line what is missing, before anything is recorded."""
    if find_spec("mcap") is None:
        raise InputError("--format mcap needs the library mcap, which is not installed: pip install 'samepath[mcap]'")


def write_mcap(path: Path, header: bytes, frames: FrameFolder, ticks: Sequence[int]) -> None:
    """Write the frames of some ticks, and ``header``, the dataset's own description, as an attachment; whole or not at all."""

    def write(partial: Path) -> None:
        from mcap.writer import Writer

        with partial.open("wb") as stream:
            writer = Writer(stream)
            writer.start(profile="", library=f"samepath {__version__}")
            writer.add_attachment(0, 0, "dataset.json", "application/json", header)
            _write_frames(writer, json.loads(header)["labels"], frames, ticks)
            writer.finish()  # type: ignore[no-untyped-call]

    write_atomically(path, write)


def _write_frames(writer: "Writer", names: dict[str, str], frames: FrameFolder, ticks: Sequence[int]) -> None:
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    for tick in ticks:
        labels = frames.read_labels(tick)
        time_ns = round(labels["time_s"] * 1e9)
        for topic, schema, content in messages_of(labels, names, lambda name, tick=tick: frames.read(tick, name)):  # type: ignore[misc]
            if schema not in schemas:
                schemas[schema] = writer.register_schema(schema, "jsonschema", _json(SCHEMAS[schema]))
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, "json", schemas[schema])
            writer.add_message(channels[topic], time_ns, _json(content), time_ns, tick)


def _json(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def messages_of(labels: Plain, names: Mapping[str, str], read: Callable[[str], bytes]) -> Iterator[McapMessage]:
    """The messages of a frame from its labels and files; ``names`` are the words for labels by number."""
    when = stamp(round(labels["time_s"] * 1e9))
    yield McapMessage("/labels", "samepath.Labels", labels)
    yield McapMessage("/tf", "foxglove.FrameTransforms", {"transforms": list(_transforms(labels, when))})
    yield McapMessage("/objects", "foxglove.SceneUpdate", _boxes(labels, names, when))
    for name, sensor in sorted(labels["sensors"].items()):
        yield from _sensor(f"sensors/{name}", sensor, when, read)
    for name in sorted({sensor["view"] for sensor in labels["sensors"].values() if "view" in sensor}):
        yield McapMessage(f"/sensors/{name}/boxes", "foxglove.ImageAnnotations", _outlines(labels, names, name, when))


def stamp(time_ns: int) -> Plain:
    """A time as Foxglove has it."""
    return {"sec": time_ns // 1_000_000_000, "nsec": time_ns % 1_000_000_000}


def _sensor(name: str, sensor: Plain, when: Plain, read: Callable[[str], bytes]) -> Iterator[McapMessage]:
    """What a sensor measured; ``name`` is that of its frame."""
    kind, file, head = sensor["type"], sensor.get("file"), {"timestamp": when, "frame_id": name}
    if "calibration" in sensor:
        head["frame_id"] = f"{name}/optical"
        yield McapMessage(f"/{name}/calibration", "foxglove.CameraCalibration", {**head, **_calibration(sensor["calibration"])})
    if kind == "sensor.other.gnss":
        yield McapMessage(f"/{name}", "foxglove.LocationFix", {**head, **_fix(sensor)})
    if file is None:
        return
    content = read(file)
    if not file.endswith(".npy"):
        image = {**head, "format": "jpeg" if file.endswith(".jpg") else "png", "data": _text(content)}
        yield McapMessage(f"/{name}", "foxglove.CompressedImage", image)
        return
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if kind in _CLOUDS:
        yield McapMessage(f"/{name}", "foxglove.PointCloud", {**head, **_cloud(_CLOUDS[kind](array))})
    else:
        raw = {"dtype": array.dtype.str, "shape": list(array.shape), "data": _text(array.tobytes())}
        yield McapMessage(f"/{name}", "samepath.Array", {**head, **raw})


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _transforms(labels: Plain, when: Plain) -> Iterator[Plain]:
    yield _transform(when, _WORLD, "ego", _place(labels["ego"]["pose"]))
    for name, sensor in sorted(labels["sensors"].items()):
        yield _transform(when, _WORLD, f"sensors/{name}", _place(sensor["pose"]))
        if "calibration" in sensor:
            turned = {"position": _xyz(0.0, 0.0, 0.0), "orientation": _TO_OPTICAL}
            yield _transform(when, f"sensors/{name}", f"sensors/{name}/optical", turned)


def _transform(when: Plain, parent: str, child: str, place: Plain) -> Plain:
    return {
        "timestamp": when,
        "parent_frame_id": parent,
        "child_frame_id": child,
        "translation": place["position"],
        "rotation": place["orientation"],
    }


def _place(given: Plain) -> Plain:
    """A pose with a right-handed rotation."""
    pose = Pose(**given)
    w, x, y, z = quaternion_of(pose)
    return {"position": _xyz(*mirrored(pose.x_m, pose.y_m, pose.z_m)), "orientation": {**_xyz(x, y, z), "w": w}}


def _xyz(x: float, y: float, z: float) -> Plain:
    return {"x": x, "y": y, "z": z}


def _boxes(labels: Plain, names: Mapping[str, str], when: Plain) -> Plain:
    """All actors as boxes; those of the frame before are replaced."""
    return {
        "deletions": [{"timestamp": when, "type": 1, "id": ""}],
        "entities": [
            {
                "timestamp": when,
                "frame_id": _WORLD,
                "id": str(actor["id"]),
                "lifetime": stamp(0),
                "frame_locked": False,
                "metadata": [{"key": "type", "value": actor["type"]}, {"key": "label", "value": names[str(actor["label"])]}],
                "cubes": [
                    {
                        "pose": _place(actor["box"]["pose"]),
                        "size": _xyz(*(2.0 * half for half in actor["box"]["extent_m"])),
                        "color": _EGO_COLOUR if actor is labels["ego"] else _COLOUR,
                    }
                ],
                **{kind: [] for kind in ("arrows", "spheres", "cylinders", "lines", "triangles", "texts", "models")},
            }
            for actor in (labels["ego"], *labels["objects"])
        ],
    }


def _outlines(labels: Plain, names: Mapping[str, str], camera: str, when: Plain) -> Plain:
    """The rectangles in which objects are seen by a camera, and what they are."""
    points, texts = [], []
    for actor in labels["objects"]:
        box = actor["cameras"].get(camera, {}).get("box_px")
        if box is None:
            continue
        left, top, right, bottom = box
        corners = [{"x": x, "y": y} for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))]
        points.append(
            {
                "timestamp": when,
                "type": _LINE_LOOP,
                "points": corners,
                "outline_color": {**_COLOUR, "a": 1.0},
                "outline_colors": [],
                "fill_color": {**_COLOUR, "a": 0.0},
                "thickness": 1.0,
            }
        )
        texts.append(
            {
                "timestamp": when,
                "position": corners[0],
                "text": f"{names[str(actor['label'])]} {actor['id']}",
                "font_size": 10.0,
                "text_color": {"r": 1.0, "g": 1.0, "b": 1.0, "a": 1.0},
                "background_color": {"r": 0.0, "g": 0.0, "b": 0.0, "a": 0.5},
            }
        )
    return {"circles": [], "points": points, "texts": texts}


def _calibration(lens: Plain) -> Plain:
    """A pinhole; Foxglove counts from the middle of the first pixel, we from its corner."""
    width, height, focal = lens["width_px"], lens["height_px"], lens["focal_px"]
    x, y = width / 2.0 - 0.5, height / 2.0 - 0.5
    return {
        "width": width,
        "height": height,
        "distortion_model": "plumb_bob",
        "D": [0.0] * 5,
        "K": [focal, 0.0, x, 0.0, focal, y, 0.0, 0.0, 1.0],
        "R": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        "P": [focal, 0.0, x, 0.0, 0.0, focal, y, 0.0, 0.0, 0.0, 1.0, 0.0],
    }


def _fix(sensor: Plain) -> Plain:
    return {
        "latitude": sensor["latitude_deg"],
        "longitude": sensor["longitude_deg"],
        "altitude": sensor["altitude_m"],
        "position_covariance": [0.0] * 9,
        "position_covariance_type": 0,
    }


def _lidar(rows: Array) -> Array:
    return _points(rows[:, :3], {"intensity": rows[:, 3]})


def _semantic_lidar(rows: Array) -> Array:
    return _points(rows[:, :3], {"cosine": rows[:, 3], "id": rows[:, 4], "label": rows[:, 5]})


def _radar(rows: Array) -> Array:
    """Where the detections are, beside what the radar measured."""
    velocity, azimuth, altitude, depth = rows.T.astype(np.float64)
    (sin_a, cos_a), (sin_e, cos_e) = (sincos_deg(angle * _DEGREES) for angle in (azimuth, altitude))
    places = np.stack([depth * cos_e * cos_a, depth * cos_e * sin_a, depth * sin_e], axis=-1)
    return _points(places, {"velocity": velocity, "azimuth": azimuth, "altitude": altitude, "depth": depth})


_CLOUDS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "sensor.lidar.ray_cast": _lidar,
    "sensor.lidar.ray_cast_semantic": _semantic_lidar,
    "sensor.other.radar": _radar,
}


def _points(places: Array, beside: Mapping[str, Array]) -> Array:
    """Records of points, mirrored, with what is known beside their places: ids and labels as whole numbers."""
    fields = [*_CLOUD_POINT, *((name, "<u4" if name in ("id", "label") else "<f4") for name in beside)]
    made = np.empty(len(places), np.dtype(fields))
    made["x"], made["y"], made["z"] = places[:, 0], -places[:, 1], places[:, 2]
    for name, values in beside.items():
        made[name] = values
    return made


def _cloud(points: Array) -> Plain:
    kinds = [(name, points.dtype[name]) for name in points.dtype.names or ()]
    offsets = np.cumsum([0, *(kind.itemsize for _, kind in kinds)]).tolist()
    return {
        "pose": {"position": _xyz(0.0, 0.0, 0.0), "orientation": {**_xyz(0.0, 0.0, 0.0), "w": 1.0}},
        "point_stride": points.dtype.itemsize,
        "fields": [
            {"name": name, "offset": offset, "type": _NUMERIC[kind.str]}
            for (name, kind), offset in zip(kinds, offsets, strict=False)
        ],
        "data": _text(points.tobytes()),
    }


# JSON schemas of the messages: those of Foxglove by their names and fields, and two of ours.
_NUMBER: Final[Plain] = {"type": "number"}
_WHOLE: Final[Plain] = {"type": "integer"}
_TEXT: Final[Plain] = {"type": "string"}
_TRUTH: Final[Plain] = {"type": "boolean"}
_BYTES: Final[Plain] = {"type": "string", "contentEncoding": "base64"}


def _object(**fields: Plain) -> Plain:
    return {"type": "object", "properties": fields}


def _list(of: Plain) -> Plain:
    return {"type": "array", "items": of}


_TIME: Final = _object(sec=_WHOLE, nsec=_WHOLE)
_POINT_2: Final = _object(x=_NUMBER, y=_NUMBER)
_VECTOR_3: Final = _object(x=_NUMBER, y=_NUMBER, z=_NUMBER)
_QUATERNION: Final = _object(x=_NUMBER, y=_NUMBER, z=_NUMBER, w=_NUMBER)
_POSE: Final = _object(position=_VECTOR_3, orientation=_QUATERNION)
_COLOUR_SCHEMA: Final = _object(r=_NUMBER, g=_NUMBER, b=_NUMBER, a=_NUMBER)
_HEAD: Final = {"timestamp": _TIME, "frame_id": _TEXT}
_ENTITY: Final = _object(
    **_HEAD,
    id=_TEXT,
    lifetime=_TIME,
    frame_locked=_TRUTH,
    metadata=_list(_object(key=_TEXT, value=_TEXT)),
    cubes=_list(_object(pose=_POSE, size=_VECTOR_3, color=_COLOUR_SCHEMA)),
    **{kind: _list(_object()) for kind in ("arrows", "spheres", "cylinders", "lines", "triangles", "texts", "models")},
)
_OUTLINE: Final = _object(
    timestamp=_TIME,
    type=_WHOLE,
    points=_list(_POINT_2),
    outline_color=_COLOUR_SCHEMA,
    outline_colors=_list(_COLOUR_SCHEMA),
    fill_color=_COLOUR_SCHEMA,
    thickness=_NUMBER,
)
_WORDS: Final = _object(
    timestamp=_TIME,
    position=_POINT_2,
    text=_TEXT,
    font_size=_NUMBER,
    text_color=_COLOUR_SCHEMA,
    background_color=_COLOUR_SCHEMA,
)
_TRANSFORM: Final = _object(
    timestamp=_TIME, parent_frame_id=_TEXT, child_frame_id=_TEXT, translation=_VECTOR_3, rotation=_QUATERNION
)
SCHEMAS: Final[dict[str, Plain]] = {
    "foxglove.CameraCalibration": _object(
        **_HEAD,
        width=_WHOLE,
        height=_WHOLE,
        distortion_model=_TEXT,
        **{name: _list(_NUMBER) for name in ("D", "K", "R", "P")},
    ),
    "foxglove.CompressedImage": _object(**_HEAD, data=_BYTES, format=_TEXT),
    "foxglove.FrameTransforms": _object(transforms=_list(_TRANSFORM)),
    "foxglove.ImageAnnotations": _object(circles=_list(_object()), points=_list(_OUTLINE), texts=_list(_WORDS)),
    "foxglove.LocationFix": _object(
        **_HEAD,
        latitude=_NUMBER,
        longitude=_NUMBER,
        altitude=_NUMBER,
        position_covariance=_list(_NUMBER),
        position_covariance_type=_WHOLE,
    ),
    "foxglove.PointCloud": _object(
        **_HEAD,
        pose=_POSE,
        point_stride=_WHOLE,
        fields=_list(_object(name=_TEXT, offset=_WHOLE, type=_WHOLE)),
        data=_BYTES,
    ),
    "foxglove.SceneUpdate": _object(deletions=_list(_object(timestamp=_TIME, type=_WHOLE, id=_TEXT)), entities=_list(_ENTITY)),
    # An array as numpy has it, for what no viewer draws.
    "samepath.Array": _object(**_HEAD, dtype=_TEXT, shape=_list(_WHOLE), data=_BYTES),
    # labels.json of the folder, as the documentation of datasets describes it.
    "samepath.Labels": _object(tick=_WHOLE, time_s=_NUMBER, ego=_object(), sensors=_object(), objects=_list(_object())),
}
