"""Rigs: which sensors an actor carries, where, and with which attributes; YAML in, a checked record out."""

import math
import re
from importlib import resources
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from samepath.base.documents import read_yaml, validate
from samepath.base.errors import InputError
from samepath.base.suggest import nearest, unknown
from samepath.sim.sensors.kinds import KINDS
from samepath.sim.world.records import Pose

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FARTHEST_M: Final = 100.0
Value = bool | int | float | str


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MountedSensor(_Model):
    """A sensor: CARLA's type and attributes, and where it sits on the actor that bears it.

    ``at`` is x forward, y right, z up in metres from the actor's origin, for vehicles the ground under their middle.
    """

    name: str
    type: str
    at: tuple[float, float, float] = (0.0, 0.0, 0.0)
    roll: float = Field(default=0.0, ge=-360, le=360)
    pitch: float = Field(default=0.0, ge=-90, le=90)
    yaw: float = Field(default=0.0, ge=-360, le=360)
    attributes: dict[str, Value] = {}

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a name of small letters, digits, - and _ was wanted, but {name!r} came")
        return name

    @model_validator(mode="after")
    def _check(self) -> "MountedSensor":
        if self.type not in KINDS:
            hint = nearest(self.type, KINDS)
            known = f"did you mean {hint!r}?" if hint else f"known: {', '.join(KINDS)}"
            raise ValueError(f"unknown type of sensor {self.type!r}; {known}")
        if not all(math.isfinite(one) and abs(one) <= _FARTHEST_M for one in self.at):
            raise ValueError(f"at: a place within {_FARTHEST_M:g} m of the actor was wanted, but {list(self.at)} came")
        try:
            KINDS[self.type](self.attributes)
        except InputError as error:
            raise InputError(f"sensor {self.name!r}: {error}") from error
        return self

    @property
    def pose(self) -> Pose:
        """Where it sits."""
        return Pose(*self.at, self.roll, self.pitch, self.yaw)


class Rig(_Model):
    """Sensors, and the actor that bears them; without one, the first vehicle."""

    name: str
    description: str = ""
    actor: int | None = Field(default=None, ge=1)
    sensors: tuple[MountedSensor, ...] = Field(min_length=1, max_length=256)

    @model_validator(mode="after")
    def _check(self) -> "Rig":
        names = [one.name for one in self.sensors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"sensors must have names of their own, but {', '.join(twice)} is there twice")
        return self


def built_in_rigs() -> dict[str, str]:
    """Return the rigs that come with samepath: name -> YAML text."""
    folder = resources.files("samepath.sim.sensors") / "rigs"
    found = {one.name.removesuffix(".yaml"): one.read_text("utf-8") for one in folder.iterdir() if one.name.endswith(".yaml")}
    return dict(sorted(found.items()))


def load_rig(name_or_path: str) -> Rig:
    """Read a built-in rig or a file."""
    known = built_in_rigs()
    if name_or_path in known:
        return parse_rig(known[name_or_path], f"rig {name_or_path}")
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise unknown("rig", name_or_path, known)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse_rig(text, str(path))


def parse_rig(text: str, where: str) -> Rig:
    """Check a rig's text."""
    return validate(Rig, read_yaml(text, where, "rig", Rig.model_fields), where, _model_at)


def _model_at(location: list[str | int]) -> type[BaseModel]:
    return MountedSensor if len(location) > 1 and location[0] == "sensors" else Rig
