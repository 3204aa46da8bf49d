"""Variants side by side: verdicts of tests that flip, means that shift, pace, and the settings that remove a variance."""

import math
from dataclasses import replace

import numpy as np
import pytest

from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.conditions import PaceFinder
from samepath.instrument.analysis.outcomes import find_endings, flip_words
from samepath.instrument.analysis.side_by_side import find_shift
from samepath.instrument.analysis.study import MissingCell, analyse_study
from samepath.instrument.traces.cell import info_of
from samepath.instrument.traces.records import Event, HostLog, RunEnd, frame_of
from tests.support.study_cells import TICKS, cell, elsewhere, run


def side_of(*cells, missing=()):
    return analyse_study(cells, missing).side_by_side


def at_load(load, runs, variant="game loop", **fields):
    return cell(runs, variant=variant, condition={"cpu_load": load}, cell=f"{variant} at {load}", **fields)


def colliding(repeats, of=10):
    """``repeats`` of the runs collide."""
    return [run(n, collides=n < repeats) for n in range(of)]


def ended(repeat, reason):
    return replace(repeat, end=RunEnd(TICKS, reason))


def words_of(runs):
    return flip_words(find_endings([info_of(run) for run in runs]))


# What a test comes to


def test_repeats_that_come_to_the_same_do_not_flip_whenever_it_happens():
    later = replace(run(1), events=(Event(4, "collision", 2, 1),), end=RunEnd(3, "done"))
    assert words_of([run(0, collides=True), later]) == ""


@pytest.mark.parametrize(
    ("repeats", "words"),
    [
        (9, "1 of 10 repeats does not collide"),
        (7, "3 of 10 repeats do not collide"),
        (5, "5 of 10 repeats do not collide"),
        (1, "1 of 10 repeats collides"),
        (0, ""),
        (10, ""),
    ],
)
def test_a_collision_in_some_repeats_only_flips_the_verdict(repeats, words):
    assert words_of(colliding(repeats)) == words


def test_another_collision_and_another_end_flip_it_too():
    usual = [run(n, collides=True) for n in range(3)]
    scenery = replace(usual[0], repeat=3, events=(*usual[0].events, Event(4, "collision", 2, None)))
    assert words_of([*usual, scenery]) == "1 of 4 repeats collides otherwise (scenery with 2, 1 with 2; usually 1 with 2)"
    stuck = ended(replace(usual[0], repeat=4), "time is over")
    assert words_of([*usual, stuck]) == "1 of 4 repeats ends by 'time is over', the others by 'done'"
    assert words_of([*usual, scenery, stuck]).count("; 1 of 5 repeats ends by") == 1


def test_a_verdict_that_flips_under_load_is_told_with_the_load():
    side = side_of(at_load(0.0, colliding(10)), at_load(0.95, colliding(7)), at_load(0.0, colliding(10), "lockstep"))
    loop, lockstep = side.variants
    assert [row.collided for row in loop.rows] == [10, 7]
    assert [row.flips for row in loop.rows] == [False, True]
    assert loop.rows[1].flip_words() == "3 of 10 repeats do not collide"
    assert (loop.flips, loop.flip_words()) == (True, "no collision in 0 of 10 repeats at 0 % and 3 of 10 at 95 % CPU load")
    assert (lockstep.flips, lockstep.flip_words()) == (False, "")
    assert side.conclusions[0].flips
    told = side.conclusions[0].text
    assert "The test's verdict flips: game loop: no collision in 0 of 10 repeats at 0 % and 3 of 10 at 95 % CPU load" in told
    assert "Repeats with a collision: game loop in 17 of 20, lockstep in 10 of 10" in told


def test_variants_that_agree_in_themselves_but_not_with_each_other_are_told():
    (told,) = side_of(at_load(0.0, colliding(0)), at_load(0.0, colliding(10), "lockstep")).conclusions
    assert "Repeats with a collision: game loop in 0 of 10, lockstep in 10 of 10" in told.text
    (told,) = side_of(at_load(0.0, colliding(10)), at_load(0.0, colliding(10), "lockstep")).conclusions
    assert "Repeats with a collision" not in told.text


def test_a_verdict_that_flips_between_loads_only_is_found_though_every_cell_agrees():
    side = side_of(at_load(0.0, colliding(10)), at_load(0.75, colliding(0)), at_load(0.95, colliding(0)), missing=[ABSENT])
    (variant,) = side.variants
    assert not any(row.flips for row in variant.rows)
    assert variant.flip_words() == "a collision in 10 of 10 repeats at 0 %, 0 of 10 at 75 % and 0 of 10 at 95 % CPU load"
    both = [at_load(0.0, colliding(10)), at_load(0.75, colliding(10)), at_load(0.95, colliding(0))]
    (variant,) = side_of(*both, missing=[ABSENT]).variants
    assert variant.flip_words() == "no collision in 0 of 10 repeats at 0 %, 0 of 10 at 75 % and 10 of 10 at 95 % CPU load"


def test_other_ends_are_counted_level_by_level():
    late = [ended(repeat, "time is over") if repeat.repeat < 2 else repeat for repeat in colliding(10)]
    cells = [at_load(0.0, colliding(10)), at_load(0.75, late), at_load(0.95, late[:1] + late[2:])]
    (variant,) = side_of(*cells, missing=[ABSENT]).variants
    assert variant.flip_words() == (
        "the run ends by 'time is over' instead of 'done' in 2 of 10 repeats at 75 % and 1 of 9 at 95 % CPU load"
    )


# The mean path


def test_the_shift_of_the_mean_is_exact_before_and_after_the_collision():
    base = cell([run(n, 0.0, 0.0, collides=True) for n in range(5)])
    moved = cell([run(n, 0.25, -0.5, collides=True) for n in range(5)])
    shift = find_shift(moved, base)
    assert (shift.before.shift_m, shift.before.error_m) == (0.25, 0.0)
    assert (shift.after.shift_m, shift.after.error_m, shift.after.tick) == (0.5, 0.0, 3)
    assert shift.against == base.header.cell
    same = find_shift(base, base)
    assert (same.before.shift_m, same.after.shift_m) == (0.0, 0.0)


def test_the_shift_has_the_standard_error_of_two_means():
    base = cell([run(n) for n in range(4)])
    spread = cell([run(0, 0.0), run(1, 0.5)])
    shift = find_shift(spread, base)
    assert shift.before.shift_m == 0.25
    assert shift.before.error_m == pytest.approx(math.sqrt(0.125 / 2))
    assert shift.after is None  # nothing collides


def test_the_shift_is_over_ticks_that_all_repeats_of_both_have():
    def cut(repeat, last, off_m):
        keep = repeat.tick <= last
        values = repeat.values.copy()
        values[repeat.tick == last + 1, 0] += off_m
        fields = {name: getattr(repeat, name)[keep] for name in ("tick", "actor", "time_s", "digests")}
        return replace(repeat, values=values[keep], **fields)

    base = cell([run(n) for n in range(3)])
    shorter = cell([cut(run(0), 2, 9.0), run(1, 0.0), run(2, 0.0)])
    assert find_shift(shorter, base).before.shift_m == 0.0
    gone = cell([replace(cut(run(0), 2, 0.0), repeat=0), run(1, 3.0), run(2, 3.0)])
    assert find_shift(gone, base).before.shift_m == 2.0  # (0 + 3 + 3) / 3; of later ticks, 3.0, not all have a say


def test_means_are_held_against_the_cell_with_no_load_and_all_else_equal():
    def at(nice, load, off_m):
        fields = {"variant": "v", "condition": {"nice": nice, "cpu_load": load}, "cell": f"{nice} {load}"}
        return cell([run(n, off_m) for n in range(3)], **fields)

    cells = [at(0, 0.95, 1.0), at(0, 0.0, 0.0), at(19, 0.0, 2.0), at(19, 0.95, 2.5)]
    rows = side_of(*cells, missing=[ABSENT]).variants[0].rows
    assert [None if row.shift is None else row.shift.against for row in rows] == ["0 0.0", None, None, "19 0.0"]
    assert [row.shift.before.shift_m for row in rows if row.shift] == [1.0, 0.5]


def test_without_a_load_the_first_cell_is_the_base():
    cells = [cell([run(n, off_m) for n in range(3)], condition={"hash_seed": seed}) for seed, off_m in ((0, 0.0), (1, 0.125))]
    first, second = side_of(*cells, missing=[ABSENT]).variants[0].rows
    assert first.shift is None
    assert second.shift.before.shift_m == 0.125


# Pace


def pace_of(*latencies_s):
    finder = PaceFinder(0.05)
    logs = [
        (n, HostLog(latency_ticks=np.arange(1, len(latency_s) + 1), latency_s=np.array(latency_s)))
        for n, latency_s in enumerate(latencies_s)
    ]
    assert list(finder.watch(logs)) == logs
    return finder.result()


def test_steps_are_counted_from_the_first_tick_on():
    pace = pace_of([1.0, 0.125, 0.125, 0.25])
    assert (pace.steps_per_s, pace.run_s) == (6.0, 1.5)
    assert pace.times_real_time == pytest.approx(0.3)


def test_the_median_repeat_counts():
    assert pace_of([1.0, 0.5], [1.0, 0.25], [1.0, 0.125]).steps_per_s == 4.0


def test_ticks_that_come_all_at_once_after_the_run_are_not_taken_for_its_pace():
    pace = pace_of([3.0, 0.0, 0.0, 0.0])
    assert pace.steps_per_s == pytest.approx(4 / 3.0)


def test_logs_without_times_have_no_pace():
    assert pace_of([], []) is None
    assert PaceFinder(0.05).result() is None
    assert cell([run(0), run(1)]).pace is None


# Settings that remove a variance


def variant(name, sigma_m, simulator="engine", *, late_m=None, **settings):
    """A variant with one cell of two repeats, one off by ``sigma_m``, the other by as much the other way."""
    runs = [run(n, sign * sigma_m, sign * (late_m or sigma_m), collides=True) for n, sign in enumerate((1, -1))]
    return cell(runs, cell=name, variant=name, simulator=simulator, settings={"mode": "game-loop", **settings})


def test_the_one_setting_that_removes_the_variance_is_named():
    side = side_of(
        variant("engine frame", 0.03125, late_m=0.25, controller="frame"),
        variant("engine physics", 0.0, controller="physics"),
        variant("engine synchronous", 0.0, controller="physics", mode="synchronous"),
    )
    (conclusion,) = side.conclusions
    (change,) = conclusion.changes
    assert (change.from_variant, change.to_variant) == ("engine frame", "engine physics")
    assert change.settings == (("controller", "frame", "physics"),)
    assert (change.to_sigma_m, change.to_verdict) == (0.0, Verdict.BIT_IDENTICAL)
    assert change.words() == "controller frame -> physics: max sigma 35.4 cm -> 0; bit-identical, the variance is gone"
    assert conclusion.words() == (
        "engine: Bit-identical in all 4 repeats: physics and synchronous, the same bits in all of them. Varies: frame (max "
        "sigma 4.42 cm before the first collision, 35.4 cm after). controller frame -> physics: max sigma 35.4 cm -> 0; "
        "bit-identical, the variance is gone. "
        "The test's verdict is the same in every repeat: a collision in 2 of 2 repeats that vary"
    )


def test_where_no_variant_differs_in_one_setting_the_nearest_is_named_with_all_of_them():
    side = side_of(
        variant("loop", 0.1, time_scale=4), variant("still", 0.0, mode="synchronous", time_scale=1, threads=1, queue=2, more=3)
    )
    assert side.conclusions[0].changes == ()  # too many: not the same thing any more
    side = side_of(variant("loop", 0.1, time_scale=4), variant("still", 0.0, mode="synchronous", time_scale=1))
    (change,) = side.conclusions[0].changes
    assert change.words().startswith("mode game-loop -> synchronous and time_scale 4 -> 1: max sigma 14.1 cm -> 0; ")


def test_a_little_less_is_no_cure_and_a_tenth_is_one_without_being_gone():
    little = side_of(variant("a", 0.1, threads=2), variant("b", 0.09, threads=1))
    assert little.conclusions[0].changes == ()
    (change,) = side_of(variant("a", 0.1, threads=2), variant("b", 0.001, threads=1)).conclusions[0].changes
    assert change.words() == "threads 2 -> 1: max sigma 14.1 cm -> 1.41 mm"


def test_other_simulators_and_other_conditions_are_no_comparison():
    side = side_of(variant("a", 0.1, "one", threads=2), variant("b", 0.0, "other", threads=1))
    assert [conclusion.changes for conclusion in side.conclusions] == [(), ()]
    still = elsewhere(variant("b", 0.0, threads=1), condition={"cpu_load": 0.95})
    assert side_of(variant("a", 0.1, threads=2), still).conclusions[0].changes == ()


def test_a_variant_that_only_differs_between_conditions_varies_and_is_told_so():
    cells = [at_load(load, [run(n, load) for n in range(3)], simulator="engine") for load in (0.0, 0.5)]
    (conclusion,) = side_of(*cells, missing=[ABSENT]).conclusions[:1]
    assert conclusion.text.startswith("Varies: each cell repeats itself, but not under another condition. ")


def test_sensors_that_see_something_else_are_told_apart_from_paths():
    def seeing(n):
        picture = np.full((4, 5, 4), n // 2, np.uint8)
        return replace(run(n), sensors=(frame_of(2, "front", "sensor.camera.rgb", picture, keep=True),))

    (conclusion,) = side_of(cell([seeing(n) for n in range(3)], variant="v"), missing=[ABSENT]).conclusions[:1]
    assert conclusion.text.startswith("Varies: paths repeat themselves to the bit, what sensors saw does not. ")
    shorter = replace(run(2), end=RunEnd(TICKS, "something else"))
    (conclusion,) = side_of(cell([run(0), run(1), shorter], variant="v"), missing=[ABSENT]).conclusions[:1]
    assert conclusion.text.startswith(
        "Varies: in structure, with the same paths. The test's verdict flips: the run ends by 'something"
    )


# What is missing

ABSENT = MissingCell(
    "godot, cpu_load 0 %", "godot", "godot", "s", {}, "Godot is not installed: apt-get install it", "not applicable"
)


def test_one_variant_alone_has_nobody_beside_it():
    assert side_of(cell([run(0), run(1)])) is None


def test_what_is_not_installed_stands_beside_the_others_with_what_to_do():
    other = replace(ABSENT, name="godot, cpu_load 95 %")
    side = side_of(cell([run(0), run(1)], variant="lockstep"), missing=[ABSENT, other])
    assert [variant.words() for variant in side.absent] == ["godot: Godot is not installed: apt-get install it"]
    assert [conclusion.installed for conclusion in side.conclusions] == [True, False]
    assert side.conclusions[1].words() == "godot: Godot is not installed: apt-get install it"


def test_a_variant_with_some_figures_is_not_absent():
    missing = replace(ABSENT, simulator="sim", variant="lockstep", reason="killed", kind="failed")
    side = side_of(cell([run(0), run(1)], variant="lockstep"), cell([run(0), run(1)], variant="loop"), missing=[missing])
    assert side.absent == ()


def test_a_cell_keeps_its_pace_and_what_its_test_came_to():
    times = HostLog(latency_ticks=np.arange(1, 5), latency_s=np.full(4, 0.25))
    found = cell([replace(repeat, host=times) for repeat in colliding(1, of=3)])
    assert found.pace.steps_per_s == 4.0
    assert [(ending.collisions, ending.repeats) for ending in found.endings] == [((), (1, 2)), (((1, 2),), (0,))]


def test_a_variant_on_a_scenario_has_the_domain_of_that_scenario():
    """It varies in one of two: what holds in the other is no answer to where it holds in this one."""
    still = at_load(0.0, [run(n) for n in range(3)], scenario="calm")
    moved = elsewhere(at_load(0.0, [run(n, 1.0 * n) for n in range(3)], scenario="wild"), cell="wild")
    side = side_of(still, moved, at_load(0.0, [run(n) for n in range(3)], variant="lockstep", scenario="calm"))
    found = {
        (shown.variant, shown.scenario): "nowhere" if shown.domain.empty else shown.domain.region() for shown in side.variants
    }
    assert found["game loop", "wild"] == "nowhere"
    assert found["game loop", "calm"] == "everywhere"
