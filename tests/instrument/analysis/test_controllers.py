"""Which of the two varies, the controller or the world?"""

import pytest

from samepath.instrument.analysis.sources import find_controllers
from tests.support.study_cells import cell, noisy, run


def pair(in_loop_m, replayed_m, repeats=16):
    """The cell with the controller in the loop and the one with its commands replayed; None: all repeats are the same."""
    cells = []
    for seed, (level, size_m) in enumerate((("in-loop", in_loop_m), ("replayed", replayed_m))):
        fields = {"condition": {"controller": level, "cpu_load": 0.5}, "cell": level}
        runs = [run(n) for n in range(repeats)]
        cells.append(noisy(size_m, repeats=repeats, seed=seed, **fields) if size_m else cell(runs, **fields))
    return cells


@pytest.mark.parametrize(
    ("in_loop_m", "replayed_m", "source", "words"),
    [
        (0.01, None, "controller", "the controller is the source"),
        (0.01, 0.01, "world", "the world varies by itself; that the controller adds to it is not shown"),
        (0.2, 0.001, "both", "the world varies by itself, and the controller adds to it"),
        (None, None, "neither", "neither the controller nor the world is seen to vary"),
        (None, 0.01, "replay", "only the replay varies: replaying is not exact here"),
    ],
)
def test_the_source_is_named(in_loop_m, replayed_m, source, words):
    (found,) = find_controllers(pair(in_loop_m, replayed_m))
    assert found.source == source
    assert words in found.words()
    assert (found.in_loop.cell, found.replayed.cell) == ("in-loop", "replayed")


def test_the_evidence_stands_beside_it():
    (found,) = find_controllers(pair(0.01, None))
    assert found.p_value < 0.001
    assert "with the controller in the loop 15 of 16 repeats diverge, by up to " in found.words()
    assert "; with its commands replayed all 16 repeats are the same (true rate below 17.1 %)" in found.words()


def test_one_odd_repeat_does_not_convict_the_controller():
    odd = cell([run(n, 0.01 if n == 3 else 0.0) for n in range(16)], condition={"controller": "in-loop"})
    same = cell([run(n) for n in range(16)], condition={"controller": "replayed"})
    (found,) = find_controllers([odd, same])
    assert found.source == "undecided"
    assert "chance explains it" in found.words()


def test_only_cells_that_are_otherwise_equal_are_compared():
    in_loop, _ = pair(0.01, None)
    other = cell([run(n) for n in range(16)], condition={"controller": "replayed", "cpu_load": 0.95})
    assert find_controllers([in_loop, other]) == ()
    assert find_controllers([cell([run(n) for n in range(3)])]) == ()
