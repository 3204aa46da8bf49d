"""Where two runs part: found by bisection, told in causal order, in metres and in units in the last place."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.instrument.analysis.partings import Part, find_parting, first_difference, ulp_distance
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import straight_run

CHANNELS = ("x_m", "y_m", "yaw_deg", "vx_mps", "ax_mps2", "throttle_ratio", "gear_index", "battery_ratio", "resampling_m")


def run(repeat, ticks=10, change=lambda tick, actor: {}, actors=(1, 2), gone=None, events=(), end=("done", None), types=None):
    recorder = Recorder(repeat, CHANNELS, 0.05)
    for actor in actors:
        recorder.actor(actor, (types or {}).get(actor, "car"))
    for tick in range(1, ticks + 1):
        for actor in actors:
            if (gone or {}).get(actor, tick + 1) > tick:
                recorder.state(tick, actor, _values(tick, change(tick, actor)))
    for event in events:
        recorder.event(*event)
    recorder.end(end[1] or ticks, end[0])
    return recorder.finish()


def _values(tick, changed):
    found = {**dict.fromkeys(CHANNELS, 1.0 + tick), **changed}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def parting(a, b):
    return find_parting(a, b, 0.05)


@given(st.floats(-1e30, 1e30), st.integers(0, 40), st.booleans())
def test_units_in_the_last_place_count_the_floats_between(value, steps, up):
    other = value
    for _ in range(steps):
        other = math.nextafter(other, math.inf if up else -math.inf)
    crossed = math.copysign(1.0, value) != math.copysign(1.0, other)
    # nextafter goes from the smallest number to zero and past it in one step; our count has -0.0 and 0.0 apart.
    assert ulp_distance(value, other, 64) in ({steps, steps + 1} if crossed or value == 0 else {steps})


def test_units_in_the_last_place_of_float32():
    value = float(np.float32(12.7))
    assert ulp_distance(value, float(np.nextafter(np.float32(value), np.float32(99))), 32) == 1
    assert ulp_distance(-0.0, 0.0, 32) == ulp_distance(-0.0, 0.0, 64) == 1
    assert ulp_distance(1.0, 1.0 + 1e-12, 32) == 0


@given(st.integers(1, 30), st.integers(0, 29), st.integers(0, 5))
def test_bisection_finds_what_reading_every_row_finds(ticks, at, fewer):
    a = straight_run(0, ticks=ticks, actors=1)
    b = straight_run(1, ticks=max(1, ticks - fewer), actors=1, shift=lambda tick, actor: 1e-9 if tick == at else 0.0)
    rows = [np.arange(len(repeat.tick)) for repeat in (a, b)]
    equal = [bool(np.array_equal(x, y)) for x, y in zip(a.digests, b.digests, strict=False)]
    expected = equal.index(False) if False in equal else None if len(a.tick) == len(b.tick) else len(equal)
    assert first_difference(a, b, *rows) == expected


def test_equal_runs_do_not_part():
    assert parting(run(0), run(1)) is None


def test_fields_stand_in_causal_order_whatever_the_order_of_channels():
    off = {"throttle_ratio": 0.5, "ax_mps2": 0.1, "vx_mps": 0.1, "x_m": 0.1, "yaw_deg": 0.1, "battery_ratio": 0.1}
    changed = {**off, "resampling_m": 0.1, "gear_index": 2.0}
    found = parting(run(0), run(1, change=lambda tick, actor: changed if tick == 4 and actor == 2 else {}))
    assert (found.tick, found.last_common_tick, found.actor) == (4, 3, 2)
    order = ["throttle_ratio", "ax_mps2", "gear_index", "vx_mps", "x_m", "yaw_deg", "battery_ratio", "resampling_m"]
    assert [field.name for field in found.fields] == order
    assert found.fields[0].part is Part.COMMAND
    first = found.fields[0]
    assert (first.a, first.b, first.difference, first.unit) == (5.0, 0.5, -4.5, "1")
    assert found.distance_m == pytest.approx(4.9)


def test_a_command_to_anybody_comes_before_states_of_everybody():
    def change(tick, actor):
        return {} if tick != 4 else {"x_m": 9.0} if actor == 1 else {"throttle_ratio": 0.0}

    found = parting(run(0), run(1, change=change))
    assert [(field.name, field.actor) for field in found.fields] == [("throttle_ratio", 2), ("x_m", 1)]
    assert found.actor == 2


def test_who_follows_and_when_and_how_far():
    def change(tick, actor):
        return {"x_m": 1.0 + tick + 0.5 * (tick - 5)} if actor == 2 and tick > 5 else {"vx_mps": 0.0} if tick == 3 else {}

    found = parting(run(0), run(1, change=lambda tick, actor: change(tick, actor) if actor == 2 or tick == 3 else {}))
    assert [(follower.actor, follower.tick) for follower in found.followers] == [(1, 3), (2, 3)]
    later = parting(run(0), run(1, change=lambda tick, actor: change(tick, actor) if actor == 2 and tick != 3 else {}))
    (only,) = later.followers
    assert (only.actor, only.tick, only.max_distance_m, only.max_tick) == (2, 6, 2.5, 10)
    assert only.time_s == pytest.approx(0.3)


def test_somebody_who_is_gone_is_a_difference_of_presence():
    found = parting(run(0), run(1, gone={2: 7}))
    (field,) = found.fields
    assert (found.tick, field.part, field.a, field.b) == (7, Part.PRESENCE, "present", "absent")


def test_events_and_ends_are_differences_too():
    hit = (5, "collision", 1, 2, (1.0, 2.0, 3.0))
    found = parting(run(0, events=[hit]), run(1, events=[(5, "collision", 1, 2, (1.0, 2.0, 3.5))]))
    assert (found.tick, [field.part for field in found.fields]) == (5, [Part.EVENT])
    assert "3.5 N s" in found.fields[0].b
    ended = parting(run(0), run(1, end=("broke off", 10)))
    assert (ended.tick, [field.part for field in ended.fields]) == (10, [Part.END])
    assert parting(run(0, events=[hit]), run(1, events=[hit], end=("broke off", 10))).last_common_event.startswith("collision")


def test_an_id_of_another_type_is_told_as_such():
    found = parting(run(0), run(1, types={2: "truck"}))
    assert [(field.name, field.a, field.b) for field in found.fields] == [("type", "car", "truck")]


def test_a_channel_that_does_not_apply_is_not_there():
    found = parting(run(0), run(1, change=lambda tick, actor: {"battery_ratio": math.nan} if tick == 2 else {}))
    assert (found.fields[0].a, found.fields[0].b, found.fields[0].ulp64) == (3.0, None, None)
