"""How tests of verbs call them: as processes of their own, forked from one that has loaded everything already."""

import pytest

from tests.support.forked import forked


@pytest.fixture(scope="session")
def quick():
    """Like a ``samepath`` of its own, for the many commands that need not start from nothing."""
    with forked() as run:
        yield run


@pytest.fixture
def refused(quick):
    """Run a command that must be refused in one line with exit code 2; returns the line."""

    def run(*arguments, cwd=None):
        result = quick(*arguments, cwd=cwd)
        assert (result.returncode, result.stdout) == (2, ""), result
        assert "Traceback" not in result.stderr
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("samepath: ")
        return lines[0]

    return run
