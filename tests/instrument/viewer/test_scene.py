"""What the viewer draws of a trace: outcomes once each, exact partings, differences that 16 bits keep, nobody who is absent."""

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.instrument.monitors.file import read_monitors
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.viewer.scene import ABSENT, shape_of, view_cell
from tests.conftest import STEP_S, cell_of, straight_run


def apart(repeat, by_m=1e-3, since=11):
    return straight_run(repeat, shift=lambda tick, actor: by_m if actor == 2 and tick >= since else 0.0)


def place(view, outcome, tick, actor):
    """Where something is drawn, put together as the shader does."""
    index, row = view.ticks.tolist().index(tick), [listed.id for listed in view.actors].index(actor)
    return view.reference[index, row, :3] + view.offsets[outcome, row, index, :3].astype(float) + np.array(view.origin_m)


def test_equal_repeats_are_one_outcome_and_the_largest_is_the_reference():
    view = view_cell(cell_of([apart(0), straight_run(1), straight_run(2)]))
    assert [outcome.repeats for outcome in view.outcomes] == [(1, 2), (0,)]
    assert view.offsets.shape == (2, 2, 20, 4)
    assert not view.offsets[0].any()
    assert view.repeats == 3


def test_a_parting_is_the_first_tick_whose_bits_differ_and_its_actor():
    view = view_cell(cell_of([straight_run(0), straight_run(1), apart(2, by_m=1e-12)]))
    assert [(outcome.parting_tick, outcome.parting_actor) for outcome in view.outcomes] == [(None, None), (11, 2)]
    assert view.parting_tick == 11


def test_every_pose_is_drawn_where_it_was_logged():
    runs = [straight_run(0), straight_run(1), apart(2, by_m=0.37)]
    view = view_cell(cell_of(runs))
    for tick in (1, 10, 11, 20):
        for actor in (1, 2):
            wanted = [0.7 * tick, 3.3 * actor, 0.0]
            assert place(view, 0, tick, actor) == pytest.approx(wanted, abs=2e-6)
            wanted[1] += 0.37 if actor == 2 and tick >= 11 else 0.0
            assert place(view, 1, tick, actor) == pytest.approx(wanted, abs=0.37 * 5e-4 + 2e-6)


@pytest.mark.parametrize("by_m", [1e-6, 1e-4, 1e-2, 1.0, 100.0])
def test_small_differences_far_from_the_origin_are_kept_to_be_magnified(by_m):
    def run(repeat, y_m):
        recorder = Recorder(repeat, ("x_m", "y_m"), STEP_S)
        recorder.actor(1, "car")
        for tick in range(3):
            recorder.state(tick, 1, {"x_m": 5000.0 + tick, "y_m": y_m})
        recorder.end(2, "done")
        return recorder.finish()

    view = view_cell(cell_of([run(0, -7000.0), run(1, -7000.0), run(2, -7000.0 + by_m)], channels=("x_m", "y_m")))
    # 16 bits hold 11 digits; a difference of two coordinates of this size is itself only known to 1e-12 m.
    assert view.offsets[1, 0, :, 1].astype(float) == pytest.approx([by_m] * 3, rel=6e-4, abs=3e-8)
    assert view.spread_m == pytest.approx([by_m] * 3, rel=1e-6)


def test_who_is_not_there_is_not_drawn_and_nobody_is_put_in_between():
    def run(repeat, leaves):
        recorder = Recorder(repeat, ("x_m", "y_m"), STEP_S)
        recorder.actor(1, "car")
        recorder.actor(2, "walker.pedestrian.0001")
        for tick in range(6):
            recorder.state(tick, 1, {"x_m": tick, "y_m": 0.0})
            if tick < leaves:
                recorder.state(tick, 2, {"x_m": 4.0, "y_m": tick})
        recorder.end(5, "done")
        return recorder.finish()

    view = view_cell(cell_of([run(0, 2), run(1, 2), run(2, 5)], channels=("x_m", "y_m")))
    there = view.offsets[:, 1, :, 3] != ABSENT
    assert there.tolist() == [[True] * 2 + [False] * 4, [True] * 5 + [False]]
    assert np.isfinite(view.reference).all()
    # Where the reference has nobody, the other is still drawn at its own place.
    assert place(view, 1, 4, 2)[:2] == pytest.approx([4.0, 4.0], abs=1e-6)


def test_headings_are_the_short_way_round():
    def run(repeat, yaw_deg):
        recorder = Recorder(repeat, ("x_m", "y_m", "yaw_deg"), STEP_S)
        recorder.actor(1, "car")
        recorder.state(0, 1, {"x_m": 0.0, "y_m": 0.0, "yaw_deg": yaw_deg})
        recorder.end(0, "done")
        return recorder.finish()

    view = view_cell(cell_of([run(0, 179.0), run(1, 179.0), run(2, -179.0)], channels=("x_m", "y_m", "yaw_deg")))
    assert view.offsets[1, 0, 0, 3] == pytest.approx(2.0, abs=0.01)


def test_too_many_poses_are_thinned_by_ticks_and_the_view_says_so():
    cell = cell_of([straight_run(0, ticks=300), straight_run(1, ticks=300), apart(2, since=11)])
    view = view_cell(cell, poses_most=4 * 100)
    assert view.every == 3
    assert view.ticks.tolist() == list(range(1, 301, 3))
    # What is not shown still counts: the parting is that of the whole log.
    assert view.parting_tick == 11


def test_more_than_a_page_can_draw_is_refused_in_one_line_with_what_to_do():
    with pytest.raises(InputError, match="--repeats"):
        view_cell(cell_of([straight_run(0), apart(1)]), poses_most=10)


def test_chosen_repeats_are_all_that_is_drawn():
    cell = cell_of([straight_run(0), straight_run(1), apart(2), apart(3, by_m=0.5)])
    view = view_cell(cell, repeats={2, 3})
    assert [outcome.repeats for outcome in view.outcomes] == [(2,), (3,)]
    assert view.repeats == 2
    with pytest.raises(InputError, match="--repeats"):
        view_cell(cell, repeats={9})


def test_events_are_marks_with_the_number_of_repeats_that_have_them():
    def run(repeat, hit):
        recorder = Recorder(repeat, ("x_m", "y_m"), STEP_S)
        recorder.actor(1, "car")
        recorder.actor(2, "car")
        for tick in range(4):
            recorder.state(tick, 1, {"x_m": tick, "y_m": 0.0})
            recorder.state(tick, 2, {"x_m": 4.0, "y_m": 0.0})
        if hit:
            recorder.event(2, "collision", 1, other=2)
        recorder.end(3, "done")
        return recorder.finish()

    view = view_cell(cell_of([run(0, True), run(1, True), run(2, False)], channels=("x_m", "y_m")))
    assert [(mark.tick, mark.words, mark.repeats) for mark in view.marks] == [
        (2, "actor 1 hits actor 2", 2),
        (3, "end: done", 3),
    ]
    assert [outcome.ending for outcome in view.outcomes] == [0, 1]
    assert view.endings == ("collision 1 with 2; done", "no collision; done")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vehicle.tesla.model3", "car"), ("vehicle.carlamotors.firetruck", "van"), ("vehicle.bh.crossbike", "bike"),
        ("walker.pedestrian.0001", "walker"), ("static.prop.bin", "prop"), ("Pedestrian_7", "walker"), ("my bus", "van"),
        ("something", "car"), ("", "car"),
    ],
)  # fmt: skip
def test_actors_are_drawn_as_what_they_are(name, kind):
    shape = shape_of(name)
    assert shape.kind == kind
    assert min(shape.length_m, shape.width_m, shape.height_m) > 0


MONITORS = read_monitors(
    {
        "monitors": [
            {"name": "near", "expression": "distance_to(2, 0, 0) < 1000"},
            {"name": "no such actor", "expression": "speed(77) < 1"},
        ]
    },
    "test",
)


def test_monitors_have_a_verdict_of_each_outcome_and_an_envelope_over_the_shown_ticks():
    cell = cell_of([straight_run(0), straight_run(1), apart(2, by_m=5000.0)])
    view = view_cell(cell, monitors=MONITORS)
    near, absent = view.monitors
    assert [outcome.repeats for outcome in view.outcomes] == [(0, 1), (2,)]
    assert (near.verdicts, near.passes, near.fails) == ((True, False), 2, 1)
    assert (near.low[:10] > 0).all()
    assert (near.low[10:] < 0).all()
    assert (near.high > 0).all()  # the others still hold: repeats disagree
    assert near.worst_tick >= 11
    assert near.worst_margin == pytest.approx(float(near.low.min()), rel=1e-6)
    assert absent.why_not
    assert absent.verdicts == (None, None)
    assert view_cell(cell, monitors=MONITORS, repeats=[0]).monitors[0].fails == 0


def test_monitors_are_thinned_with_the_ticks():
    runs = [straight_run(0, ticks=200), straight_run(1, ticks=200)]
    view = view_cell(cell_of(runs), poses_most=200, monitors=MONITORS)
    assert view.every > 1
    assert len(view.monitors[0].low) == len(view.ticks)
