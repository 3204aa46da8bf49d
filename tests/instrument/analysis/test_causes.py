"""The cause of a parting, by evidence: each from logs that show it, and none where they do not."""

import random
from dataclasses import replace

import pytest

from samepath.core.inputs import ASKED, RACED, Input, InputKind, InputLog
from samepath.instrument.analysis.causes import Cause, SensedDifference, find_cause, window_of
from samepath.instrument.analysis.partings import find_parting
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import header

CHANNELS = ("x_m", "y_m", "throttle_ratio")
HEADER = header(channels=CHANNELS, step_s=0.05, simulator="test")
WALL_CLOCK = replace(HEADER, time_scale=1.0)
AT = 6


def run(repeat, *, actor=2, at=None, field="x_m", every=1, channels=CHANNELS, ticks=12):
    """Two actors; at tick ``at`` a field of one of them is other than usual, and stays so."""
    recorder = Recorder(repeat, channels, 0.05, every)
    for number in (1, 2):
        recorder.actor(number, "car")
    for tick in range(1, ticks + 1):
        for number in (1, 2):
            off = at is not None and tick >= at and number == actor
            recorder.state(tick, number, {"x_m": 0.5 * tick, "y_m": 0.0, "throttle_ratio": 0.5} | ({field: 9.0} if off else {}))
    recorder.end(ticks, "done")
    return recorder.finish()


def cause(log_a, log_b, *, at=AT, told=HEADER, sensed=None, actor=2, field="x_m", every=1, like=4):
    """Explain two runs, of which ``like`` more have the same inputs and are equal to each."""
    parting = find_parting(run(0, every=every), run(1, actor=actor, at=at, field=field, every=every), 0.05)
    return find_cause(told, parting, log_a, log_b, sensed, [log_a] * like, [log_b] * like)


def log(*entries, **changes):
    return InputLog(sorted(entries, key=lambda entry: entry.step), **changes)


def step(at, seconds):
    return Input(at, InputKind.STEP, values=(seconds,))


def command(at, throttle, decided=None, actor=2):
    return Input(at, InputKind.COMMAND, "throttle_ratio", actor, (throttle,), decided_step=at if decided is None else decided)


def draw(at, value, actor=2, name="gust"):
    return Input(at, InputKind.DRAW, name, actor, (value,))


def order(text, at=0):
    return Input(at, InputKind.ORDER, "actors", text=text)


def push(at, value, text, actor=2):
    return Input(at, InputKind.PUSH, "force", actor, (value,), text)


def test_a_step_of_another_length():
    steps = [step(at, 0.05) for at in range(12)]
    other = [*steps[: AT - 1], step(AT - 1, 0.07), *steps[AT:]]
    found = cause(log(*steps), log(*other), told=WALL_CLOCK)
    assert found.cause is Cause.STEP_LENGTH
    assert found.evidence == ("step 5 was 0.05 s long in repeat 0 and 0.07 s in repeat 1: the wall clock drove these runs",)


def test_another_number_from_a_stream_and_how_often_it_was_drawn():
    found = cause(log(draw(AT - 1, 0.5)), log(draw(AT - 1, 0.25), draw(AT - 1, 0.125)))
    assert found.cause is Cause.RANDOM_STREAM
    assert "gave 0.5 and 0.25 at step 5" in found.evidence[0]
    assert "repeat 1 had drawn 1 times more" in found.evidence[1]


def test_chance_that_acts_long_after_it_was_drawn():
    found = cause(log(draw(0, 0.5)), log(draw(0, 0.25)))
    assert found.cause is Cause.RANDOM_STREAM
    assert "which of 10 runs diverge follows from its value (exact test: p = 0.0079)" in found.evidence
    assert "it went in at step 0, before the parting at tick 6" in found.evidence[-1]


def test_a_draw_that_is_another_in_every_run_is_no_evidence():
    """A paint colour is drawn per run and acts on nothing; what does act was not taken down."""
    for at in (1, AT):
        found = cause(log(draw(0, 0.5)), log(draw(0, 0.25)), at=at, like=0)
        assert found.cause is Cause.UNKNOWN
        assert "varied alone" in found.to_record


def explained(values_a, values_b, *extra, at=AT):
    """Runs with these colours, of which the second ones diverge from the first ones at a tick."""
    parting = find_parting(run(0), run(1, at=at), 0.05)
    sides = [[log(draw(0, value, name="colour"), *extra) for value in values] for values in (values_a, values_b)]
    return find_cause(HEADER, parting, sides[0][0], sides[1][0], None, sides[0][1:], sides[1][1:])


def test_a_draw_that_differs_between_equal_runs_is_not_sufficient():
    found = explained([1, 2, 3, 4, 5], [6, 7])
    assert found.cause is Cause.UNKNOWN
    assert "also between runs that do not diverge here" in found.evidence[0]
    assert explained([1] * 5, [2] * 5).cause is Cause.RANDOM_STREAM
    assert explained([1, 1, 3, 3, 3], [2, 2, 2, 2, 3]).cause is Cause.UNKNOWN


@pytest.mark.parametrize("colours", [2, 3, 8, 100])
@pytest.mark.parametrize("runs", [4, 6, 10, 16])
def test_a_colour_is_blamed_for_another_cause_in_at_most_one_case_of_twenty(runs, colours):
    """Runs diverge for a reason that was not taken down, and each has a colour by chance."""
    chance, cases, blamed = random.Random(runs * colours), 200, 0
    for _ in range(cases):
        diverging = chance.randint(1, runs - 1)
        values = [chance.randrange(colours) for _ in range(runs)]
        if values[0] == values[diverging]:
            continue
        blamed += explained(values[:diverging], values[diverging:]).cause is not Cause.UNKNOWN
    assert blamed <= cases * 0.05 + 3 * (cases * 0.05 * 0.95) ** 0.5


def test_a_draw_that_begins_to_differ_where_runs_diverge_is_evidence():
    parting = find_parting(run(0, ticks=60), run(1, at=50, ticks=60), 0.05)
    early = [draw(at, 0.5) for at in range(49)]
    logs = log(*early, draw(49, 0.5)), log(*early, draw(49, 0.25))
    found = find_cause(HEADER, parting, *logs)
    assert found.cause is Cause.RANDOM_STREAM
    assert "just before the runs diverge (by chance in 2 %)" in found.evidence[-1]


def test_a_controller_that_may_follow_a_draw_is_not_judged():
    """The draw is not sufficient, but a threshold may lie between its values."""
    a, b = [draw(0, 0.5), command(AT - 1, 0.5)], [draw(0, 0.25), command(AT - 1, 0.75)]
    parting = find_parting(run(0), run(1, at=AT), 0.05)
    like = log(draw(0, 0.75), command(AT - 1, 0.5))
    found = find_cause(HEADER, parting, log(*a), log(*b), None, [like])
    assert found.cause is Cause.UNKNOWN
    assert "whether draw 'gust' led it is not known" in found.evidence[-1]


def test_another_order_acts_when_it_acts():
    assert cause(log(order("1 2")), log(order("2 1"))).cause is Cause.ORDER
    assert cause(log(order("1 2")), log(order("2 1")), at=1).cause is Cause.ORDER


def test_an_order_that_differs_too_is_not_the_cause_where_something_else_acts():
    a, b = [order("1 2"), draw(0, 0.5)], [order("2 1"), draw(0, 0.25)]
    assert cause(log(*a), log(*b), at=1).cause is Cause.RANDOM_STREAM


def test_of_an_order_and_a_draw_long_before_the_one_about_the_actor_that_parts_decides():
    a, b = [order("1 2"), draw(0, 0.5, 1)], [order("2 1"), draw(0, 0.25, 1)]
    assert cause(log(*a), log(*b), actor=1).cause is Cause.RANDOM_STREAM
    assert cause(log(*a), log(*b), actor=2).cause is Cause.ORDER, "the lots were another's"


def test_a_draw_about_somebody_else_is_not_the_cause():
    """Lots for the walker, actor 1, were others; but it is actor 2 that parts, under a force that was summed otherwise."""
    a, b = [draw(0, 0.5, 1), push(0, 1.0, RACED)], [draw(0, 0.25, 1), push(0, 1.5, RACED)]
    assert cause(log(*a), log(*b), at=1).cause is Cause.ORDER
    assert cause(log(*a), log(*b), at=1, actor=1).cause is Cause.RANDOM_STREAM


def test_a_sum_that_threads_added_in_another_order():
    assert cause(log(push(AT - 1, 1.0, RACED)), log(push(AT - 1, 1.5, RACED))).cause is Cause.ORDER


def test_a_state_that_nobody_commanded_is_the_simulators():
    found = cause(log(), log(push(AT - 1, 3.0, "x_m bit 3")))
    assert found.cause is Cause.SIMULATOR
    assert "x_m bit 3" in found.evidence[0]
    assert "in repeat 1 alone" in found.evidence[0]


def test_the_same_inputs_and_other_states_are_the_simulators():
    same = [command(0, 0.5), draw(2, 0.1)]
    assert cause(log(*same), log(*same)).cause is Cause.SIMULATOR


def test_inputs_that_differ_after_the_parting_follow_from_it():
    found = cause(log(command(0, 0.5)), log(command(0, 0.5), command(AT, 0.75)))
    assert found.cause is Cause.SIMULATOR


def test_a_command_that_was_decided_from_an_older_view_came_late():
    found = cause(log(command(0, 0.5), command(AT - 1, 0.75)), log(command(0, 0.5), command(AT - 1, 0.25, AT - 3)))
    assert found.cause is Cause.LATE_COMMAND
    assert "before step 5 in repeat 0 and before step 3 in repeat 1" in found.evidence[0]
    assert found.evidence[1] == "that is 2 ticks late"


def test_a_command_that_reaches_one_run_later_came_late():
    """Listed in one run alone: in the other the older one holds on, and grows older."""
    fresh, stale = log(command(0, 0.5), command(AT - 1, 0.75)), log(command(0, 0.5), command(AT - 1, 0.5, AT - 2))
    assert cause(fresh, stale).cause is Cause.LATE_COMMAND


def test_commands_that_are_equal_move_nothing_whenever_they_were_decided():
    a = log(command(0, 0.5), command(AT - 1, 0.5, AT - 2))
    assert cause(a, log(command(0, 0.5))).cause is Cause.SIMULATOR


def test_a_controller_that_saw_the_same_and_said_something_else_is_the_source():
    found = cause(log(command(AT - 1, 0.5)), log(command(AT - 1, 0.75)), field="throttle_ratio")
    assert found.cause is Cause.COMMAND_VALUE
    assert "0.5 and 0.75" in found.evidence[0]


def test_a_controller_that_was_shown_something_else_is_not():
    a, b = log(command(AT - 1, 0.5)), log(command(AT - 1, 0.75))
    assert cause(a, b, sensed=SensedDifference("front camera", AT - 2)).cause is Cause.SENSOR_DATA
    assert cause(a, b, sensed=SensedDifference("front camera", AT)).cause is Cause.COMMAND_VALUE, "it followed"


def test_a_controller_that_was_given_other_lots_is_led_by_them():
    a, b = [draw(0, 0.5), command(AT - 1, 0.5)], [draw(0, 0.25), command(AT - 1, 0.75)]
    assert cause(log(*a), log(*b)).cause is Cause.RANDOM_STREAM
    other = [draw(0, 0.25, actor=1), command(AT - 1, 0.75)]
    assert cause(log(draw(0, 0.5, actor=1), command(AT - 1, 0.5)), log(*other)).cause is Cause.RANDOM_STREAM, "the only other"


def test_a_controller_that_had_been_asked_at_other_moments_came_late():
    asked = Input(2, InputKind.COMMAND, ASKED, None, (0.1,), decided_step=2)
    a, b = log(asked, command(AT - 1, 0.5)), log(command(AT - 1, 0.75))
    found = cause(a, b, told=WALL_CLOCK)
    assert found.cause is Cause.LATE_COMMAND
    assert "at step 2 in repeat 0 alone" in found.evidence[0]


def test_a_command_whose_moment_nobody_took_down_is_not_judged():
    a, b = (log(Input(AT - 1, InputKind.COMMAND, "throttle_ratio", 2, (value,))) for value in (0.5, 0.75))
    found = cause(a, b)
    assert (found.cause, found.to_record) == (Cause.UNKNOWN, "the step that controllers saw when they decided (decided_step)")


def test_a_log_that_covers_no_commands_cannot_acquit_them():
    partial = log(covers=frozenset({InputKind.STEP}))
    found = cause(partial, partial)
    assert found.cause is Cause.UNKNOWN
    assert "these were not: command" in found.evidence[0]
    assert "Recorder.inputs" in found.to_record


def test_what_a_simulator_hides_is_said():
    partial = log(covers=frozenset({InputKind.STEP, InputKind.COMMAND}))
    found = cause(partial, partial)
    assert found.cause is Cause.SIMULATOR
    assert "its own orders and draws are not visible" in found.evidence[1]


@pytest.mark.parametrize("every", [2, 3])
def test_between_two_logged_ticks_a_consequence_is_not_taken_for_a_cause(every):
    """The state may have parted at step 3, the command at step 5 follow from it: with rows every few ticks nobody can tell."""
    late = log(command(0, 0.5), command(AT - 1, 0.75))
    found = cause(log(command(0, 0.5)), late, at=AT - 1, every=every)
    assert found.cause is Cause.UNKNOWN
    assert "log every step" in found.to_record
    steps = [step(at, 0.05) for at in range(12)]
    clock = cause(log(*steps), log(*steps[:4], step(4, 0.07), *steps[5:]), at=AT - 1, every=every)
    assert clock.cause is Cause.STEP_LENGTH, "no state makes a step longer"


def test_a_tick_of_several_steps_has_a_window_of_several():
    parting = find_parting(run(0), run(1, at=AT), 0.05)
    fine = log(step_s=0.01)
    window = window_of(HEADER, parting, fine, fine)
    assert (window.first, window.last, window.per_tick) == (25, 29, 5)


def test_without_a_log_nothing_is_guessed():
    found = cause(None, log())
    assert (found.cause, found.differences) == (Cause.UNKNOWN, ())
    commanded = cause(None, None, field="throttle_ratio")
    assert commanded.cause is Cause.UNKNOWN
    assert "came late, or its controller decided otherwise" in commanded.evidence[1]
    seen = cause(None, None, field="throttle_ratio", sensed=SensedDifference("lidar", AT - 1))
    assert seen.cause is Cause.SENSOR_DATA
