"""The terminal: of many cells the answers first, in words that fit the width; of few a line each, as ever."""

import io

import pytest
from rich.console import Console

from samepath.instrument.report.console import limits_line, print_document
from tests.support.report_cells import case_study, case_study_document, document_of, identical, nice_study, noisy


def printed(document, width: int) -> str:
    page = io.StringIO()
    print_document(Console(width=width, file=page), document)
    return page.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, 140])
def test_a_study_fits_the_terminal(width):
    text = printed(case_study_document(), width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "…" not in text  # nothing was cut off
    assert len(text.splitlines()) < 75


@pytest.mark.parametrize("width", [80, 140])
def test_the_answers_come_first_then_table_one_then_what_is_missing(width):
    text = flat(printed(case_study_document(), width))
    wanted = (
        "exceeds-tolerance 2 of 12 cells exceed 1 cm",
        "Is it deterministic? lockstep Yes",
        "game loop No",
        "Under which conditions is its variance permissible? lockstep Everywhere",
        "Max sigma by scenario. Restricted: before the first collision.",
        "lockstep table1-test1 18 0 0 bit-identical",
        "What matters",
        "Asked, but not reached - CPU load 95 % asked, 87 % measured: 4 cells",
        "Failed - test 2 at 75 %: repeat 3: killed after 60 s",
        "Not run - test 2 at 95 %: no reason is known",
        "Not applicable here - test 1 at nice -20: needs CAP_SYS_NICE",
    )
    places = [text.index(words) for words in wanted]
    assert places == sorted(places)


def test_published_figures_stand_beside_table_one_where_there_is_room():
    assert "CARLA" in printed(case_study_document(), 140)
    assert "CARLA" not in printed(case_study_document(), 80)
    renamed = document_of(*(identical() for _ in range(4)))
    assert "CARLA" not in printed(renamed, 140)


def test_long_lists_are_counted_not_printed():
    document = case_study_document(missing=tuple(case_study_document().missing[0] for _ in range(30)))
    assert flat(printed(document, 100)).count("CAP_SYS_NICE") == 8
    assert "and 22 more, in the report" in printed(document, 100)


def test_few_cells_have_a_line_each_and_the_trend_of_a_factor():
    text = printed(document_of(identical(), noisy()), 140)
    assert text.splitlines()[0] == "exceeds-tolerance  1 of 2 cells exceed 1 cm"
    assert "sigma before" in text
    assert "Is it deterministic?" not in text
    assert "max sigma" in flat(printed(document_of(*nice_study()[:2]), 140))
    loads = flat(printed(document_of(*case_study()[6:9]), 140))
    assert "game loop, table1-test1: max sigma" in loads
    assert "at 95 %" in loads


def test_the_limits_of_the_smallest_sample_are_said():
    assert limits_line(document_of(identical(), noisy())).startswith(
        "20 repeats without divergence cannot exclude a rate below 13.9 %"
    )
