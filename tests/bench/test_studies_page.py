"""The page of study results is what the kept results say."""

import pytest

from bench import studies
from bench.pages import DOCS, made_part
from bench.pages import kept as kept_result


@pytest.fixture(scope="module")
def kept():
    return studies.kept_studies()


def test_the_page_is_made_from_what_is_kept(kept):
    page = (DOCS / "study-results.md").read_text("utf-8")
    assert made_part(page, "studies") == studies.made(kept), "write it anew: python -m bench studies --write-page"
    assert set(kept) == set(studies.STUDIES), "a result is kept of every study on the page"


def test_what_must_not_vary_did_not(kept):
    for name, result in kept.items():
        assert result["figures"]["problems"] == [], name
        for cell in result["figures"]["cells"]:
            if cell["variant"] in ("lockstep", "mujoco"):
                assert (cell["outcomes"], cell["max_sigma_m"]) == (1, 0.0), (name, cell)


def test_results_belong_to_commits(kept):
    for name, result in kept.items():
        assert result["code"]["clean"], f"{name}: run it from a clean commit"


def test_the_versions_differ_and_each_repeats_itself(kept):
    words = kept["versions"]["figures"]["versions"]
    assert len(words) == 2
    assert all("each repeats itself, but the bits differ" in line for line in words)
    text = (DOCS / "studies.md").read_text("utf-8")
    assert words[0] in text, "the sentence in the docs is the one that was found"


def test_pictures_show_what_is_kept(kept):
    for name in studies.PICTURES:
        picture = kept[name]["figures"].get("picture")
        if picture:
            inner = picture.partition(">")[2]
            assert inner in (DOCS / f"study-{name}.svg").read_text("utf-8")


def test_the_page_of_the_case_study_opened_and_a_log_was_judged_as_fast_as_the_docs_say():
    figures = kept_result("report")["figures"]
    assert max(figures[name]["drawn_s"] for name in ("wide", "narrow")) < 2.0
    assert max(figures[name]["wider"] for name in ("wide", "narrow")) <= 0, "nothing scrolls sideways"
    assert figures["judged_s"] < 30.0
    text = " ".join((DOCS / "monitors.md").read_text("utf-8").split())
    assert "open in less than 2 s" in text
    assert "by four monitors in less than 30 s" in text
