"""«Did you mean»: the nearest known name to one that is unknown."""

import difflib
from collections.abc import Iterable

from samepath.base.errors import UnknownNameError


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to ``name``, or None when nothing is near."""
    matches = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for an unknown ``name`` of a ``kind``, with the nearest one and the whole list."""
    names = sorted(known)
    hint = nearest(name, names)
    meant = f" did you mean {hint!r}?" if hint else ""
    listed = ", ".join(names) if names else "none"
    return UnknownNameError(f"unknown {kind} {name!r}:{meant} known: {listed}")
