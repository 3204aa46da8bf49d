"""The speed controller: pedals, anti-windup, state."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.scenarios.drivers import SpeedGains, SpeedState, control_speed

speeds = st.floats(0, 40)


@given(st.lists(st.tuples(speeds, speeds), max_size=40))
def test_pedals_stay_within_their_range_and_are_never_both_pressed(pairs):
    state = SpeedState()
    for target, speed in pairs:
        pedals, state = control_speed(SpeedGains(), state, target, speed, 0.05)
        assert 0.0 <= pedals.throttle <= 1.0
        assert 0.0 <= pedals.brake <= 1.0
        assert pedals.throttle == 0.0 or pedals.brake == 0.0
        assert abs(state.integral) <= SpeedGains().integral_limit


def test_too_slow_opens_the_throttle_and_too_fast_brakes():
    assert control_speed(SpeedGains(), SpeedState(), 5.0, 4.0, 0.05)[0].throttle > 0.0
    assert control_speed(SpeedGains(), SpeedState(), 4.0, 5.0, 0.05)[0].brake > 0.0


def test_the_integral_does_not_wind_up_while_the_throttle_is_full():
    state = SpeedState()
    for _ in range(1000):
        pedals, state = control_speed(SpeedGains(), state, 30.0, 0.0, 0.05)
        assert pedals.throttle == 1.0
    assert state.integral == 0.0


def test_a_jump_of_the_target_gives_no_kick():
    gains = SpeedGains(proportional=0.0, integral=0.0, derivative=1.0)
    _, state = control_speed(gains, SpeedState(), 1.0, 3.0, 0.05)
    assert control_speed(gains, state, 20.0, 3.0, 0.05)[0].throttle == 0.0


def test_a_steady_load_is_balanced_by_the_integral():
    speed, state = 0.0, SpeedState()
    for _ in range(4000):
        pedals, state = control_speed(SpeedGains(), state, 8.0, speed, 0.02)
        speed += (3.0 * pedals.throttle - 8.0 * pedals.brake - 0.1 * speed) * 0.02
    assert speed == pytest.approx(8.0, abs=1e-3)


@given(st.floats(-1, 1), st.one_of(st.none(), speeds))
def test_states_survive_as_json(integral, previous):
    state = SpeedState(integral, previous)
    assert SpeedState.from_plain(json.loads(json.dumps(state.to_plain()))) == state


def test_wrong_values_are_refused():
    with pytest.raises(InputError, match="gain of at least 0"):
        SpeedGains(proportional=-1.0)
    with pytest.raises(InputError, match="within 0 and 1"):
        SpeedGains(throttle_max=2.0)
    with pytest.raises(InputError, match="positive control period"):
        control_speed(SpeedGains(), SpeedState(), 1.0, 1.0, 0.0)
