"""Pure pursuit in CARLA's left-handed frame: positive steers right, towards +y."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.scenarios.drivers import Steering, pure_pursuit

STEERING = Steering(wheel_base_m=2.5, max_steer_deg=60.0)


def test_a_target_on_the_right_steers_right_and_straight_ahead_not_at_all():
    assert pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, 5.0, 1.0) > 0.0
    assert pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, 5.0, -1.0) < 0.0
    assert pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, 5.0, 0.0) == 0.0
    assert pure_pursuit(STEERING, 0.0, 0.0, 0.0, 1.0, -1.0, 5.0) > 0.0


@given(st.floats(4, 50), st.floats(0.05, 1.5))
def test_the_angle_is_that_of_the_circle_through_the_target(radius_m, turned_rad):
    target = (radius_m * math.sin(turned_rad), radius_m * (1.0 - math.cos(turned_rad)))
    ratio = pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, *target)
    assert math.tan(ratio * math.radians(60.0)) == pytest.approx(2.5 / radius_m, rel=1e-9)


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_left_and_right_mirror_each_other_to_the_bit(x, y):
    right, left = (pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, x, side * y) for side in (1.0, -1.0))
    assert -1.0 <= right <= 1.0
    if y != 0.0:
        assert right == -left


def test_a_target_behind_asks_for_the_full_lock():
    assert pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, -5.0, 1.0) == 1.0
    assert pure_pursuit(STEERING, 0.0, 0.0, 1.0, 0.0, -5.0, -1.0) == -1.0
    assert pure_pursuit(STEERING, 3.0, 3.0, 1.0, 0.0, 3.0, 3.0) == 0.0


def test_wrong_geometry_is_refused():
    with pytest.raises(InputError, match="wheel base"):
        Steering(wheel_base_m=0.0)
    with pytest.raises(InputError, match="steering angle"):
        Steering(max_steer_deg=100.0)
