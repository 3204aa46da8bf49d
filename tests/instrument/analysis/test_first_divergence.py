"""One comparer: every verb names the same first divergence of the same runs."""

import json
from dataclasses import replace

import numpy as np
import pytest

import samepath
from samepath.core.channels import POSITION
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.explain import explain_cell
from samepath.instrument.analysis.partings import find_parting
from samepath.instrument.golden import check_golden, write_golden
from samepath.instrument.golden_file import PATH_ERROR_M
from samepath.instrument.repeated_calls import compare_values
from samepath.instrument.replaying import first_difference
from samepath.instrument.report.console import cell_table
from samepath.instrument.report.words import exclusion
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import header

CHANNELS = ("x_m", "y_m", "z_m", "vx_mps", "throttle_ratio", "resampling_m")


def run(repeat, change=lambda tick, actor: {}, *, ticks=8, events=(), end="done", types=("car", "car"), gone=None):
    recorder = Recorder(repeat, CHANNELS, 0.1)
    for actor, kind in enumerate(types, start=1):
        recorder.actor(actor, kind)
    for tick in range(1, ticks + 1):
        for actor in (1, 2):
            if gone is None or actor != gone[0] or tick < gone[1]:
                values = {"x_m": 0.7 * tick, "y_m": 3.3 * actor, "z_m": 0.0, "vx_mps": 7.0, "throttle_ratio": 0.5}
                recorder.state(tick, actor, {**values, "resampling_m": 0.001, **change(tick, actor)})
    for event in events:
        recorder.event(*event)
    recorder.end(ticks, end)
    return recorder.finish()


def moved(at, who=2, by=0.25, **other):
    def change(tick, actor):
        return {"x_m": 0.7 * tick + by, **other} if tick >= at and actor == who else {}

    return change


def resampled(at, who=2, by=0.25):
    """Actor 2 moves at ``at``; the bound of resampling differs from the second tick on, of both actors."""
    return lambda tick, actor: {**moved(at, who, by)(tick, actor), **({"resampling_m": 0.002} if tick >= 2 else {})}


def bound_only(tick, actor):
    return {"resampling_m": 0.003} if tick >= 2 else {}


CASES = {
    "a bound of resampling differs before the state": (run(1, resampled(4)), (4, 2, "x_m", 0.25)),
    "twelve micrometres": (run(1, resampled(4, by=12e-6)), (4, 2, "x_m", 12e-6)),
    "only the bound differs": (run(1, bound_only), (2, 1, "resampling_m", 0.0)),
    "a command before a place": (
        run(1, lambda tick, actor: {} if tick < 3 else {"x_m": 9.0} if actor == 1 else {"throttle_ratio": 0.0}),
        (3, 2, "throttle_ratio", 0.0),
    ),
    "a speed before a place": (run(1, moved(5, vx_mps=6.0)), (5, 2, "vx_mps", 0.25)),
    "an actor is gone": (run(1, gone=(2, 6)), (6, 2, "presence", None)),
    "another type": (run(1, types=("car", "lorry")), (1, 2, "type", 0.0)),
    "an event": (run(1, bound_only, events=((4, "collision", 1, 2),)), (4, None, "event", None)),
    "an event after the states": (run(1, moved(3), events=((4, "collision", 1, 2),)), (3, 2, "x_m", 0.25)),
    "another end": (run(1, bound_only, end="stopped"), (8, None, "end", None)),
    "a longer run": (run(1, ticks=10), (8, None, "end", None)),
}


def golden_first(tmp_path, reference, other):
    path = tmp_path / "run.golden"
    write_golden(path, MemoryCell(header(channels=CHANNELS), [reference]), progress=False)
    checked = check_golden(path, MemoryCell(header(channels=CHANNELS), [other]), progress=False)
    found = checked.runs[0].difference
    assert json.loads(checked.to_json())["runs"]
    if found.where != "state":
        return found.tick, None, found.where, None
    actor = found.actors[0]
    if not (actor.present and actor.expected):
        return found.tick, actor.actor, "presence", None
    return found.tick, actor.actor, actor.fields[0], actor.apart_m


@pytest.mark.parametrize("name", CASES)
def test_every_verb_names_the_same_first_divergence(name, tmp_path):
    other, (tick, actor, field, distance_m) = CASES[name]
    reference = run(0)
    cell = MemoryCell(header(channels=CHANNELS), [reference, replace(reference, repeat=1), replace(other, repeat=2)])
    first = analyse_cell(cell).first_divergence
    assert (first.reference_repeat, first.repeat) == (0, 2)
    assert (first.tick, first.actor, first.field) == (tick, actor, field)
    assert first.distance_m == (None if distance_m is None else pytest.approx(distance_m))
    assert f"at tick {tick} " in first.words()
    parting = explain_cell(cell).partings[0].parting
    assert parting.first == first
    by_plugin = compare_values([reference, reference, other])
    assert by_plugin.lines[-1] == first.words()
    report = json.loads(samepath.analyse(cell, progress=False).to_json())["cells"][0]
    assert report["first_divergence"]["tick"] == tick
    assert report["why"]["tick"] == tick
    golden = golden_first(tmp_path, reference, other)
    assert golden[:3] == (tick, actor, field)
    if distance_m is not None:
        assert golden[3] == pytest.approx(distance_m, abs=PATH_ERROR_M)
    if actor is not None:
        assert first_difference(reference, other).startswith(f"tick {tick}, actor {actor}, {field}: ")


def test_report_and_explain_name_the_same_two_runs_where_outcomes_are_many():
    random = np.random.default_rng(5)
    for _ in range(30):
        runs = []
        for repeat in range(12):
            at, by = int(random.integers(2, 5)), float(random.integers(0, 3))
            runs.append(run(repeat, resampled(at, int(random.integers(1, 3)), by) if by else bound_only))
        cell = MemoryCell(header(channels=CHANNELS), runs)
        explanation, first = explain_cell(cell), analyse_cell(cell).first_divergence
        assert explanation.partings[0].parting.first == first
        # The independent witness: every pair with the largest outcome, row by row, without digests.
        reference = cell.load(first.reference_repeat)
        kept = [index for index, name in enumerate(CHANNELS) if name != "resampling_m"]
        ticks = {}
        for other in runs:
            rows = np.flatnonzero((other.values[:, kept] != reference.values[:, kept]).any(axis=1))
            if len(rows):
                ticks[other.repeat] = int(other.tick[rows[0]])
        if ticks:
            assert (first.tick, first.repeat) == min((tick, repeat) for repeat, tick in ticks.items())


def test_the_distance_is_that_of_the_recorded_places():
    a, b = run(0), run(1, moved(4, by=0.3, y_m=6.2))
    found = find_parting(a, b, 0.1).first
    axes = [CHANNELS.index(axis) for axis in POSITION]
    row = np.flatnonzero((a.tick == 4) & (a.actor == 2))[0]
    assert found.distance_m == pytest.approx(float(np.linalg.norm(a.values[row, axes] - b.values[row, axes])), rel=1e-14)


def test_what_repeats_cannot_exclude_claims_no_run_without_divergence_where_some_diverge():
    runs = [run(repeat, moved(4) if repeat < 14 else lambda tick, actor: {}) for repeat in range(40)]
    diverging = MemoryCell(header(channels=CHANNELS), runs)
    clean = MemoryCell(header(channels=CHANNELS), [run(repeat) for repeat in range(20)])
    both = samepath.analyse(diverging, clean, progress=False)
    assert exclusion(both) == "20 repeats without divergence cannot exclude a rate below 13.9 % (95 % confidence)"
    alone = samepath.analyse(diverging, progress=False)
    assert exclusion(alone) == "40 repeats cannot exclude another divergence with a rate below 7.22 % (95 % confidence)"


def test_a_sigma_above_the_largest_deviation_is_explained_once():
    two = [run(0), run(1, moved(4, by=0.5))]
    report = samepath.analyse(MemoryCell(header(channels=CHANNELS), two), progress=False)
    summary = report.cells[0].summary
    assert summary.max_sigma_m == pytest.approx(0.5 / 2**0.5)
    assert summary.max_deviation_m == 0.25
    assert "divides by n - 1" in str(cell_table(report, phases=False).caption)
    same = samepath.analyse(MemoryCell(header(channels=CHANNELS), [run(0), run(1)]), progress=False)
    assert cell_table(same, phases=False).caption is None
