"""The example of a warning by radio: what the page says is what was measured, and the experiment can go either way."""

import json

import pytest

from bench import vru
from tests.support import ROOT

RESULTS = ROOT / "bench" / "results" / "vru.json"


def test_the_page_has_the_figures_of_the_result():
    figures = json.loads(RESULTS.read_text("utf-8"))["figures"]
    assert vru.tables(figures) in (ROOT / "docs" / "v2x.md").read_text("utf-8")


def test_a_warning_in_time_saves_and_none_does_not():
    in_time, never = vru.run(40 / 3.6, 0.0), vru.run(40 / 3.6, None)
    assert not in_time.hit
    assert never.hit
    assert never.impact_mps * 3.6 == pytest.approx(40.0, abs=1.5)


def test_the_same_warning_has_the_same_end_to_the_bit():
    assert vru.run(50 / 3.6, 1.5) == vru.run(50 / 3.6, 1.5)
