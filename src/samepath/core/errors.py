"""The error tree.

Everything a user can cause is a :class:`SamepathError`: one line that says what was wanted, what came and what to do. The
command line prints it and exits with 2; a traceback means a bug of ours.
"""

import difflib
from collections.abc import Iterable


class SamepathError(Exception):
    """Base of all errors a user can cause and mend; its text is one line."""

    exit_code = 2


class InputError(SamepathError):
    """A file or value from outside does not hold what it should."""


class StudyError(SamepathError):
    """A study cannot be run as asked."""


class SimulatorError(SamepathError):
    """A simulator broke its contract or could not run."""


class StoreError(SamepathError):
    """A trace store is missing, damaged, of another version or in use."""


class ClusterError(SamepathError):
    """A cluster cannot be reached, started or kept together."""


class EpisodeFailedError(SamepathError):
    """A server has ended by an error of ours; what it was stands in its log. A supervisor may start it again."""

    exit_code = 70  # EX_SOFTWARE


class UnknownNameError(SamepathError):
    """A name that is not in a table; the message offers the nearest known one."""


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


def printable(text: str) -> str:
    """Make text from elsewhere fit to be shown: a question mark for whatever could move a terminal's cursor or begin a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
