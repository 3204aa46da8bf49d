"""Figures over factors: points stand where the load was measured, zeros and missed targets are seen, boxes are quartiles."""

import re
from dataclasses import replace

import numpy as np
import pytest

from samepath.instrument.analysis.factors import MissingCell, find_factors
from samepath.instrument.report.factor_figures import (
    DeviationGroup,
    deviation_boxes,
    find_hue,
    groups_over,
    lines_over,
    phases_against,
    published_sigma,
    sigma_against,
)
from samepath.instrument.report.published import TESTS, published
from samepath.instrument.report.study_view import study_figures
from samepath.instrument.report.svg import length_axis
from tests.support.report_cells import (
    case_study,
    controller_study,
    document_of,
    identical,
    nice_study,
    noisy,
    study_cell,
)

TOLERANCE_M = 0.01
AXIS = length_axis([0.0, 1e-5, 1.0])


def load_lines(variant: str = "game loop"):
    cells = case_study()
    factors = find_factors(cells)
    factor = next(factor for factor in factors if factor.variant == variant)
    return factor, lines_over(factor, factors, cells, lambda cell: cell.summary.max_sigma_m)[0]


def marks(svg: str, colour: str) -> list[tuple[float, float]]:
    """Where the marks of a colour stand within the axes; those below them belong to the legend."""
    found = [
        (float(x), float(y), style)
        for x, y, style in re.findall(r'<use href="[^"]*" x="([\d.]+)" y="([\d.]+)" style="([^"]*)"', svg)
    ]
    heights = [y for _, y, style in found if "stroke: #5f6b7a" in style]
    bottom = max(heights, key=heights.count)  # the ticks of the axis below
    return [(x, y) for x, y, style in found if f"stroke: {colour}" in style and y <= bottom]


def test_there_is_a_line_per_scenario_and_a_point_per_level():
    factor, lines = load_lines()
    assert factor.levels == (0.0, 0.5, 0.95)
    assert [line.label for line in lines] == ["table1-test1", "table1-test2"]
    first = lines[0].points
    assert [point.level for point in first] == [0.0, 0.5, 0.95]
    assert [point.place for point in first] == pytest.approx([0.08, 0.52, 0.87])
    assert [point.missed for point in first] == [False, False, True]
    assert first[0].sigma_m == 0.0 < first[1].sigma_m < first[2].sigma_m


def test_points_stand_at_the_measured_load_and_ticks_at_the_asked_one():
    factor, lines = load_lines()
    svg = sigma_against(factor, lines, AXIS, TOLERANCE_M)
    assert all(f">{level}<" in svg for level in ("0 %", "50 %", "95 %"))
    assert ">CPU utilisation, measured (ticks: asked)<" in svg
    grey = marks(svg, "#5f6b7a")
    ticks = sorted(x for x, y in grey if y == max(y for _, y in grey))
    points = sorted({x for x, _ in marks(svg, "#0072b2")})
    share = [(x - ticks[0]) / (ticks[2] - ticks[0]) * 0.95 for x in points]
    assert share == pytest.approx([0.08, 0.52, 0.87], abs=2e-3)


def test_a_line_runs_from_left_to_right_even_where_measured_loads_are_not_in_the_order_asked():
    factor, lines = load_lines()
    places = {0.0: 0.9, 0.5: 0.4, 0.95: 0.6}
    line = replace(lines[0], points=tuple(replace(point, place=places[point.level]) for point in lines[0].points))
    path = re.search(r'<path d="([^"]*)"[^>]*stroke: #0072b2', sigma_against(factor, [line], AXIS, TOLERANCE_M))[1]
    along = [float(x) for x in re.findall(r"[ML] ([\d.]+)", path)]
    assert len(along) == 3
    assert along == sorted(along)


def test_a_load_that_missed_its_target_is_marked():
    factor, lines = load_lines()
    assert ">load missed its target<" in sigma_against(factor, lines, AXIS, TOLERANCE_M)
    held = [replace(line, points=tuple(replace(point, missed=False) for point in line.points)) for line in lines]
    assert "missed" not in sigma_against(factor, held, AXIS, TOLERANCE_M)


def test_zeros_of_several_lines_lie_side_by_side_in_the_band():
    svg = sigma_against(*load_lines("lockstep"), AXIS, TOLERANCE_M)
    heights = [{y for _, y in marks(svg, colour)} for colour in ("#0072b2", "#d55e00")]
    assert [len(height) for height in heights] == [1, 1]
    assert heights[0] != heights[1]


def test_other_factors_make_lines_of_their_own_until_there_are_too_many():
    cells = nice_study()
    factors = find_factors(cells)
    load = next(factor for factor in factors if factor.name == "cpu_load")
    lines, folded = lines_over(load, factors, cells, lambda cell: cell.summary.max_sigma_m)
    assert [line.label for line in lines] == ["nice -20", "nice 0"]
    assert not folded
    many = tuple(
        replace(cell, header=replace(cell.header, condition={**cell.header.condition, "threads": threads}))
        for threads in range(1, 5)
        for cell in cells
    )
    lines, folded = lines_over(load, find_factors(many), many, lambda cell: cell.summary.max_sigma_m)
    assert [line.label for line in lines] == ["table1-test1"]
    assert folded
    assert lines[0].widest_m == max(cell.summary.max_sigma_m for cell in cells)


def test_the_published_phases_are_drawn_beside_ones_own():
    factor, lines = load_lines()
    before, after = replace(lines[1], label="before collision"), replace(lines[1], label="after collision")
    assert ">CARLA, after (published)<" in phases_against(
        factor, "table1-test2", before, after, AXIS, TOLERANCE_M, published("table1-test2")
    )
    assert "CARLA" not in phases_against(factor, "elsewhere", before, after, AXIS, TOLERANCE_M)
    assert ">0 *<" in published_sigma(TESTS, AXIS, TOLERANCE_M)


def test_a_box_is_drawn_from_the_quartiles_of_single_repeats():
    cells = nice_study()
    factors = find_factors(cells)
    nice = next(factor for factor in factors if factor.name == "nice")
    groups = [DeviationGroup(-20, None, tuple(np.geomspace(1e-4, 1e-2, 9).tolist()), missed=False)]
    axis = length_axis([1e-4, 1.0])
    svg = deviation_boxes(nice, None, "one", groups, axis, TOLERANCE_M)
    assert svg == deviation_boxes(nice, None, "one", groups, axis, TOLERANCE_M)
    box = re.search(r'<path d="M ([\d.]+) [\d.]+ L [\d.]+ [\d.]+ L ([\d.]+)[^"]*" [^>]*fill: #0072b2', svg)
    tolerance = re.search(r'<path d="M ([\d.]+) [\d.]+ L \1 [\d.]+ *"[^>]*stroke-dasharray', svg)
    left, right = sorted(float(group) for group in box.groups())
    decade = (float(tolerance[1]) - right) / (-2 - np.log10(np.percentile(groups[0].deviations_m, 75)))
    assert (right - left) / decade == pytest.approx(1.0, abs=0.02)  # from 10^-3.5 to 10^-2.5


def test_boxes_are_told_apart_by_a_load_within_a_level():
    cells = nice_study()
    factors = find_factors(cells)
    nice = next(factor for factor in factors if factor.name == "nice")
    hue = find_hue(nice, factors)
    assert hue.name == "cpu_load"
    groups = list(groups_over(nice, hue, cells))
    assert [(group.level, group.hue, group.missed) for group in groups] == [
        (-20, 0.5, False),
        (-20, 0.95, True),
        (0, 0.5, False),
        (0, 0.95, True),
    ]
    assert all(len(group.deviations_m) == 8 for group in groups)


def names(*cells) -> list[str]:
    return [group.name for group in study_figures(document_of(*cells))]


def test_only_what_was_varied_is_drawn():
    assert names(*case_study()) == [
        "Max sigma against CPU load",
        "Before and after collision against CPU load",
        "Mean deviation against CPU load",
    ]
    assert names(*nice_study()) == [
        "Max sigma against CPU load",
        "Max sigma against nice",
        "Single repeats per level of nice",
        "Mean deviation against CPU load",
    ]
    assert names(*controller_study()) == ["Single repeats per level of controller"]
    assert names(identical(), noisy()) == []


def test_phases_without_any_spread_are_named_and_not_drawn():
    group = study_figures(document_of(*case_study()))[1]
    assert len(group.figures) == 1
    assert "No spread in either phase: table1-test2 (lockstep)." in group.note


def test_on_a_machine_with_one_numa_node_the_figure_itself_says_so():
    cells = [study_cell("game loop", 1, 0.95, repeats=4, cores=cores) for cores in ("all", "one")]
    reason = "the machine has one NUMA node only: there is nothing to choose"
    missing = (MissingCell("numa local", "toy", "game loop", "table1-test1", {"numa": "local"}, reason, "not applicable"),)

    def boxes(**fields):
        groups = study_figures(document_of(*cells, **fields))
        return next(group for group in groups if group.name == "Single repeats per level of cores").figures[0].svg

    assert "One NUMA node here" in boxes(missing=missing)
    assert "NUMA" not in boxes()


def test_loads_raised_together_stand_midway_between_both_readings_beside_the_papers_figures():
    cells = []
    for cell in case_study():
        asked = cell.header.condition.get("cpu_load", 0.0)
        read = next(check for check in cell.conditions if check.name == "cpu_load")
        other = replace(read, name="gpu_load", measured=read.measured + 0.04, missed=False)
        header = replace(cell.header, condition={"cpu_load": asked, "gpu_load": asked})
        cells.append(replace(cell, header=header, conditions=(read, other)))
    factors = find_factors(cells)
    factor = next(factor for factor in factors if factor.variant == "game loop")
    assert factor.name == "cpu_and_gpu_load"
    points = lines_over(factor, factors, cells, lambda cell: cell.summary.max_sigma_m)[0][0].points
    assert [point.place for point in points] == pytest.approx([0.10, 0.54, 0.89])
    assert [point.missed for point in points] == [False, False, True]
    figures = str(study_figures(document_of(*cells)))
    assert "CARLA, published" in figures
    assert "Fig. 5" in figures
    assert "CPU and GPU utilisation, measured (ticks: asked)" in figures
