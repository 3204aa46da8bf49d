"""The error tree.

Everything a user can cause is a :class:`SamepathError`: one line that says what was wanted, what came and what to do. The
command line prints it and exits with 2; a traceback means a bug of ours.
"""


class SamepathError(Exception):
    """Base of all errors a user can cause and mend; its text is one line."""


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


class UnknownNameError(SamepathError):
    """A name that is not in a table; the message offers the nearest known one."""
