"""Repeats that grow until enough is known: ``repeats: {until: "rate < 1 %", max: 3000}``, as a study file has it."""

import re
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError

_SHARE: Final = r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)"
_RATE: Final = re.compile(rf"\s*rate\s*<\s*{_SHARE}\s*")
_SIGMA: Final = re.compile(rf"\s*sigma\s+known\s+within\s+{_SHARE}\s*")


@dataclass(frozen=True)
class Until:
    """When to stop: the rate of divergence is shown to be below or above ``share``, or sigma is known within it."""

    what: str  # "rate" or "sigma"
    share: float


def parse_until(text: str) -> Until:
    """Read ``rate < 1 %`` or ``sigma known within 10 %``."""
    for what, pattern in (("rate", _RATE), ("sigma", _SIGMA)):
        match = pattern.fullmatch(text)
        if match is not None:
            share = float(match[1]) / 100 if match[2] else float(match[1])
            if not 0 < share < 1:
                raise InputError(f"a share between 0 and 1, or 0 % and 100 %, was wanted, but {text!r} came")
            return Until(what, share)
    raise InputError(f"'rate < 1 %' or 'sigma known within 10 %' was wanted, but {text!r} came")
