"""Types of actors as plain data: by name where the catalogue knows them, field by field where they were changed."""

from dataclasses import asdict
from typing import Any, Final

from samepath.sim.world.catalogue import CATALOGUE, ActorType, Engine, PropType, VehicleType, WalkerType, WheelFit, actor_type

_CLASSES: Final[dict[str, type[ActorType]]] = {one.__name__: one for one in (VehicleType, WalkerType, PropType)}


def type_to(kind: ActorType) -> str | list[Any]:
    """Return a type as data that :func:`type_from` reads."""
    if CATALOGUE.get(kind.name) == kind:
        return kind.name
    return [type(kind).__name__, asdict(kind)]


def type_from(data: str | list[Any]) -> ActorType:
    """Read what :func:`type_to` wrote, also after it went through JSON."""
    if isinstance(data, str):
        return actor_type(data)
    name, fields = data
    if name != "VehicleType":
        return _CLASSES[name](**fields)
    plain = {key: _tuples(value) for key, value in fields.items() if key not in ("engine", "wheels")}
    engine = Engine(**{key: _tuples(value) for key, value in fields["engine"].items()})
    return VehicleType(**plain, engine=engine, wheels=tuple(WheelFit(**one) for one in fields["wheels"]))


def _tuples(value: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value
