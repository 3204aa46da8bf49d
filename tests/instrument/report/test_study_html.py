"""A study's page: answers first, then domains, Table I, figures, factors, conditions, gaps, and only then the cells."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from test_html import Page, page_of

from samepath.instrument.report import cell_view
from samepath.instrument.report.html import render_html
from tests.support.report_cells import (
    MISSING,
    analyse,
    case_study,
    case_study_document,
    controller_study,
    document_of,
    drive,
    identical,
    nice_study,
)


@pytest.fixture(scope="module")
def html() -> str:
    return render_html(case_study_document())


@pytest.fixture(scope="module")
def page(html) -> Page:
    return Page(html)


def test_the_parts_come_in_the_order_of_questions(html):
    parts = ("answers", "domains", "results", "figures", "effects", "conditions", "missing", "cells")
    places = [html.index(f'<section id="{part}">') for part in parts]
    assert places == sorted(places)
    assert html.index('class="verdict') < places[0]


def test_both_questions_are_answered_per_variant(page):
    text = page.text
    first = text.index("Is it deterministic?")
    second = text.index("Under which conditions is its variance permissible?")
    assert first < text.index("lockstep Yes") < text.index("game loop No") < second
    answers = text[second : text.index("Domains of permissible variance", second)]
    assert "lockstep Everywhere (CPU load 0 % to 87 %) : 0 of 36 repeats beyond 1 cm" in answers
    assert re.search(
        r"game loop Up to 50 % CPU load : 0 of 24 repeats beyond 1 cm;.* Not at 87 % CPU load \(table1-test2, ", answers
    )


def test_a_domain_names_its_evidence_and_the_nearest_counter_example(page):
    text = page.text
    part = text[text.index("Domains of permissible variance") : text.index("Results by scenario")]
    assert "all scenarios everywhere (CPU load 0 % to 87 %) Bit-identical" in part
    assert part.count("lockstep all scenarios") == 1
    assert "lockstep table1-test1" not in part  # implied: the tolerance holds everywhere
    assert "game loop table1-test1 up to 50 % CPU load" in part
    assert re.search(r"at 87 % CPU load ?: (a repeat is|max sigma) [\d.]+ cm", part)


def test_table_one_has_the_published_figures_beside_it(page):
    text = page.text
    rows = text[text.index("CARLA, unrestricted") :]
    assert "lockstep table1-test1 no 18 0 (exact) Bit-identical 0 (exact) Bit-identical 3 cm 7 mm 0 % 50 % 95 %" in rows
    assert "For orientation only: another simulator, another machine." in rows


def test_cells_are_linked_by_what_tells_them_apart(page):
    labels = Counter()
    for tag, attrs in page.elements:
        if tag == "a" and "tone" in attrs.get("class", ""):
            labels[attrs["class"]] += 1
    assert labels["tone bit-identical"] == 8
    assert labels["tone bit-identical"] + labels["tone within-tolerance"] + labels["tone exceeds-tolerance"] == len(
        case_study()
    )


def test_missed_targets_are_listed_openly_and_all_conditions_are_there(page):
    text = page.text
    part = text[text.index("Conditions: asked and measured") : text.index("Cells without figures")]
    assert "4 of 12 missed their target" in part
    assert "table1-test1 lockstep cpu_load=0.95 CPU load 95 % 87 % 87 % to 87 % missed" in part
    assert "table1-test1 game loop cpu_load=0.5 CPU load 50 % 52 % 52 % to 52 % held" in part


def test_cells_without_figures_are_told_with_their_reasons_failures_first(page):
    text = page.text
    part = text[text.index("Cells without figures") : text.index("Cell by cell")]
    assert "test 2 at 75 % failed repeat 3: killed after 60 s" in part
    assert "test 1 at nice -20 not applicable here needs CAP_SYS_NICE" in part
    assert "test 2 at 95 % not run not known" in part
    assert part.index("failed") < part.index("not run") < part.index("not applicable here")
    assert "12 cells, 72 repeats; 3 cells without figures" in text


def test_one_cell_with_gaps_still_tells_them():
    assert "needs CAP_SYS_NICE" in page_of(identical(), missing=MISSING).text


def test_factors_are_tested_for_rate_and_size_apart(page):
    text = page.text
    part = text[text.index("Which factor matters") : text.index("Conditions: asked and measured")]
    assert "How far: the median pair of repeats apart How often: repeats that diverge" in part
    assert "0 % → 95 % 0 (exact) → 0 (exact) no difference 0 % → 0 % no difference 0 % → 0 % no difference" in part
    assert re.search(r"CPU load game loop all scenarios 0 % → 95 % .*corrected p = ", part)
    assert "p-values corrected by" in part


def test_leaks_and_controllers_are_told_where_they_were_looked_for():
    text = page_of(*controller_study()).text
    assert "The controller or the world?" in text
    assert "The controller or the world?" not in page_of(*nice_study()).text


def test_links_lead_somewhere_and_ids_are_unique(page):
    ids = Counter(page.having("id"))
    assert max(ids.values()) == 1
    assert {href.removeprefix("#") for href in page.having("href")} <= set(ids)


def test_the_page_is_the_same_when_made_again(html, drawn):
    drawn.clear()
    assert render_html(case_study_document()) == html


def test_of_many_varying_cells_only_the_worst_is_open(drawn):
    runs = [drive(repeat, lambda repeat, tick, actor: 1e-3 * repeat, ticks=4) for repeat in range(2)]
    cells = [analyse(runs, cell=f"cell {number}") for number in range(14)]
    worst = replace(cells[5], summary=replace(cells[5].summary, max_deviation_m=99.0))
    cells[5] = worst
    # Which of them are open is all that is looked at: one set of figures serves them all.
    same = tuple(cell_view._figures(worst))
    drawn.update({id(cell): (cell, same) for cell in cells})
    page = Page(render_html(document_of(*cells)))
    sections = [(tag, attrs["id"]) for tag, attrs in page.elements if attrs.get("class") == "cell"]
    assert [section for tag, section in sections if tag == "section"] == ["cell-6"]
    assert len([section for tag, section in sections if tag == "details"]) == 13


def test_names_of_levels_and_gaps_are_text_and_never_markup():
    gap = replace(MISSING[0], name="<b>gap</b>", reason="<i>because</i> & so")
    page = Page(render_html(document_of(*controller_study(), missing=(gap,))))
    assert not {"b", "i", "none"} & {tag for tag, _ in page.elements}
    assert "<b>gap</b>" in page.text
    assert "<none & such>" in page.text


def test_no_number_is_printed_that_is_none(page):
    assert not re.search(r"\b(NaN|nan|None|inf|Infinity|null|Undefined)\b", page.text)
