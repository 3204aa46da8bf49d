"""Which commit a folder is at."""

from dataclasses import dataclass
from pathlib import Path

from samepath.conditions.probe import Probe, Unknown

# Reading must not write: no refreshed index, no background monitor.
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")


@dataclass(frozen=True)
class Checkout:
    """A git checkout: its commit, whether tracked files differ from it, whether there are untracked files."""

    commit: str
    dirty: bool | Unknown
    untracked: bool | Unknown


def read_checkout(probe: Probe, folder: Path, tracked: str | None = None) -> Checkout | Unknown | None:
    """Return the checkout ``folder`` lies in; None if it lies in none.

    With ``tracked``, a file name, only a checkout that tracks this file of ``folder`` counts: a package installed below
    someone's project is no part of that project.
    """
    git = (*GIT, "-C", str(folder))
    inside = probe.call(*git, "rev-parse", "--is-inside-work-tree")
    if isinstance(inside, Unknown):
        return inside
    if inside.returncode != 0 and "not a git repository" not in inside.stderr:
        return Unknown.because(f"git exited with status {inside.returncode}")
    if inside.returncode != 0 or inside.stdout.strip() != "true":
        return None
    if tracked is not None:
        listed = probe.ask(*git, "ls-files", "--", tracked)
        if isinstance(listed, Unknown):
            return listed
        if not listed:
            return None
    return _read_state(probe, git)


def _read_state(probe: Probe, git: tuple[str, ...]) -> Checkout:
    commit = probe.ask(*git, "rev-parse", "--verify", "HEAD")
    status = probe.ask(*git, "status", "--porcelain")
    if isinstance(status, Unknown):
        return Checkout(commit, status, status)
    untracked = [line.startswith("??") for line in status.splitlines()]
    return Checkout(commit, dirty=not all(untracked), untracked=any(untracked))
