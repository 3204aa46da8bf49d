"""Sources of non-determinism are told apart, and counterfactual runs of the world agree: the small half of ``bench causes``."""

import pytest

from bench.causes import judge_controllers, judge_sources, source_names
from samepath.simulator.sources import SOURCES


@pytest.mark.parametrize(
    ("names", "causes"),
    [
        (("wall-clock-step",), {"step-length"}),
        (("async-controller",), {"unknown", "late-command", "none"}),
        (("unseeded-random",), {"unknown", "random-stream"}),
        (("random-queue",), {"unknown", "random-stream", "none"}),
        (("parallel-accumulation",), {"unknown", "order"}),
        (("bit-flip",), {"simulator"}),
        (("unseeded-random", "bit-flip"), {"unknown", "random-stream"}),
        (("wall-clock-step", "bit-flip"), {"step-length"}),
    ],
)
def test_a_source_is_named_and_a_counterfactual_run_agrees(names, causes):
    judged = judge_sources([names], repeats=2)
    assert {case.said.value for case in judged} <= causes
    assert [case for case in judged if not (case.right or case.is_unknown)] == []


def test_a_controller_is_told_from_what_it_was_shown():
    judged = judge_controllers()
    assert {case.said.value for case in judged} == {"command-value", "sensor-data"}
    assert [case for case in judged if not (case.right or case.is_unknown)] == []


def test_every_source_is_judged_alone_and_in_every_pair_that_can_be():
    names = source_names()
    assert {combination for combination in names if len(combination) == 1} == {(name,) for name in SOURCES}
    assert len(names) == 9 + 36 - 2


def test_the_table_in_the_docs_is_that_of_the_results():
    from tests.support.causes_table import PAGE, written

    assert PAGE.read_text("utf-8") == written(), "write it anew: python -m tests.support.causes_table"
