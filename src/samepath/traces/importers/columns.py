"""Which column is what: names people use, units in headers, and the user's own mapping."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.base.suggest import nearest
from samepath.base.units import ANGLE_UNITS_DEG, DURATION_UNITS_S, LENGTH_UNITS_M, SPEED_UNITS_MPS
from samepath.base.words import printable
from samepath.traces.channels import POSITION, ROTATION, STANDARD, VELOCITY

Number = TypeVar("Number", float, NDArray[np.float64])

KEYS: Final = ("cell", "repeat", "actor", "actor_type", "tick", "time_s")

# Names seen in logs, without unit, lower case. The first entry of each is ours.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cell": ("cell",),
    "repeat": ("repeat", "repeatno", "repeat_no", "repeat_id", "run", "run_id", "runno", "run_no", "episode"),
    "actor": (
        "actor",
        "agentno",
        "actor_id",
        "agent",
        "agent_id",
        "agentid",
        "vehicle_id",
        "track_id",
        "object_id",
        "id",
    ),
    "actor_type": ("actor_type", "agenttype", "agent_type", "type", "type_id", "class", "object_type"),
    "tick": ("tick", "frame", "step", "frame_id", "frame_number"),
    "time_s": ("time", "t", "sim_time", "simtime", "simulation_time", "timestamp", "elapsed"),
    "x_m": ("x", "pos_x", "position_x", "location_x", "px", "x_pos"),
    "y_m": ("y", "pos_y", "position_y", "location_y", "py", "y_pos"),
    "z_m": ("z", "pos_z", "position_z", "location_z", "pz", "z_pos"),
    "roll_deg": ("roll",),
    "pitch_deg": ("pitch",),
    "yaw_deg": ("yaw", "heading"),
    "vx_mps": ("vx", "velocity_x", "vel_x"),
    "vy_mps": ("vy", "velocity_y", "vel_y"),
    "vz_mps": ("vz", "velocity_z", "vel_z"),
}
_UNIT: Final = re.compile(r"(?P<name>.*?)(?:\s*[\[(]\s*(?P<bracket>[^\])]*)\s*[\])]|[_ ](?P<suffix>[A-Za-zµ/]+\d?))?$")
_GROUPS: Final = (("position", POSITION), ("rotation", ROTATION), ("velocity", VELOCITY))


@dataclass(frozen=True)
class Column:
    """A column of the log and the factor that brings it to our unit."""

    name: str
    factor: float = 1.0
    unit: str = ""

    def scaled(self, values: Number) -> Number:
        """Bring values, a number or an array, to our unit.

        Dividing keeps a decimal grid (1234 cm is 12.34 m to the last bit), multiplying by 0.01 does not.
        """
        if self.factor == 1.0:
            return values
        inverse = round(1 / self.factor)
        return values / inverse if self.factor < 1 and abs(1 / self.factor - inverse) < 1e-6 else values * self.factor


def _units_for(target: str) -> Mapping[str, float]:
    if target in POSITION:
        return LENGTH_UNITS_M
    if target in ROTATION:
        return ANGLE_UNITS_DEG
    if target in VELOCITY:
        return SPEED_UNITS_MPS
    return DURATION_UNITS_S if target == "time_s" else {}


def split_unit(header: str, units: Mapping[str, float]) -> tuple[str, str | None]:
    """Split ``x[cm]``, ``x (cm)`` or ``x_cm`` into the name and the unit; the unit is None if there is none of ``units``."""
    match = _UNIT.match(header.strip())
    if match is None:
        return header.strip(), None
    bracket, suffix = match["bracket"], match["suffix"]
    if bracket is not None:
        return match["name"].strip(), bracket.strip()
    if suffix is not None and suffix in units:
        return match["name"].strip(), suffix
    return header.strip(), None


def map_columns(names: list[str], wanted: Mapping[str, str], where: str) -> dict[str, Column]:
    """Find the column of every key and channel; ``wanted`` is the user's mapping and wins."""
    found: dict[str, Column] = {}
    for target, header in wanted.items():
        found[_target(target, where)] = _chosen(_target(target, where), header, names, where)
    taken = {column.name for column in found.values()}
    for target, synonyms in _SYNONYMS.items():
        if target in found:
            continue
        units = _units_for(target)
        for synonym in synonyms:
            hits = [name for name in names if name not in taken and _is_called(name, synonym, units)]
            if hits:
                found[target] = _with_unit(target, hits[0], where)
                taken.add(hits[0])
                break
    for name in names:
        if name in STANDARD and name not in taken and name not in found:
            found[name] = Column(name)
    _check(found, names, where)
    return found


def _is_called(header: str, synonym: str, units: Mapping[str, float]) -> bool:
    return split_unit(header, units)[0].lower() == synonym or header.lower() == synonym


def _target(text: str, where: str) -> str:
    """Accept ``x`` for ``x_m`` and the like."""
    for target, synonyms in _SYNONYMS.items():
        if text == target or text == synonyms[0]:
            return target
    if text in STANDARD or re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+", text):
        return text
    hint = nearest(text, [*_SYNONYMS, *STANDARD])
    meant = f" did you mean {hint!r}?" if hint else ""
    raise InputError(
        f"{where}: a key or a channel ending in its unit was wanted on the left of --map, but {text!r} came.{meant}"
    )


def _chosen(target: str, header: str, names: list[str], where: str) -> Column:
    units = _units_for(target)
    name, unit = (header, None) if header in names else split_unit(header, units)
    if name not in names:
        hint = nearest(name, names)
        meant = f" did you mean {hint!r}?" if hint else ""
        raise InputError(f"{where}: no column {name!r} for {target}:{meant} there are: {printable(', '.join(names))}")
    return Column(name, _factor(target, unit, name, where), unit or "") if unit else _with_unit(target, name, where)


def _with_unit(target: str, name: str, where: str) -> Column:
    unit = split_unit(name, _units_for(target))[1]
    return Column(name, _factor(target, unit, name, where), unit or "")


def _factor(target: str, unit: str | None, name: str, where: str) -> float:
    units = _units_for(target)
    if unit is None or not units:
        return 1.0
    if unit not in units:
        raise InputError(f"{where}: column {name!r} has the unit {unit!r}, but {target} takes {', '.join(units)}")
    return units[unit]


def _check(found: Mapping[str, Column], names: list[str], where: str) -> None:
    missing = [target for target in ("x_m", "y_m") if target not in found]
    if "tick" not in found and "time_s" not in found:
        missing.append("time_s or tick")
    if missing:
        example = missing[0].split()[0]
        raise InputError(
            f"{where}: no column for {', '.join(missing)} among: {printable(', '.join(names))}; "
            f"name it with --map {example}=COLUMN"
        )
    for kind, group in _GROUPS:
        units = {target: found[target].unit for target in group if target in found}
        if len(set(units.values())) > 1:
            listed = ", ".join(f"{found[target].name!r} in {unit or 'no unit'}" for target, unit in units.items())
            raise InputError(f"{where}: mixed units of {kind}: {listed}; give every one its unit, as in --map x=COLUMN[cm]")
