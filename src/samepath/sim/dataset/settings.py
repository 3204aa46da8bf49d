"""What a dataset is asked to be: checked at birth, written into it, and compared when a recording goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from samepath import __version__
from samepath.base.errors import InputError
from samepath.base.suggest import unknown
from samepath.sim.dataset.files import FORMATS, IMAGES
from samepath.sim.scenarios.model import ScenarioSpec
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.renderer import check_renderer
from samepath.sim.sensors.rig import Rig
from samepath.sim.sensors.weather import Weather

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
    weather: Weather = field(default_factory=Weather)
    renderer: str = "software"
    drawn_by: Mapping[str, str] = field(default_factory=dict)
    """What pictures depend on beside all this, once the renderer is there: see :meth:`.suite.Suite.drawn_by`."""

    def __post_init__(self) -> None:
        if not 1 <= self.every <= 1_000_000:
            raise InputError(f"every: a whole number of ticks from 1 to 1000000 was wanted, but {self.every} came")
        if self.most is not None and self.most < 1:
            raise InputError(f"frames: a whole number of at least 1 was wanted, but {self.most} came")
        if self.images not in IMAGES:
            raise InputError(f"images: {' or '.join(IMAGES)} was wanted, but {self.images!r} came")
        if self.format not in FORMATS:
            raise InputError(f"format: {' or '.join(FORMATS)} was wanted, but {self.format!r} came")

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
            "weather": {one.name: getattr(self.weather, one.name) for one in fields(self.weather)},
            "labels": {str(int(label)): label.name.lower().replace("_", "-") for label in Label},
        }


def weather_of(given: Mapping[str, str]) -> Weather:
    """Read weather from names and texts, as a command line has them."""
    known = {one.name for one in fields(Weather)}
    values = {}
    for name, text in given.items():
        if name not in known:
            raise unknown("weather parameter", name, known)
        try:
            values[name] = float(text)
        except ValueError:
            raise InputError(f"weather: a number was wanted for {name}, but {text!r} came") from None
    return Weather(**values)
