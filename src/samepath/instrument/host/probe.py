"""The one way to ask the host: files below a root, commands with a time limit.

No question raises; what cannot be answered is :class:`Unknown`.
"""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

COMMAND_LIMIT_S = 10.0

Runner = Callable[[Sequence[str], float], subprocess.CompletedProcess[str]]


class Unknown(str):
    """A fact that could not be had, with the reason. A ``str``, so that JSON shows it; text facts may always be one."""

    __slots__ = ()

    @classmethod
    def because(cls, reason: str) -> Self:
        """Return ``unknown: reason``."""
        return cls(f"unknown: {reason}")


class NotInstalled(Unknown):
    """The answer of a command that is not there."""

    __slots__ = ()


def run_command(command: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end, in plain English; raises what :func:`subprocess.run` raises."""
    # A git hook exports GIT_DIR, which would make git answer for another repository than the one asked about.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(  # noqa: S603 - a list of words, no shell; the callers' words are constants and paths
        list(command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        check=False,
        env=environment | {"LC_ALL": "C"},
    )


@dataclass(frozen=True)
class Probe:
    """Access to the host; ``root`` stands for ``/`` and ``run`` starts commands: a test presents its own."""

    root: Path = Path("/")
    run: Runner = run_command

    def read(self, path: str) -> str:
        """Return the stripped text of a file, ``path`` being relative to the root."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip("\0 \t\r\n")
        except OSError as error:
            return Unknown.because(f"/{path}: {error.strerror or type(error).__name__}")

    def read_int(self, path: str) -> int | Unknown:
        """Return the whole number a file holds."""
        text = self.read(path)
        if isinstance(text, Unknown):
            return text
        return int(text) if re.fullmatch(r"-?\d+", text) else Unknown.because(f"/{path} holds no whole number")

    def read_flag(self, path: str) -> bool | Unknown:
        """Return the 0 or 1 a file holds."""
        number = self.read_int(path)
        if isinstance(number, Unknown):
            return number
        return bool(number) if number in {0, 1} else Unknown.because(f"/{path} holds neither 0 nor 1")

    def exists(self, path: str) -> bool:
        """Say whether something is seen at ``path``."""
        try:
            return (self.root / path).exists()
        except OSError:
            return False

    def find(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that match a glob pattern, cpu2 before cpu10."""
        try:
            found = [path.relative_to(self.root).as_posix() for path in self.root.glob(pattern)]
        except OSError:
            return ()
        return tuple(sorted(found, key=_natural))

    def call(self, *command: str) -> subprocess.CompletedProcess[str] | Unknown:
        """Run a command; whatever its exit status, return what it said."""
        tool = command[0]
        try:
            return self.run(command, COMMAND_LIMIT_S)
        except FileNotFoundError:
            return NotInstalled.because(f"{tool} is not installed")
        except subprocess.TimeoutExpired:
            return Unknown.because(f"{tool} gave no answer within {COMMAND_LIMIT_S:g} s")
        except (OSError, subprocess.SubprocessError) as error:
            return Unknown.because(f"{tool} could not be run: {type(error).__name__}")

    def ask(self, *command: str) -> str:
        """Return what a command printed, provided that it succeeded."""
        answer = self.call(*command)
        if isinstance(answer, Unknown):
            return answer
        # Messages on stderr may name paths and people, so the reason keeps to the status.
        if answer.returncode != 0:
            return Unknown.because(f"{command[0]} exited with status {answer.returncode}")
        return answer.stdout.strip()


def _natural(path: str) -> list[tuple[int, str]]:
    return [(int(digits or 0), word) for digits, word in re.findall(r"(\d+)|(\D+)", path)]


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
