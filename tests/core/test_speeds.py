"""Speeds with units are what they say: units that are no whole part of ours are multiplied, not divided."""

from fractions import Fraction

import pytest

from samepath.core.units import (
    DURATION_UNITS_S,
    LENGTH_UNITS_M,
    SPEED_UNITS_MPS,
    parse_duration_s,
    parse_length_m,
    parse_quantity,
)
from samepath.scenarios.model import ActorSpec

EXACT = {
    "km/h": Fraction(10, 36),
    "kmh": Fraction(10, 36),
    "mph": Fraction(44704, 100000),
    "m/s": Fraction(1),
    "mps": Fraction(1),
}


@pytest.mark.parametrize("unit", SPEED_UNITS_MPS)
@pytest.mark.parametrize("number", ["30", "90", "0.5", "65"])
def test_a_speed_is_what_its_unit_says(unit, number):
    found = parse_quantity(f"{number} {unit}", SPEED_UNITS_MPS, "speed", "8 m/s")
    assert found == pytest.approx(float(Fraction(number) * EXACT[unit]), rel=1e-15)


def test_a_scenario_drives_thirty_kilometres_an_hour():
    actor = ActorSpec(id=1, type="vehicle.mercedes.coupe", path=((0, 0), (1, 0)), speed="30 km/h")
    assert actor.speed == pytest.approx(30 / 3.6, rel=1e-15)


def test_parts_of_a_unit_are_rounded_once():
    assert parse_length_m("1 cm") == 0.01
    assert parse_length_m("7 mm") == 0.007
    assert parse_duration_s("3 ms") == 0.003
    assert parse_duration_s("2 us") == 2e-6
    for units in (LENGTH_UNITS_M, DURATION_UNITS_S):
        for unit, factor in units.items():
            assert parse_quantity(f"3 {unit}", units, "quantity", "1") == pytest.approx(3 * factor, rel=1e-15)
