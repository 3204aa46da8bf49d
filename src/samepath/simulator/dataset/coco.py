"""Datasets as COCO has them: pictures in one folder, and one JSON file with a box and a mask for everybody who is seen.

Masks are the pixels of the image of instances, so nothing is drawn by hand and nothing is guessed: they are run-length encoded
by COCO's own library (pycocotools), which also works out areas and boxes. Categories have CARLA's numbers. No date is written:
equal recordings are equal files.
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
from samepath.core.errors import InputError
from samepath.core.files import make_folder, write_atomically
from samepath.simulator.dataset.files import LayoutFrame, masks_file
from samepath.simulator.sensors.ground_truth import INSTANCES
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.rig import Rig

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
