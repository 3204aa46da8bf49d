"""The table of runs far from the origin is that of the bench."""

import json

from samepath.core.units import format_length
from tests.support import ROOT

FIGURES = json.loads((ROOT / "bench" / "results" / "far.json").read_text("utf-8"))["figures"]
PAGE = (ROOT / "docs" / "simulator.md").read_text("utf-8")
KINDS = ("car", "truck", "bus", "motorcycle", "bicycle", "walker")


def test_every_row_of_the_table_was_measured():
    for words, key in (("0", "far-0km"), ("1 km", "far-1km"), ("10 km", "far-10km"), ("100 km", "far-100km")):
        found = FIGURES[key]
        assert found["outcomes"] == 1
        cells = (
            words,
            "1",
            format_length(found["bias_before_m"]),
            format_length(found["grid_m"]),
            f"tick {found['first_collision']}",
        )
        assert f"| {' | '.join(cells)} |" in PAGE


def test_every_type_repeats_itself_in_lockstep_and_none_in_the_game_loop():
    assert [FIGURES[f"{kind}, lockstep"]["outcomes"] for kind in KINDS] == [1] * len(KINDS)
    assert all(FIGURES[f"{kind}, game loop"]["outcomes"] > 1 for kind in KINDS)
