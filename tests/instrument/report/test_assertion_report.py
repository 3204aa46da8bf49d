"""The part of the page about assertions, the figure of accuracy, and mean deviation against load."""

import re

import pytest

from samepath.instrument.evaluation import analyse
from samepath.instrument.report.html import render_html
from tests.conftest import cell_of, straight_run
from tests.support.headless import MARKS

DATA = {
    "monitors": [
        {"name": "apart", "expression": "distance(1, 2) > 3.29"},
        {"name": "slow & <steady>", "expression": "speed(1) < 9"},
        {"name": "elsewhere", "expression": "speed(1) < 9", "scenarios": ["t"]},
    ]
}


def cells(*spreads_m, loads=(0.0, 0.75)):
    found = []
    for index, spread_m in enumerate(spreads_m):
        runs = [
            straight_run(number, shift=lambda tick, actor, d=(number % 3 - 1) * spread_m: d if actor == 2 else 0.0)
            for number in range(9)
        ]
        condition = {"cpu_load": loads[index % len(loads)]}
        name = f"cell {index}, {'long ' * 8}"
        found.append(cell_of(runs, cell=name, simulator="it", condition=condition, scenario="st"[index // len(loads)]))
    return found


def page(*spreads_m, **options):
    return render_html(analyse(*cells(*spreads_m), monitors=DATA, progress=False, **options))


def text_of(part):
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


def section(html):
    return re.search(r'<section id="assertions">(.*?)</section>', html, re.DOTALL)[1]


def test_assertions_that_flip_are_told_in_words_first():
    part = section(page(0.0, 0.05, 0.0, 0.0))
    words = text_of(part)
    assert words.startswith(
        "Do the assertions flip? Yes: 1 of 3 assertions passes in some repeats and fails in others of the same cell."
    )
    assert "apart: passes in 33 of 36 repeats, flips in cell 1" in words
    assert "keep 0.1 m of margin" in words
    assert "elsewhere: passes in all 18 repeats" in words
    assert len(re.findall("<li>", part)) == 4, "an assertion, or coverage, in a line each"
    assert "slow &amp; &lt;steady&gt;" in part
    assert part.count("<svg") == 1
    assert "<details>" in part


def test_where_nothing_flips_it_says_so_and_draws_nothing():
    part = section(page(0.0, 0.001, 0.0, 0.0))
    assert "No: all 3 assertions have one verdict in each cell." in text_of(part)
    assert "<svg" not in part


def test_without_monitors_there_is_no_such_part():
    html = render_html(analyse(*cells(0.0, 0.05), progress=False))
    assert 'id="assertions"' not in html


def test_mean_deviation_is_drawn_against_load_with_the_drafts_line():
    html = page(0.001, 0.05, 0.0, 0.0)
    assert "Mean deviation against CPU load" in html
    assert "the drafts&#39; line, 1 mm" in html or "the drafts' line, 1 mm" in html
    assert "Mean deviation against" not in page(0.0, 0.0, 0.0, 0.0)


def test_bias_and_spread_share_a_figure():
    reference = cells(0.0)[0]
    html = render_html(analyse(*cells(0.05), monitors={"monitors": ["speed(1) < 9"]}, reference=reference, progress=False))
    assert "how far the mean path of actor" in html


@pytest.mark.parametrize("width_px", [1280, 390])
def test_the_part_fits_wide_and_narrow_and_no_label_is_cut(look, width_px):
    seen = look(page(0.0, 0.05, 0.0, 0.02), width_px)
    assert seen["width"] <= width_px
    assert seen["cut"] == []
    assert seen["covered"] == []


for mark in MARKS:
    test_the_part_fits_wide_and_narrow_and_no_label_is_cut = mark(test_the_part_fits_wide_and_narrow_and_no_label_is_cut)
