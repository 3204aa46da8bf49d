"""The verdicts: four words that are never confused.

``bit-identical``             every repeat has the same bits, in a log that holds the simulator's own numbers
``identical-at-resolution``   every repeat has the same log, but the log is rounded: finer differences could not be seen
``within-tolerance``          repeats differ, by no more than the tolerance
``exceeds-tolerance``         some repeat differs by more, or in ways no distance can express
"""

from enum import StrEnum


class Verdict(StrEnum):
    """How repeatable a cell is; later is worse."""

    BIT_IDENTICAL = "bit-identical"
    IDENTICAL_AT_RESOLUTION = "identical-at-resolution"
    WITHIN_TOLERANCE = "within-tolerance"
    EXCEEDS_TOLERANCE = "exceeds-tolerance"

    @property
    def passes(self) -> bool:
        """Is the variance permissible?"""
        return self is not Verdict.EXCEEDS_TOLERANCE

    @property
    def rank(self) -> int:
        """0 is best."""
        return list(Verdict).index(self)
