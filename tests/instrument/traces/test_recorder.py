"""The recorder refuses broken records at the door."""

import math

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import straight_run


@pytest.fixture
def recorder():
    recorder = Recorder(0, ("x_m", "y_m", "z_m"), 0.1)
    recorder.actor(1, "car")
    return recorder


AT = {"x_m": 1.0, "y_m": 2.0, "z_m": 0.0}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e101])
def test_a_number_that_is_none_is_refused_by_tick_actor_and_channel(recorder, bad):
    with pytest.raises(SimulatorError, match=r"tick 4, actor 1: y_m is"):
        recorder.state(4, 1, {**AT, "y_m": bad})


def test_an_unknown_channel_is_refused_with_the_nearest_one(recorder):
    with pytest.raises(SimulatorError, match="did you mean 'x_m'"):
        recorder.state(0, 1, {"x_n": 1.0})


def test_an_unannounced_actor_is_refused(recorder):
    with pytest.raises(SimulatorError, match="never announced"):
        recorder.state(0, 2, AT)


def test_ids_are_never_reused(recorder):
    with pytest.raises(SimulatorError, match="never reused"):
        recorder.actor(1, "van")


def test_a_destroyed_actor_is_absent_from_then_on(recorder):
    recorder.state(1, 1, AT)
    recorder.event(1, "destroy", 1)
    with pytest.raises(SimulatorError, match="destroyed at tick 1"):
        recorder.state(2, 1, AT)


def test_time_does_not_run_backwards(recorder):
    recorder.state(5, 1, AT)
    with pytest.raises(SimulatorError, match="came after 5"):
        recorder.state(5, 1, AT)


def test_nothing_follows_the_end(recorder):
    recorder.end(3, "done")
    with pytest.raises(SimulatorError, match="has ended"):
        recorder.state(4, 1, AT)


def test_a_run_without_an_end_is_refused(recorder):
    with pytest.raises(SimulatorError, match="without saying how"):
        recorder.finish()


def test_an_impulse_that_is_no_number_is_refused(recorder):
    with pytest.raises(SimulatorError, match="impulse"):
        recorder.event(1, "collision", 1, None, (math.nan, 0, 0))


def test_a_trace_without_positions_is_refused():
    with pytest.raises(InputError, match="x_m and y_m"):
        Recorder(0, ("yaw_deg",), 0.1)


def test_only_every_nth_tick_is_kept_but_all_events_are():
    recorder = Recorder(0, ("x_m", "y_m"), 0.1, log_every=5)
    recorder.actor(1, "car")
    for tick in range(1, 21):
        recorder.state(tick, 1, {"x_m": tick, "y_m": 0.0})
    recorder.event(13, "horn", 1)
    recorder.end(20, "done")
    repeat = recorder.finish()
    assert repeat.tick.tolist() == [5, 10, 15, 20]
    assert [event.tick for event in repeat.events] == [0, 13]


def filled(record, log_every):
    recorder = Recorder(0, ("x_m", "y_m", "yaw_deg"), 0.1, log_every)
    for number in (7, 3):
        recorder.actor(number, "car")
    values = np.arange(36.0).reshape(6, 2, 3) / 7
    values[2, 1, 2], values[3, 0, 0] = math.nan, -0.0
    record(recorder, values)
    recorder.event(4, "collision", 3, 7)
    recorder.end(6, "done")
    return recorder.finish()


@pytest.mark.parametrize("log_every", [1, 2])
def test_a_block_is_what_its_rows_would_be_to_the_bit(log_every):
    def by_rows(recorder, values):
        for index, rows in enumerate(values.tolist()):
            recorder.rows(index + 1, [7, 3], rows)

    def by_blocks(recorder, values):
        recorder.rows(1, [7, 3], values[0].tolist())
        recorder.block(range(2, 5), [7, 3], values[1:4])
        recorder.block([], [7, 3], values[:0])
        recorder.block([5, 6], [7, 3], values[4:])

    row_wise, other = filled(by_rows, log_every), filled(by_blocks, log_every)
    assert row_wise.digest == other.digest
    assert row_wise.digests.tobytes() == other.digests.tobytes()
    for part in ("tick", "actor", "time_s", "values"):
        mine, its = getattr(row_wise, part), getattr(other, part)
        assert (mine.dtype, mine.tobytes()) == (its.dtype, its.tobytes())


@pytest.mark.parametrize(
    ("ticks", "actors", "shape", "words"),
    [
        ([1, 2], [1], (2, 1, 2), "values of shape"),
        ([2, 2], [1], (2, 1, 3), "rising ticks"),
        ([1, 2], [1, 1], (2, 2, 3), "of no actor twice"),
        ([1, 2], [2], (2, 1, 3), "never announced"),
        ([0, 9], [1], (2, 1, 3), "actor 1 cannot have a state at tick 0"),
    ],
)
def test_a_block_that_cannot_be_is_refused(recorder, ticks, actors, shape, words):
    recorder.state(0, 1, AT)
    with pytest.raises(SimulatorError, match=words):
        recorder.block(ticks, actors, np.zeros(shape))


def test_a_block_without_a_position_is_refused_by_tick_actor_and_channel(recorder):
    recorder.block([4, 5], [1], np.array([[[0.0, 0.0, 0.0]], [[0.0, math.nan, 0.0]]]))
    recorder.end(5, "done")
    with pytest.raises(SimulatorError, match="tick 5, actor 1: y_m is nan"):
        recorder.finish()


def test_the_digest_chain_parts_at_the_first_different_bit_and_never_meets_again():
    a = straight_run(0)
    b = straight_run(1, shift=lambda tick, actor: 5e-16 if (tick, actor) == (7, 2) else 0.0)
    same = (a.digests == b.digests).all(axis=1).reshape(20, 2)
    assert same[:, 0].all()
    assert same[:6, 1].all()
    assert not same[6:, 1].any()
    assert a.digest != b.digest
    assert straight_run(5).digest == a.digest, "the repeat's number is not part of its content"


def test_minus_zero_is_another_bit_pattern_than_zero():
    a = straight_run(0)
    b = straight_run(1, shift=lambda tick, actor: 0.0)
    assert a.digest == b.digest
    recorder = Recorder(0, ("x_m", "y_m"), 0.1)
    other = Recorder(0, ("x_m", "y_m"), 0.1)
    for run, zero in ((recorder, 0.0), (other, -0.0)):
        run.actor(1, "car")
        run.state(0, 1, {"x_m": zero, "y_m": 1.0})
        run.end(0, "done")
    assert recorder.finish().digest != other.finish().digest


def test_ids_and_ticks_beyond_what_float64_can_tell_apart_are_kept():
    recorder = Recorder(0, ("x_m", "y_m"), 0.1)
    for actor in (2**53, 2**53 + 1):
        recorder.actor(actor, "car")
        recorder.state(2**53 + 1, actor, {"x_m": 0.0, "y_m": 0.0}, time_s=0.0)
    recorder.end(2**53 + 1, "done")
    repeat = recorder.finish()
    assert repeat.actor.tolist() == [2**53, 2**53 + 1]
    assert repeat.tick.tolist() == [2**53 + 1] * 2
