"""What a dataset is asked to be, and how measurements become files: pictures as PNG or JPEG, points as .npy.

A frame is a folder that is renamed into place when all of it is written: it is whole or not there at all, also after a crash,
and a recording that is taken up again writes only the frames that are missing. What was asked for is written into the dataset
and compared when a recording goes on: frames of two different settings never lie in one folder.
"""

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath import __version__
from samepath.core.errors import InputError, StoreError, unknown
from samepath.core.files import make_folder, regular, sync_folder
from samepath.scenarios.model import ScenarioSpec
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.renderer import check_renderer
from samepath.simulator.sensors.rig import Rig
from samepath.simulator.sensors.weather import SceneWeather

JPEG_QUALITY: Final = 95
_PNG_LEVEL: Final = 3
FRAMES: Final = "frames"
LABELS: Final = "labels.json"
Array = NDArray[Any]
IMAGES: Final = ("png", "jpeg")
"""How pictures of colour may be written; what holds numbers is never lossy."""

FORMATS: Final = ("files", "mcap", "coco", "kitti")
"""A folder per frame, one MCAP file, or the layouts of COCO and KITTI, see ``runs.py``."""

LAYOUT: Final = 1
"""The version of the files' layout."""


@dataclass(frozen=True)
class RecordSettings:
    """A scenario, who looks at it, and which of its ticks become frames: every ``every``-th, ``most`` of them at most."""

    scenario: ScenarioSpec
    rig: Rig
    every: int = 10
    most: int | None = None
    seed: int = 0
    images: str = "png"
    format: str = "files"
    weather: SceneWeather = field(default_factory=SceneWeather)
    weather_felt: bool = False
    renderer: str = "software"
    masks: bool = False
    """Does a frame also keep the image of instances behind every view?"""
    drawn_by: Mapping[str, str] = field(default_factory=dict)
    """What pictures depend on beside all this, once the renderer is there: see :attr:`.rig.SensorSuite.drawn_by`."""

    def __post_init__(self) -> None:
        if not 1 <= self.every <= 1_000_000:
            raise InputError(f"every: a whole number of ticks from 1 to 1000000 was wanted, but {self.every} came")
        if self.most is not None and self.most < 1:
            raise InputError(f"frames: a whole number of at least 1 was wanted, but {self.most} came")
        if self.images not in IMAGES:
            raise InputError(f"images: {' or '.join(IMAGES)} was wanted, but {self.images!r} came")
        if self.format not in FORMATS:
            raise InputError(f"format: {', '.join(FORMATS[:-1])} or {FORMATS[-1]} was wanted, but {self.format!r} came")
        check_renderer(self.renderer)

    @property
    def frames_most(self) -> int:
        """How many frames there can be; a scenario may end before its time is over."""
        frames = self.scenario.ticks // self.every
        return frames if self.most is None else min(frames, self.most)

    def as_object(self) -> dict[str, Any]:
        """Plain data: all that the bytes of a dataset depend on."""
        return {
            "layout": LAYOUT,
            "samepath": __version__,
            "scenario": self.scenario.model_dump(mode="json"),
            "rig": self.rig.model_dump(mode="json"),
            "every_ticks": self.every,
            "frames_most": self.most,
            "seed": self.seed,
            "images": self.images,
            "format": self.format,
            "renderer": {"name": self.renderer, **self.drawn_by},
            "step_s": self.scenario.step,
            "weather": {parameter.name: getattr(self.weather, parameter.name) for parameter in fields(self.weather)},
            **({"weather_felt": True} if self.weather_felt else {}),
            **({"masks": True} if self.masks else {}),
            "labels": {str(int(label)): label.name.lower().replace("_", "-") for label in Label},
        }


def weather_of(given: Mapping[str, str]) -> SceneWeather:
    """Read weather from names and texts, as a command line has them."""
    known = {parameter.name for parameter in fields(SceneWeather)}
    values = {}
    for name, text in given.items():
        if name not in known:
            raise unknown("weather parameter", name, known)
        try:
            values[name] = float(text)
        except ValueError:
            raise InputError(f"weather: a number was wanted for {name}, but {text!r} came") from None
    return SceneWeather(**values)


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
    if file.endswith(".npy"):
        return array_file(values)
    sink = io.BytesIO()
    from PIL import Image

    picture = Image.fromarray(_PICTURES[kind](values))
    if file.endswith(".jpg"):
        # Colours as fine as brightness: halved, they would bleed over the edges that labels are about.
        picture.save(sink, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        picture.save(sink, "PNG", compress_level=_PNG_LEVEL)
    return sink.getvalue()


def array_file(values: Array) -> bytes:
    """The bytes of a file of numbers."""
    sink = io.BytesIO()
    np.save(sink, values, allow_pickle=False)
    return sink.getvalue()


def masks_file(view: str) -> str:
    """The file of a frame that keeps a view's image of instances until masks are made of it."""
    return f"{view}.masks.npy"


def json_of(data: object) -> bytes:
    """Plain data as text, always the same for the same data."""
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class LayoutFrame:
    """A frame that is there, for those who write it in another layout: which run, which tick, what is true of it."""

    run: int
    tick: int
    labels: Mapping[str, Any]
    folder: "FrameFolder"

    def read(self, name: str) -> bytes:
        """A file of the frame."""
        return self.folder.read(self.tick, name)


class FrameFolder:
    """The frames of a dataset: folders named by their tick. A frame is renamed into place when all of it is written."""

    def __init__(self, dataset: Path) -> None:
        self.folder = make_folder(dataset / FRAMES)
        # What a crash left half written; nobody else writes here, a dataset has one recorder.
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
            return regular(path).read_bytes()
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error}): delete {path.parent} and record again") from error

    def read_labels(self, tick: int) -> dict[str, Any]:
        """The labels of a frame that is there."""
        path = self.folder / self.name(tick) / LABELS
        try:
            found: dict[str, Any] = json.loads(regular(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): delete {path.parent} and record again") from error
        return found

    def remove(self) -> None:
        """Take all frames away, once they are kept elsewhere."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def sync(self) -> None:
        """Flush the folder, so that renames survive a power cut."""
        sync_folder(self.folder)
