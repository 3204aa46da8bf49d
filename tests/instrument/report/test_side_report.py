"""Variants side by side in the report: conclusions in words, figures with a row each, JSON, and the terminal."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from test_html import Page

from samepath.instrument.analysis.study import MissingCell
from samepath.instrument.report.console import print_document
from samepath.instrument.report.document import to_json
from samepath.instrument.report.html import render_html
from samepath.instrument.report.side_by_side import collision_strip, pace_words, rows_of, shared_axis, shift_words, sigma_rows
from samepath.instrument.traces.records import HostLog
from tests.support.report_cells import analyse, case_study_document, document_of, drive, identical, no_shift

HOW = "Godot is not installed (godot3-server was not found): apt-get install godot3-server"
GONE = tuple(
    MissingCell(f"godot, cpu_load {level}", "godot", "godot", "crash", {}, HOW, "not applicable") for level in ("0 %", "95 %")
)
STEP_TIMES = HostLog(latency_ticks=np.arange(1, 41), latency_s=np.array([1.0, *[0.125] * 39]))


def engine(variant: str, load: float, hits: int, size_m: float, **settings):
    """A cell of an engine: ``hits`` of 10 repeats collide, and all are off by multiples of ``size_m``."""

    def shift(repeat, tick, actor):
        return size_m * repeat * (10.0 if tick >= 60 else 1.0) if actor == 1 else 0.0

    runs = [replace(drive(n, shift if size_m else no_shift, ticks=70, collides=n < hits), host=STEP_TIMES) for n in range(10)]
    fields = {"scenario": "crash", "simulator": "panda", "variant": variant, "condition": {"cpu_load": load}}
    return analyse(runs, cell=f"{variant}, cpu_load {load:g}", settings={"mode": "loop", **settings}, **fields)


@pytest.fixture(scope="module")
def document():
    cells = [engine("panda loop", load, hits, 0.01) for load, hits in ((0.0, 10), (0.95, 7))]
    cells += [engine("panda synchronous", load, 10, 0.0, mode="synchronous") for load in (0.0, 0.95)]
    return document_of(*cells, missing=GONE)


@pytest.fixture(scope="module")
def page(document) -> Page:
    return Page(render_html(document))


def part(page: Page) -> str:
    return page.text[
        page.text.index("Side by side", page.text.index("permissible?")) : page.text.index("Domains of permissible")
    ]


def test_the_conclusion_of_each_engine_is_right_without_the_figures(page):
    text = part(page)
    assert "panda Bit-identical in all 20 repeats: synchronous. Varies: loop (max sigma 3.03 cm before the first" in text
    assert re.search(r"mode loop -> synchronous: max sigma [\d.]+ cm -> 0; bit-identical, the variance is gone", text)
    assert (
        "The test's verdict flips: loop: no collision in 0 of 10 repeats at 0 % and 3 of 10 at 95 % CPU load. Repeats" in text
    )
    assert f"godot {HOW}." in text


def test_every_cell_has_its_row_under_its_variant_with_its_domain(page):
    text = part(page)
    assert "panda loop Exceeds tolerance permissible: nowhere" in text
    assert "panda synchronous Bit-identical permissible: everywhere" in text
    row = r"95 % CPU load 3.03 cm [\d.]+ cm 10 of 10 7 of 10 0 \S* ?± [\d.]+ cm .* 8 0.4 3 of 10 repeats do not collide"
    assert re.search(row, text)
    assert "0 % CPU load 0 (exact) 0 (exact) 1 of 10 10 of 10 base 8 0.4 same in all" in text


def test_the_page_names_the_part_and_leads_there(document):
    html = render_html(document)
    assert '<a href="#side">Side by side</a>' in html
    assert html.index('<section id="answers">') < html.index('<section id="side">') < html.index('<section id="domains">')
    assert render_html(document) == html


def test_one_variant_has_no_such_part():
    html = render_html(document_of(*(replace(identical(), header=replace(identical().header, cell=f"{n}")) for n in range(4))))
    assert 'id="side"' not in html


def test_figures_have_a_row_per_variant_a_mark_per_level_and_a_place_for_zero(document):
    side = document.study.side_by_side
    rows, axis = rows_of(side), shared_axis(side, document.tolerance_m)
    svg = sigma_rows(rows, "before", lambda row: row.before_sigma_m, axis, document.tolerance_m)
    for words in ("panda loop", "panda synchronous", "0 % CPU load", "95 % CPU load", "0 (exact)", "tolerance 1 cm"):
        assert f">{words}<" in svg
    strip = collision_strip(rows)
    assert re.findall(r">(\d+ of 10)<", strip) == ["10 of 10", "7 of 10", "10 of 10", "10 of 10"]
    assert strip.count("stroke: #d55e00") == 1, "one frame: the cell whose verdict flips"
    assert "the test's verdict flips in 1 of them" in strip.replace("&#x27;", "'")


def test_twenty_variants_have_twenty_rows_and_rounding_errors_do_not_stretch_the_axis(document):
    side = document.study.side_by_side
    tiny = replace(side.variants[0], rows=(replace(side.variants[0].rows[0], before_sigma_m=4e-15),))
    many = replace(side, variants=tuple(replace(tiny, variant=f"engine {n} in a mode", simulator=f"{n}") for n in range(20)))
    axis = shared_axis(many, 0.01)
    assert axis.low >= -10
    svg = sigma_rows(rows_of(many), "before", lambda row: row.before_sigma_m, axis, 0.01)
    assert len(re.findall(r">engine \d+ in a mode<", svg)) == 20


def test_json_has_all_of_it(document):
    side = json.loads(to_json(document))["side_by_side"]
    assert [(conclusion["simulator"], conclusion["installed"], conclusion["flips"]) for conclusion in side["conclusions"]] == [
        ("panda", True, True),
        ("godot", False, False),
    ]
    assert side["conclusions"][0]["changes"][0]["settings"] == [
        {"name": "mode", "from_level": "loop", "to_level": "synchronous"}
    ]
    loop = side["variants"][0]
    assert (loop["repeatable"], loop["region"], loop["flips"]) == ("no", "", True)
    row = loop["rows"][1]
    assert (row["collided"], row["outcomes"], row["flip_words"]) == (7, 10, "3 of 10 repeats do not collide")
    assert [(ending["collisions"], ending["repeats"]) for ending in row["endings"]] == [([[2, 3]], 7), ([], 3)]
    assert row["shift"]["against"] == "panda loop, cpu_load 0"
    assert row["shift"]["before"]["shift_m"] == 0.0
    assert row["pace"]["steps_per_s"] == 8.0
    assert side["absent"] == [
        {"variant": "godot", "simulator": "godot", "kind": "not applicable", "reason": HOW, "words": f"godot: {HOW}"}
    ]


def printed(document, width: int) -> str:
    page = io.StringIO()
    print_document(Console(width=width, file=page), document)
    return page.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_has_conclusions_and_a_row_per_variant(document, width):
    text = printed(document, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    words = flat(text)
    assert "Side by side panda Bit-identical in all 20 repeats: synchronous." in words
    assert f"godot {HOW}." in words
    wanted = {
        80: r"panda loop 3.03 cm [\d.]+ cm 10 7 to 10 of 10 8",
        140: r"panda loop 3.03 cm / 3.03 cm [\d.]+ cm / [\d.]+ cm 10 / 10 10 / 7 of 10 8 / 8",
    }
    assert re.search(wanted[width], words)
    assert words.count("Not applicable here") == 1
    assert words.count(HOW) == 2, "in its conclusion, and once among what is not applicable, though two cells are missing"


def test_the_case_study_says_it_of_every_scenario():
    words = flat(printed(case_study_document(), 140))
    assert "toy lockstep Bit-identical in all 36 repeats." in words
    assert re.search(r"lockstep table1-test1 0 / 0 / 0 - / - / - 1 / 1 / 1 0 / 0 / 0 of 6", words)


def test_numbers_are_printed_for_people(document):
    row = document.study.side_by_side.variants[0].rows[1]
    assert pace_words(row.pace) == ("8", "0.4")
    assert pace_words(replace(row.pace, steps_per_s=12345.6, times_real_time=617.28)) == ("12300", "617")
    assert pace_words(None) == ("", "")
    assert shift_words(replace(row.shift.before, shift_m=0.031, error_m=0.012)) == "3.1 cm ± 1.2 cm"
    assert shift_words(replace(row.shift.before, shift_m=0.0, error_m=0.0)) == "0 (exact)"


def test_of_few_cells_the_conclusions_are_said_too(document):
    words = flat(printed(document_of(*document.cells[1:3]), 100))
    assert "panda: Bit-identical in all 10 repeats: synchronous. Varies: loop (max sigma 3.03 cm before" in words
