"""Five kills of a server; 1,000: ``SAMEPATH_BENCH_SERVE_KILLS=1000 python -m bench serve_kills``."""

import pytest

from bench import serve_kills
from tests.support.journal_scenario import Desk


@pytest.fixture(autouse=True)
def closed():
    yield
    while Desk.open:
        Desk.open.pop().close()


def test_five_kills_leave_no_trace(tmp_path):
    figures = serve_kills.run(tmp_path, 5)
    assert (figures.kills, figures.kills_at_any_moment, figures.rounds) == (5, 1, 1)
    assert figures.is_clean, figures


def test_a_journal_that_lost_a_call_or_made_one_twice_is_seen(tmp_path):
    figures = serve_kills.run(tmp_path, 2)
    assert figures.is_clean
    for fault in ("calls_lost", "calls_made_twice", "ticks_different", "worlds_different"):
        assert not (figures + serve_kills.ServeKillFigures(**{fault: 1})).is_clean
    # The comparison itself: against a world of other calls, every tick is another.
    reference = serve_kills.Reference()
    last, _ = serve_kills._look(tmp_path / "round-0", reference, 0, 0)
    reference.after = ["another"] * len(reference.after)
    _, found = serve_kills._look(tmp_path / "round-0", reference, 0, last + 3)
    assert found.ticks_different == found.ticks_compared > 0
    assert found.calls_lost == 3
