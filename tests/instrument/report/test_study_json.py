"""The JSON of a study: strict, complete, and every key of it documented."""

import json
from pathlib import Path

import pytest

from samepath.instrument.report.document import to_json
from tests.support.report_cells import MISSING, case_study_document, controller_study, document_of, identical, nice_study

DOCS = (Path(__file__).parents[3] / "docs" / "json.md").read_text("utf-8")


def plain(document) -> dict:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(to_json(document), parse_constant=refuse)


@pytest.fixture(scope="module")
def study() -> dict:
    return plain(case_study_document())


def test_answers_domains_and_gaps_are_there(study):
    assert study["samepath_json_version"] == 2
    assert [(answer["variant"], answer["short"]) for answer in study["answers"]][:2] == [
        ("lockstep", "yes"),
        ("game loop", "no"),
    ]
    lockstep, loop = (
        next(domain for domain in study["domains"] if domain["variant"] == name) for name in ("lockstep", "game loop")
    )
    assert lockstep["everything"]
    assert lockstep["verdict"] == "bit-identical"
    (limit,) = [limit for limit in loop["limits"] if limit["restricts"]]
    assert (limit["factor"], limit["highest"]) == ("cpu_load", 0.5)
    assert loop["outside"][0]["max_deviation_m"] > study["tolerance_m"]
    assert [cell["kind"] for cell in study["missing"]] == [cell.kind for cell in MISSING]
    assert study["missing"][0]["reason"] == "needs CAP_SYS_NICE"


def test_conditions_are_there_as_asked_and_as_measured(study):
    cell = next(cell for cell in study["cells"] if cell["cell"] == "table1-test1 game loop cpu_load=0.95")
    (check,) = cell["conditions_measured"]
    assert (check["name"], check["asked"], check["missed"]) == ("cpu_load", 0.95, True)
    assert check["measured"] == pytest.approx(0.87)
    assert cell["variant"] == "game loop"


def test_effects_have_their_evidence(study):
    effects = study["effects"]
    assert effects["tests"] > 0
    pooled = next(effect for effect in effects["effects"] if effect["variant"] == "game loop" and effect["scenario"] is None)
    assert set(pooled["size"]) >= {"superiority", "median_low_m", "median_high_m", "p_value", "p_value_corrected"}
    assert {"low", "high", "difference", "p_value_corrected"} <= set(pooled["beyond_tolerance"])
    assert pooled["words"].startswith("game loop, all scenarios")
    assert [rank["factor"] for rank in effects["ranks"]] == ["cpu_load", "cpu_load"]


def test_published_figures_are_there_as_printed_and_only_where_they_belong(study):
    assert [test["scenario"] for test in study["published"]] == ["table1-test1", "table1-test2"]
    assert study["published"][1]["per_load"]["before_collision_max_sigma_m"][0] == 1.53e-12
    assert plain(document_of(identical()))["published"] == []


def keys(value: object) -> set[str]:
    """All names of keys, but not the names of conditions, channels and the like."""
    if isinstance(value, list):
        return {key for item in value for key in keys(item)}
    if isinstance(value, dict):
        inner = {
            key
            for name, item in value.items()
            if name not in ("condition", "provenance", "other_max_sigma")
            for key in keys(item)
        }
        return set(value) | inner
    return set()


def test_every_key_is_documented(study):
    found = keys(study) | keys(plain(document_of(*controller_study()))) | keys(plain(document_of(*nice_study())))
    missing = sorted(key for key in found if f"`{key}`" not in DOCS)
    assert not missing, missing
