"""An exact test for one input of a script: does changing it make runs diverge? Pure.

Runs come in blocks. A block has as many runs with the input changed as with it held, in random order. Each run diverges from
one reference run or does not. If the input has no effect, every order of a block is equally likely to give what was seen,
whatever else varies between runs (a file that every fifth run finds, the load of the machine). So the number of divergences
among the changed runs has a hypergeometric distribution in each block, and the p-value is exact.

A test has at most two blocks. The first block spends 0.6 of its error and the second, which counts both, the rest. The n-th
hypothesis that is tested gets ``ERROR / 2**n``, so that all hypotheses together are wrong in at most ``ERROR``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final

ERROR: Final = 0.05
_SHARES: Final = (0.6, 0.4)


@dataclass(frozen=True)
class TrialBlock:
    """``runs`` runs with the input changed and as many with it held, and how many of each diverged."""

    runs: int
    changed: int
    held: int


@dataclass(frozen=True)
class TrialResult:
    """All blocks of a test, its p-value, and whether it is below its limit."""

    blocks: tuple[TrialBlock, ...]
    p: float
    passed: bool

    @property
    def counts(self) -> tuple[int, int, int]:
        """Divergences among changed runs, among held runs, and the number of runs of each."""
        changed, held = sum(block.changed for block in self.blocks), sum(block.held for block in self.blocks)
        return changed, held, sum(block.runs for block in self.blocks)


def p_value(blocks: Sequence[TrialBlock]) -> float:
    """Return the probability of at least as many divergences among changed runs if the input has no effect."""
    shares = [1.0]
    for block in blocks:
        total = block.changed + block.held
        ways = [comb(total, k) * comb(2 * block.runs - total, block.runs - k) for k in range(min(total, block.runs) + 1)]
        whole = comb(2 * block.runs, block.runs)
        combined = [0.0] * (len(shares) + len(ways) - 1)
        for count, share in enumerate(shares):
            for k, way in enumerate(ways):
                combined[count + k] += share * way / whole
        shares = combined
    return min(1.0, sum(shares[sum(block.changed for block in blocks) :]))


def error_of(hypothesis: int) -> float:
    """Return the error that the n-th tested hypothesis may have; n counts from 1."""
    return float(ERROR / 2**hypothesis)


def run_trial(diverges: Callable[[bool], bool], runs: int, error: float, shuffle: Callable[[list[bool]], None]) -> TrialResult:
    """Test whether changed runs diverge more often than held runs.

    ``diverges`` makes a run, with True for a changed input. ``shuffle`` must be random: the test is exact because of it.
    """
    blocks: list[TrialBlock] = []
    for share in _SHARES:
        order = [True] * runs + [False] * runs
        shuffle(order)
        seen = [(is_changed, diverges(is_changed)) for is_changed in order]
        changed, held = (sum(bad for is_changed, bad in seen if is_changed is arm) for arm in (True, False))
        blocks.append(TrialBlock(runs, changed, held))
        if (p := p_value(blocks)) <= share * error:
            return TrialResult(tuple(blocks), p, passed=True)
        if changed <= held:
            break  # A second block would have to turn the result around; stopping early only lowers the error.
    return TrialResult(tuple(blocks), p, passed=False)
