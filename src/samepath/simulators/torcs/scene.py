"""A race in TORCS's terms: its race file, and an engine file that names our module instead of TORCS's physics.

TORCS has no world of ours: the nearest to two cars that meet is two of its drivers who start together and want the same line.
"""

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from samepath.simulators.torcs.settings import RaceDriver, TorcsSettings

SCENARIO: Final = "two-car-race"
MODULE: Final = "telling"
# The starting grid that TORCS's own quick race has.
_GRID: Final[Mapping[str, float]] = {
    "rows": 2.0,
    "distance to start": 25.0,
    "distance between columns": 20.0,
    "offset within a column": 10.0,
    "initial speed": 0.0,
    "initial height": 0.2,
}
_NAME: Final = "Quick Race"


def race_xml(settings: TorcsSettings, category: str) -> bytes:
    """Return the race: who starts where, on which track, for how many laps. ``category`` is the folder the track is in."""
    race = Element("params", name=_NAME, type="param", mode="mw")
    _fill(_section(race, "Header"), {"name": _NAME, "description": _NAME, "priority": 10.0})
    tracks = _fill(_section(race, "Tracks"), {"maximum number": 1.0})
    _fill(_section(tracks, "1"), {"name": settings.track, "category": category})
    _fill(_section(_section(race, "Races"), "1"), {"name": _NAME})
    rules = _fill(
        _section(race, _NAME),
        {"distance": 0.0, "type": "race", "starting order": "drivers list", "restart": "no", "laps": float(settings.laps)},
    )
    _fill(_section(rules, "Starting Grid"), _GRID)
    first = settings.drivers[0]
    drivers = _fill(
        _section(race, "Drivers"),
        {"maximum number": 40.0, "focused module": first.module, "focused idx": float(first.index)},
    )
    for place, driver in enumerate(settings.drivers, 1):
        _fill(_section(drivers, str(place)), {"idx": float(driver.index), "module": driver.module})
    return _bytes(race)


def engine_xml() -> bytes:
    """Return which modules TORCS loads: ours stands before its physics."""
    engine = Element("params", name="", type="template", mode="mw")
    _fill(_section(engine, "Modules"), {"track": "track", "simu": MODULE, "graphic": "ssggraph"})
    return _bytes(engine)


def actor_type(driver: RaceDriver) -> str:
    """Return what a trace calls a car: the robot that drives it, and as which of its drivers."""
    return f"torcs.{driver.module}.{driver.index}"


def _bytes(params: Element) -> bytes:
    text: bytes = tostring(params, encoding="UTF-8", xml_declaration=True)
    return text


def _section(parent: Element, name: str) -> Element:
    return SubElement(parent, "section", name=name)


def _fill(section: Element, values: Mapping[str, str | float]) -> Element:
    for name, value in values.items():
        if isinstance(value, str):
            SubElement(section, "attstr", name=name, val=value)
        else:
            SubElement(section, "attnum", name=name, val=f"{value:g}")
    return section
