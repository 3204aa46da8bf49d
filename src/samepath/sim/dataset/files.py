"""How measurements become files: pictures as PNG or JPEG, points as .npy; and frames that are whole or not there at all."""

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import StoreError
from samepath.base.files import make_folder, sync_folder

JPEG_QUALITY: Final = 95
_PNG_LEVEL: Final = 3
FRAMES: Final = "frames"
LABELS: Final = "labels.json"
Array = NDArray[Any]
IMAGES: Final = ("png", "jpeg")
"""How pictures of colour may be written; what holds numbers is never lossy."""
FORMATS: Final = ("files", "mcap")
"""A folder per frame, or one MCAP file."""


def _rgb(bgra: Array) -> Array:
    return np.ascontiguousarray(bgra[..., 2::-1])


def _first(bgra: Array) -> Array:
    """The label: CARLA has it in red."""
    return np.ascontiguousarray(bgra[..., 2])


_PICTURES: Final[Mapping[str, Callable[[Array], Array]]] = MappingProxyType(
    {
        "sensor.camera.rgb": _rgb,
        "sensor.camera.depth": _rgb,
        "sensor.camera.normals": _rgb,
        "sensor.camera.instance_segmentation": _rgb,
        "sensor.camera.semantic_segmentation": _first,
    }
)
_LISTED: Final = frozenset({"sensor.other.imu", "sensor.other.gnss", "sensor.other.obstacle"})
"""Few numbers: they stand in the labels and need no file."""


def file_of(kind: str, name: str, images: str) -> str | None:
    """The file a sensor's measurement goes into; None for those whose numbers stand in the labels."""
    if kind in _LISTED:
        return None
    if kind not in _PICTURES:
        return f"{name}.npy"
    return f"{name}.{'jpg' if images == 'jpeg' and kind == 'sensor.camera.rgb' else 'png'}"


def content_of(kind: str, values: Array, file: str) -> bytes:
    """The bytes of such a file."""
    sink = io.BytesIO()
    if file.endswith(".npy"):
        np.save(sink, values, allow_pickle=False)
        return sink.getvalue()
    from PIL import Image

    picture = Image.fromarray(_PICTURES[kind](values))
    if file.endswith(".jpg"):
        picture.save(sink, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        picture.save(sink, "PNG", compress_level=_PNG_LEVEL)
    return sink.getvalue()


def json_of(data: object) -> bytes:
    """Plain data as text, always the same for the same data."""
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n").encode()


class FrameFolder:
    """The frames of a dataset: folders named by their tick. A frame is renamed into place when all of it is written."""

    def __init__(self, dataset: Path) -> None:
        self.folder = make_folder(dataset / FRAMES)
        for left in self.folder.glob(".*.partial"):
            shutil.rmtree(left, ignore_errors=True)

    @staticmethod
    def name(tick: int) -> str:
        """The folder of a frame."""
        return f"{tick:06d}"

    def done(self) -> frozenset[int]:
        """The ticks of the frames that are there."""
        return frozenset(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())

    def write(self, tick: int, files: Mapping[str, bytes]) -> None:
        """Write a frame, whole or not at all."""
        partial, final = self.folder / f".{self.name(tick)}.partial", self.folder / self.name(tick)
        try:
            partial.mkdir()
            for name, content in files.items():
                (partial / name).write_bytes(content)
            partial.rename(final)
        except OSError as error:
            raise StoreError(f"{final} could not be written: {error.strerror or error}; frames before it are whole") from error
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(partial, ignore_errors=True)

    def read(self, tick: int, name: str) -> bytes:
        """A file of a frame that is there."""
        path = self.folder / self.name(tick) / Path(name).name
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error}): delete {path.parent} and record again") from error

    def read_labels(self, tick: int) -> dict[str, Any]:
        """The labels of a frame that is there."""
        path = self.folder / self.name(tick) / LABELS
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): delete {path.parent} and record again") from error
        return found

    def remove(self) -> None:
        """Take all frames away, once they are kept elsewhere."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def sync(self) -> None:
        """Flush the folder, so that renames survive a power cut."""
        sync_folder(self.folder)
