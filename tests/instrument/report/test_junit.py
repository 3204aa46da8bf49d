"""JUnit XML that CI servers read: one case per cell, failures where the verdict does not pass."""

import re
import xml.etree.ElementTree as ET

from samepath.instrument.report.junit import render_junit
from tests.support.report_cells import (
    MISSING,
    all_cells,
    document_of,
    ends_early,
    hostile,
    identical,
    noisy,
    strangers,
    two_outcomes,
    within,
)


def suite_of(*cells, **fields) -> ET.Element:
    return ET.fromstring(render_junit(document_of(*cells, **fields)).encode()).find("testsuite")


def properties(element: ET.Element) -> dict[str, str]:
    return {entry.get("name"): entry.get("value") for entry in element.findall("properties/property")}


def test_every_cell_is_one_test_case_named_after_it():
    suite = suite_of(identical(), noisy(), within())
    assert [(case.get("classname"), case.get("name")) for case in suite.findall("testcase")] == [
        ("toy", "identical"),
        ("toy", "noisy"),
        ("toy", "within"),
    ]


def test_a_cell_without_a_simulator_is_filed_under_samepath():
    assert suite_of(strangers()).find("testcase").get("classname") == "samepath"


def test_failures_are_counted_and_are_those_that_do_not_pass():
    cells = all_cells()
    suite = suite_of(*cells)
    failing = [cell for cell in cells if not cell.judgement.verdict.passes]
    assert suite.get("tests") == str(len(cells))
    assert suite.get("failures") == str(len(failing)) == str(len(suite.findall("testcase/failure")))
    for cell, case in zip(cells, suite.findall("testcase"), strict=True):
        assert (case.find("failure") is None) == cell.judgement.verdict.passes


def test_a_failure_says_what_why_and_where():
    failure = suite_of(two_outcomes()).find("testcase/failure")
    assert failure.get("type") == "exceeds-tolerance"
    assert failure.get("message") == "max sigma 1.98 cm is above 1 cm"
    assert "Max sigma 1.98 cm, max deviation 9.6 cm, tolerance 1 cm." in failure.text
    assert "2 of 50 repeats diverged into 2 outcomes" in failure.text
    assert "First divergence: repeat 7 parts from repeat 0 at tick 80" in failure.text


def test_a_run_that_ends_early_is_named_in_the_failure():
    assert "1 of 15 repeats end early" in suite_of(ends_early()).find("testcase/failure").text


def test_the_figures_are_exact():
    cell = noisy()
    found = properties(suite_of(cell).find("testcase"))
    assert float(found["max_sigma_m"]) == cell.summary.max_sigma_m
    assert float(found["divergence_rate_upper"]) == cell.bounds.upper
    assert found["verdict"] == "exceeds-tolerance"
    assert found["repeats"] == "40"
    assert found["condition.cpu_load"] == "0.95"


def test_what_does_not_exist_is_left_out():
    assert "max_sigma_m" not in properties(suite_of(strangers()).find("testcase"))
    assert "partial" not in properties(suite_of(identical()))
    assert properties(suite_of(identical(), partial="cut off"))["partial"] == "cut off"


def test_hostile_names_are_escaped_and_stripped_of_illegal_characters():
    text = render_junit(document_of(hostile(), title="<t>\x00\ufffe", command="a\x1b[0m && b"))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", text)
    suite = ET.fromstring(text.encode()).find("testsuite")
    case = suite.find("testcase")
    assert suite.get("name") == "<t>"
    assert properties(suite)["command"] == "a[0m && b"
    assert case.get("name") == "<script>alert('x')</script>&\"quoted\" $x^2$ [31m -->"
    assert case.get("classname") == "]]><sim>"


def test_rendering_twice_gives_equal_text():
    document = document_of(*all_cells())
    assert render_junit(document) == render_junit(document)


def test_cells_without_figures_are_errors_or_skipped_with_the_reason():
    suite = suite_of(identical(), noisy(), missing=MISSING)
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "2"]
    skipped = suite.find("testcase[@name='test 1 at nice -20']/skipped")
    assert skipped.get("message") == "not applicable: needs CAP_SYS_NICE"
    error = suite.find("testcase[@name='test 2 at 75 %']/error")
    assert error.get("message") == "failed: repeat 3: killed after 60 s"
    assert suite.find("testcase[@name='test 2 at 95 %']/skipped").get("message") == "not run"
    assert properties(suite.find("testcase[@name='test 2 at 75 %']"))["condition.cpu_load"] == "0.75"
