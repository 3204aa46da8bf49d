"""Frames at any times become ticks: exact where a frame is on one, and never farther off than is said."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from samepath.core.errors import SimulatorError
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest, Simulator, SimulatorInfo, no_tick
from samepath.engines.resampling import RESAMPLING, EngineFrame, Resampler, interpolated, watch_resampling

STEP_S = 0.05
# Above rounding, far below anything a bound is about.
ROUNDING_M = 1e-9

steps = st.lists(st.floats(0.003, 0.2), min_size=3, max_size=40)
numbers = st.floats(-20.0, 20.0)


def resampled(times, motion, step_s=STEP_S):
    """Resample a motion in space, seen at some moments."""
    frames = [EngineFrame(time_s, {1: dict(zip(("x_m", "y_m", "z_m"), motion(time_s), strict=True))}) for time_s in times]
    resampler = Resampler(step_s, frames[0])
    ticks = [tick for frame in frames[1:] for tick in resampler.take(frame)]
    return [*ticks, *resampler.rest()], resampler


def moments(gaps):
    times = [0.0]
    for gap_s in gaps:
        times.append(times[-1] + gap_s)
    return times


def check(times, motion):
    ticks, resampler = resampled(times, motion)
    assert [made.tick for made in ticks] == list(range(math.floor(times[-1] / STEP_S + 1e-9) + 1))
    for tick, states in ticks:
        found = states[1]
        off_m = math.dist((found["x_m"], found["y_m"], found["z_m"]), motion(tick * STEP_S))
        assert off_m <= found[RESAMPLING] + ROUNDING_M
        assert found[RESAMPLING] <= resampler.largest_m
    return ticks


@given(steps, st.tuples(numbers, numbers, numbers), st.tuples(numbers, numbers, numbers))
def test_steady_acceleration_is_never_farther_off_than_the_bound(gaps, velocity, acceleration):
    check(moments(gaps), lambda t: tuple(v * t + a * t * t / 2 for v, a in zip(velocity, acceleration, strict=True)))


@given(steps, st.tuples(numbers, numbers), st.tuples(numbers, numbers), st.floats(0.0, 1.0))
def test_a_collision_between_two_frames_is_never_farther_off_than_the_bound(gaps, before, after, when):
    times = moments(gaps)
    hit_s = when * times[-1]

    def motion(t):
        away_s = max(0.0, t - hit_s)
        return (*(v * min(t, hit_s) + w * away_s for v, w in zip(before, after, strict=True)), 0.0)

    check(times, motion)


def test_a_collision_in_the_middle_of_a_gap_reaches_the_bound():
    motion = lambda t: (4.0 * max(0.0, t - 0.15), 0.0, 0.0)  # noqa: E731
    ticks = check([0.0, 0.1, 0.2, 0.3], motion)
    assert ticks[3].states[1][RESAMPLING] == pytest.approx(4.0 * 0.1 / 4)
    assert ticks[3].states[1]["x_m"] == pytest.approx(0.1)


@given(steps, numbers)
def test_steady_motion_has_no_error_and_says_so(gaps, speed_mps):
    for _, states in check(moments(gaps), lambda t: (speed_mps * t, 1.0, 0.0)):
        assert states[1][RESAMPLING] < 1e-9


@given(st.lists(st.integers(1, 4), min_size=2, max_size=20), st.data())
def test_a_frame_on_a_tick_is_taken_bit_for_bit(gaps, data):
    ticks, frames = [0], []
    for gap in gaps:
        ticks.append(ticks[-1] + gap)
    values = st.floats(-1e9, 1e9)
    for tick in ticks:
        states = {1: {"x_m": data.draw(values), "y_m": 0.0, "z_m": 0.0, "yaw_deg": data.draw(st.floats(-180, 180))}}
        frames.append(EngineFrame(tick * STEP_S, states))
    resampler = Resampler(STEP_S, frames[0])
    found = [made for frame in frames[1:] for made in resampler.take(frame)] + resampler.rest()
    by_tick = {made.tick: made.states for made in found}
    for frame, tick in zip(frames, ticks, strict=True):
        assert by_tick[tick][1] == {**frame.states[1], RESAMPLING: 0.0}


@given(st.integers(2, 6), st.integers(50, 400))
def test_a_sum_of_steps_that_divide_the_tick_is_on_it_in_spite_of_rounding(parts, count):
    time_s, times = 0.0, [0.0]
    for _ in range(count):
        time_s += STEP_S / parts
        times.append(time_s)
    ticks, resampler = resampled(times, lambda t: (t / 3, 0.0, 0.0))
    assert [made.tick for made in ticks] == list(range(count // parts + 1))
    assert resampler.largest_m == 0.0
    assert all(made.states[1]["x_m"] == times[made.tick * parts] / 3 for made in ticks)


@given(st.floats(-180, 180), st.floats(-179, 179), st.floats(0, 1))
def test_angles_take_the_shortest_arc(start_deg, turn_deg, share):
    end_deg = (start_deg + turn_deg + 180.0) % 360.0 - 180.0
    found = interpolated({"yaw_deg": start_deg}, {"yaw_deg": end_deg}, share)["yaw_deg"]
    assert -180.0 <= found <= 180.0
    wanted = Fraction(start_deg) + Fraction(share) * Fraction(turn_deg)
    off = float((Fraction(found) - wanted) % 360)
    assert min(off, 360 - off) < 1e-9


def test_who_comes_and_goes_between_frames_is_at_no_tick_between_them():
    def frame(time_s, *actors):
        return EngineFrame(time_s, {number: {"x_m": time_s, "y_m": 0.0, "z_m": 0.0} for number in actors})

    resampler = Resampler(0.1, frame(0.0, 1))
    frames = [frame(0.15, 1), frame(0.25, 1, 2), frame(0.35, 1, 2), frame(0.45, 2), frame(0.5, 2)]
    ticks = [made for each in frames for made in resampler.take(each)] + resampler.rest()
    assert {made.tick: sorted(made.states) for made in ticks} == {0: [1], 1: [1], 2: [1], 3: [1, 2], 4: [2], 5: [2]}


def test_a_collision_late_in_the_last_gap_is_within_the_bound_although_it_hardly_shows():
    """Nine tenths into the gap: the mean velocity shows a tenth of the change, the path is 9 % of it times the gap off."""
    ticks = check([0.0, 0.1, 0.2], lambda t: (4.0 * max(0.0, t - 0.19), 0.0, 0.0))
    assert ticks[3].states[1][RESAMPLING] == pytest.approx(0.4 * 0.1)


def test_what_is_held_belongs_to_the_frame_that_reaches_the_tick():
    frames = [
        EngineFrame(t, {1: {"x_m": t, "y_m": 0.0, "gear_index": 9.0}}, {1: {"gear_index": g}})
        for t, g in ((0.0, 1), (0.07, 2), (0.15, 3))
    ]
    resampler = Resampler(STEP_S, frames[0])
    ticks = [made for frame in frames[1:] for made in resampler.take(frame)] + resampler.rest()
    assert [(made.tick, made.states[1]["gear_index"]) for made in ticks] == [(0, 1), (1, 2), (2, 3), (3, 3)]


def test_who_watches_sees_what_is_interpolated_and_nothing_else():
    def run(times):
        resampled(times, lambda t: (t, 0.0, 0.0))

    with watch_resampling() as seen:
        run([0.0, 0.05, 0.1, 0.15])
        assert seen.count == 0, "every frame was on a tick"
        run([0.0, 0.07, 0.12])
        assert seen.count == 2
    run([0.0, 0.07, 0.12])
    assert seen.count == 2


def test_where_a_bound_cannot_be_known_none_is_given():
    ticks, _ = resampled([0.0, 0.07], lambda t: (t, 0.0, 0.0))
    assert RESAMPLING in ticks[0].states[1]
    assert RESAMPLING not in ticks[1].states[1]


def test_time_must_rise_and_a_frame_told_twice_is_one():
    resampler = Resampler(0.1, EngineFrame(0.0, {}))
    resampler.take(EngineFrame(0.15, {}))
    assert resampler.take(EngineFrame(0.15, {})) == []
    for late in (EngineFrame(0.15, {1: {"x_m": 0.0}}), EngineFrame(0.1, {}), EngineFrame(math.nan, {})):
        with pytest.raises(SimulatorError, match="time must rise"):
            resampler.take(late)


@given(steps)
def test_moments_belong_to_the_first_tick_at_or_after_them(gaps):
    resampler = Resampler(STEP_S, EngineFrame(0.0, {}))
    for before_s, now_s in pairwise(moments(gaps)):
        assume(now_s > before_s)
        tick = resampler.tick_of(now_s)
        assert (tick - 1) * STEP_S < now_s <= tick * STEP_S + 1e-10
    assert [resampler.tick_of(time_s) for time_s in (0.0, 0.05, 0.1500000000001)] == [0, 1, 3]


def test_the_bound_is_part_of_a_trace():
    class Jerky(Simulator):
        def info(self):
            return SimulatorInfo("jerky", "1", "steps of its own", ("s",), 0.1, ("x_m", "y_m", "z_m", RESAMPLING))

        def run(self, request, recorder, on_tick=no_tick):
            recorder.actor(1, "car")
            ticks, resampler = resampled([0.0, 0.07, 0.16, 0.25, 0.31], lambda t: (3 * t * t, 0.0, 0.0), 0.1)
            for tick, states in ticks:
                recorder.state(tick, 1, states[1])
                on_tick(tick)
            recorder.event(3, "note", detail=resampler.note)
            recorder.end(3, "done")

    run = run_request(Jerky(), RunRequest("s", 0))
    assert run.values[:, 3].tolist()[0] == 0.0
    assert (run.values[1:, 3] > 0).all()
    largest = run.values[:, 3].max()
    assert f"to ticks of 0.1 s: at most {largest:.3g} m off (tick" in run.events[-1].detail
