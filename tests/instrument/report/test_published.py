"""The published figures agree with each other where they are shown, and are shown only beside the same tests."""

import pytest

from samepath.instrument.report.cell_view import published_notes, table_rows
from samepath.instrument.report.published import (
    PUBLISHED_LOADS,
    TESTS,
    as_measured,
    published,
    published_among,
    published_length,
)
from tests.support.report_cells import case_study_document, document_of, identical

CAPPED = [load <= 0.75 for load in PUBLISHED_LOADS]


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.scenario)
def test_table_one_is_the_worst_of_the_loads_to_two_figures(test):
    digits = 1 if test.unrestricted_sigma_m < 0.1 and test.test in (1, 3) else 2
    assert float(f"{max(test.max_sigma_m):.{digits}g}") == pytest.approx(test.unrestricted_sigma_m)
    before = test.before_m or test.max_sigma_m
    restricted = max(value for value, capped in zip(before, CAPPED, strict=True) if capped)
    assert float(f"{restricted:.2g}") == pytest.approx(test.restricted_sigma_m)


def test_the_phases_belong_to_the_test_whose_worst_they_reach():
    collided = [test for test in TESTS if test.before_m]
    assert [test.test for test in collided] == [2, 4]
    for test in collided:
        assert max(test.after_m) == max(test.max_sigma_m)
        assert all(a > b for a, b in zip(test.after_m, test.before_m, strict=True))


def test_what_is_only_rounding_is_a_zero_at_the_resolution_of_the_log():
    assert as_measured(5.6e-13) == 0.0
    assert as_measured(5.22e-4) == 5.22e-4
    assert published_length(1.46e-12) == "0 *"
    assert published_length(0.59) == "59 cm"
    nothing = [test.test for test in TESTS if not any(map(as_measured, test.max_sigma_m))]
    assert nothing == [5, 6]


def test_published_figures_stand_only_beside_the_papers_own_tests():
    assert published("table1-test4").test == 4
    assert published("draft-test4") is None
    assert [test.test for test in published_among(["table1-test6", "x", "table1-test1"])] == [1, 6]
    assert not any(row.published for row in table_rows(document_of(identical(), identical()), ["a", "b"]))
    document = case_study_document()
    rows = table_rows(document, [str(number) for number in range(len(document.cells))])
    assert [row.published for row in rows] == [("3 cm", "7 mm"), ("31 cm", "9.8 mm")] * 2


def test_the_source_and_every_contradiction_are_told():
    notes = published_notes(case_study_document())
    assert "Chance, Ghobrial, McAreavey, Lemaignan, Pipe and Eder" in notes[0]
    assert any(note.startswith("* 0 at the log's resolution") for note in notes)
    assert not any("1.98 m" in note for note in notes)  # test 4 is not in this study
    assert published_notes(document_of(identical())) == ()
