"""Datasets in the layouts that others read: COCO's, and that of KITTI's benchmark of objects.

Datasets as COCO has them: pictures in one folder, and one JSON file with a box and a mask for everybody who is seen.

Masks are the pixels of the image of instances, so nothing is drawn by hand and nothing is guessed: they are run-length encoded
by COCO's own library (pycocotools), which also works out areas and boxes. Categories have CARLA's numbers. No date is written:
equal recordings are equal files.

Datasets as KITTI's benchmark of objects has them: pictures, scans, calibration and labels of each frame under one number.

Its axes are right-handed: a scan has x forward, y left, z up; a camera x right, y down, z along the optical axis, and its
picture counts pixels from the middle of the first one. A label is that of the development kit of the benchmark: type,
truncation, occlusion, alpha, the box in the picture, height, width and length, the middle of the underside before the camera,
and the turn about the camera's y axis. Nobody keeps a library for the format; it is plain text and float32.
"""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath import __version__
from samepath.core.catalogue import actor_type
from samepath.core.errors import InputError
from samepath.core.files import make_folder, write_atomically
from samepath.core.states import Pose
from samepath.core.trig import PI, atan2
from samepath.simulator.dataset.files import LayoutFrame, masks_file
from samepath.simulator.physics.frames import Triple, point_from, point_to
from samepath.simulator.sensors.ground_truth import INSTANCES
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.rig import MountedSensor, Rig

Plain = dict[str, Any]

IMAGES: Final = "images"
ANNOTATIONS: Final = "annotations/instances.json"
COLOUR: Final = "sensor.camera.rgb"
_VEHICLES: Final = (Label.CAR, Label.TRUCK, Label.BUS, Label.TRAIN, Label.MOTORCYCLE, Label.BICYCLE)
_CATEGORIES: Final = (
    {"id": int(Label.PEDESTRIANS), "name": "person", "supercategory": "person"},
    *({"id": int(label), "name": label.name.lower(), "supercategory": "vehicle"} for label in _VEHICLES),
    {"id": int(Label.DYNAMIC), "name": "object", "supercategory": "object"},
)


def require_coco(rig: Rig) -> None:
    """Say in one line what is missing, before anything is recorded."""
    if find_spec("pycocotools") is None:
        raise InputError("--format coco needs the library pycocotools, which is not installed: pip install 'samepath[coco]'")
    if not any(sensor.type == COLOUR for sensor in rig.sensors):
        raise InputError(f"--format coco: a rig with a {COLOUR} was wanted, but {rig.name} has none: choose another --rig")


def write_coco(folder: Path, frames: Sequence[LayoutFrame], about: str) -> None:
    """Write pictures and annotations; the latter come last, so that a dataset with them is whole."""
    images = make_folder(folder / IMAGES)
    listed: list[Plain] = []
    found: list[Plain] = []
    for frame in frames:
        for name, sensor in _cameras(frame):
            suffix = Path(sensor["file"]).suffix
            file = f"{frame.run:03d}-{frame.tick:06d}-{name}{suffix}"
            (images / file).write_bytes(frame.read(sensor["file"]))
            image = _image(len(listed) + 1, file, frame, name, sensor["calibration"])
            listed.append(image)
            for annotation in _annotations(frame, sensor["view"]):
                found.append({"id": len(found) + 1, "image_id": image["id"], **annotation})
    content = {
        "info": {"description": about, "version": __version__, "contributor": "samepath"},
        "licenses": [],
        "categories": list(_CATEGORIES),
        "images": listed,
        "annotations": found,
    }
    path = folder / ANNOTATIONS
    make_folder(path.parent)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    write_atomically(path, lambda partial: _write(partial, text))


def _cameras(frame: LayoutFrame) -> Iterator[tuple[str, Plain]]:
    """The colour cameras that measured at this frame, by name."""
    return iter([(name, sensor) for name, sensor in sorted(frame.labels["sensors"].items()) if sensor["type"] == COLOUR])


def _image(number: int, file: str, frame: LayoutFrame, camera: str, calibration: Plain) -> Plain:
    return {
        "id": number,
        "file_name": file,
        "width": calibration["width_px"],
        "height": calibration["height_px"],
        # Beyond COCO's own keys: where it comes from, and how the camera sees.
        "run": frame.run,
        "tick": frame.tick,
        "time_s": frame.labels["time_s"],
        "camera": camera,
        "focal_px": calibration["focal_px"],
    }


def _annotations(frame: LayoutFrame, view: str) -> Iterable[Plain]:
    """Everybody who is seen in a view, by id."""
    from pycocotools import mask as coco_mask

    instances: NDArray[np.uint16] = np.load(io.BytesIO(frame.read(masks_file(view))), allow_pickle=False)
    known = {category["id"] for category in _CATEGORIES}
    for actor in frame.labels["objects"]:
        seen = actor["cameras"].get(view)
        if seen is None or seen["box_px"] is None:
            continue
        encoded = coco_mask.encode(np.asfortranarray(instances == actor["id"] % INSTANCES, np.uint8))
        yield {
            "category_id": actor["label"] if actor["label"] in known else int(Label.DYNAMIC),
            "bbox": [float(value) for value in coco_mask.toBbox(encoded)],
            "area": int(coco_mask.area(encoded)),
            "segmentation": {"size": list(map(int, encoded["size"])), "counts": encoded["counts"].decode("ascii")},
            "iscrowd": 0,
            "actor_id": actor["id"],
            "actor_type": actor["type"],
            "occluded_ratio": seen["occluded_ratio"],
            "truncated_ratio": seen["truncated_ratio"],
        }


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")


Array = NDArray[Any]

TRAINING: Final = "training"
SETS: Final = "ImageSets/train.txt"
LIDAR: Final = "sensor.lidar.ray_cast"
# Of the names that KITTI has. It has neither buses nor motorcycles.
_TYPES: Final = {"car": "Car", "van": "Van", "truck": "Truck", "walker": "Pedestrian", "bicycle": "Cyclist"}
# How much of somebody must be hidden to count as partly and as largely occluded.
_PARTLY, _LARGELY = 0.1, 0.5


def require_kitti(rig: Rig, images: str) -> None:
    """Say in one line what is missing, before anything is recorded."""
    for kind in (COLOUR, LIDAR):
        if not any(sensor.type == kind for sensor in rig.sensors):
            raise InputError(f"--format kitti: a rig with a {kind} was wanted, but {rig.name} has none: choose another --rig")
    if images != "png":
        raise InputError(f"--format kitti: pictures as png were wanted, but {images} came: leave out --images")


def write_kitti(folder: Path, rig: Rig, frames: Sequence[LayoutFrame]) -> list[Plain]:
    """Write the frames in which both the first colour camera and the first LiDAR of the rig measured, numbered from 0.

    Returns what each number stands for.
    """
    camera, lidar = first(rig, COLOUR).name, first(rig, LIDAR).name
    place = folder / TRAINING
    for part in ("image_2", "velodyne", "calib", "label_2"):
        make_folder(place / part)
    written: list[Plain] = []
    for frame in frames:
        sensors = frame.labels["sensors"]
        if camera not in sensors or lidar not in sensors:
            continue
        number = f"{len(written):06d}"
        written.append({"number": number, "run": frame.run, "tick": frame.tick, "time_s": frame.labels["time_s"]})
        seen, scanned = sensors[camera], sensors[lidar]
        (place / "image_2" / f"{number}.png").write_bytes(frame.read(seen["file"]))
        points = np.load(io.BytesIO(frame.read(scanned["file"])), allow_pickle=False)
        (place / "velodyne" / f"{number}.bin").write_bytes(scan_bytes(points))
        (place / "calib" / f"{number}.txt").write_text(calibration(seen, scanned), encoding="ascii")
        (place / "label_2" / f"{number}.txt").write_text(labels(frame.labels["objects"], seen["view"]), encoding="ascii")
    if not written:
        raise InputError(f"--format kitti: frames of {camera} and {lidar} together were wanted, but no tick has both")
    make_folder((folder / SETS).parent)
    (folder / SETS).write_text("".join(f"{frame['number']}\n" for frame in written), encoding="ascii")
    return written


def first(rig: Rig, kind: str) -> MountedSensor:
    """The first sensor of a kind."""
    return next(sensor for sensor in rig.sensors if sensor.type == kind)


def scan_bytes(points: Array) -> bytes:
    """x, y, z and intensity of each point; y points left."""
    mirrored = np.array(points, "<f4")
    mirrored[:, 1] = -mirrored[:, 1]
    return mirrored.tobytes()


def calibration(camera: Plain, lidar: Plain) -> str:
    """The calibration of a frame: what projects a point before the camera, and where the LiDAR is from there."""
    size = camera["calibration"]
    focal, column, row = size["focal_px"], size["width_px"] / 2 - 0.5, size["height_px"] / 2 - 0.5
    projection = [focal, 0.0, column, 0.0, 0.0, focal, row, 0.0, 0.0, 0.0, 1.0, 0.0]
    rows = {f"P{number}": projection for number in range(4)}
    rows["R0_rect"] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    rows["Tr_velo_to_cam"] = _to_camera(Pose(**lidar["pose"]), Pose(**camera["pose"]))
    # The inertial sensor of KITTI's car is not in it: the LiDAR's place stands for it.
    rows["Tr_imu_to_velo"] = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    return "".join(f"{name}: {' '.join(f'{value:.12e}' for value in values)}\n" for name, values in rows.items())


def _to_camera(lidar: Pose, camera: Pose) -> list[float]:
    """The matrix of three rows that takes a point of a scan before the camera."""
    units = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    middle, *axes = (_optical(point_to(camera, point_from(lidar, (x, -y, z)))) for x, y, z in units)
    return [value for row in range(3) for value in (*(axis[row] - middle[row] for axis in axes), middle[row])]


def _optical(point: Triple) -> Triple:
    """A point before a camera of ours (forward, right, up) as KITTI has it: right, down, forward."""
    x, y, z = point
    return y, -z, x


def labels(objects: Sequence[Plain], view: str) -> str:
    """A line for everybody who is seen."""
    lines = []
    for actor in objects:
        seen = actor["cameras"].get(view)
        if seen is not None and seen["box_px"] is not None:
            lines.append(label_line(actor, seen))
    return "".join(f"{line}\n" for line in lines)


def label_line(actor: Plain, seen: Plain) -> str:
    """A line of the development kit."""
    corners = [_optical(tuple(corner)) for corner in seen["corners_m"]]
    # The lower four, clockwise from the rear left: their middle is that of the underside, ahead is from the rear to the front.
    x, y, z = (sum(corner[part] for corner in corners[:4]) / 4.0 for part in range(3))
    ahead = [corners[1][part] + corners[2][part] - corners[0][part] - corners[3][part] for part in range(3)]
    turn = atan2(-ahead[2], ahead[0])
    alpha = _turned(turn - atan2(x, z))
    left, top, right, bottom = seen["box_px"]
    length, width, height = (2.0 * half for half in actor["box"]["extent_m"])
    # Who reaches behind the camera is cut off as far as can be.
    cut = 1.0 if seen["truncated_ratio"] is None else seen["truncated_ratio"]
    hidden = 0 if seen["occluded_ratio"] <= _PARTLY else 1 if seen["occluded_ratio"] <= _LARGELY else 2
    kind = _TYPES.get(actor_type(actor["type"]).kind, "Misc")
    numbers = (alpha, left, top, right - 1, bottom - 1, height, width, length, x, y, z, turn)
    return f"{kind} {cut:.2f} {hidden} {' '.join(f'{number:.4f}' for number in numbers)}"


def _turned(angle_rad: float) -> float:
    """The same direction as an angle from -pi to pi."""
    if angle_rad > PI:
        return angle_rad - 2.0 * PI
    return angle_rad + 2.0 * PI if angle_rad < -PI else angle_rad
