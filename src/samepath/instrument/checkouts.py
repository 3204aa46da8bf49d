"""Commits of somebody's repository, each in a folder of its own, without touching that repository.

A shared clone (it borrows the objects and copies none) stands between: the user's folder is only ever read. Each commit gets a
work tree of its own rather than one that is switched: Python takes a compiled file for current if time and size of its source
fit, and two commits within a second may have both.
"""

import os
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from samepath.core.errors import InputError, printable

_LONGEST_S: Final = 300.0


@dataclass(frozen=True)
class Commit:
    """A commit: its full name and the first line of its message."""

    sha: str
    subject: str

    def words(self) -> str:
        return f"{self.sha[:12]} «{self.subject}»"


class CommitCheckouts:
    """Commits of the repository at ``folder``; :meth:`folder_of` makes work trees, which leaving the context removes."""

    def __init__(self, folder: Path) -> None:
        self._source = folder
        self._made: dict[str, Path] = {}
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder: the repository of the controller was wanted")
        self._git("rev-parse", "--git-dir")
        self._temporary = tempfile.TemporaryDirectory(prefix="samepath-bisect-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._temporary.cleanup()

    def commit(self, name: str) -> Commit:
        """Return the commit that a name, tag or number of the user's stands for."""
        # Before a name: what begins with a dash would be an option.
        sha = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", missing=name).strip()
        return Commit(sha, printable(self._git("show", "-s", "--format=%s", sha).strip())[:100])

    def ends(self, span: str) -> tuple[Commit, Commit]:
        """Read GOOD..BAD; the first must come before the second."""
        good, dots, bad = span.partition("..")
        if not (good and dots and bad) or bad.startswith("."):
            raise InputError(f"commits like v1.0..main were wanted, but {span!r} came")
        first, last = self.commit(good), self.commit(bad)
        if first.sha == last.sha:
            raise InputError(f"{good} and {bad} are the same commit: there is nothing between them")
        count = int(self._git("rev-list", "--count", f"{last.sha}..{first.sha}").strip())
        if count:
            raise InputError(f"{good} is not before {bad}: it has {count} commits that {bad} has not; give the older one first")
        return first, last

    def between(self, bad: str, good: Collection[str]) -> list[str]:
        """Return the commits that may be the first bad one, the one that halves them best first, ``bad`` itself last."""
        lines = self._git("rev-list", "--bisect-all", bad, *(f"^{sha}" for sha in good)).splitlines()
        found = [line.split()[0] for line in lines]
        return [*(sha for sha in found if sha != bad), bad]

    def folder_of(self, sha: str) -> Path:
        """Return a folder with the files of a commit; made when first asked for."""
        if sha not in self._made:
            clone, tree = (Path(self._temporary.name) / name for name in ("clone", sha))
            if not clone.exists():
                source = str(self._source.resolve())
                self._run(["clone", "--quiet", "--shared", "--no-checkout", "--no-tags", source, str(clone)])
            self._run(["-C", str(clone), "worktree", "add", "--quiet", "--detach", str(tree), sha])
            self._made[sha] = tree
        return self._made[sha]

    def _git(self, *words: str, missing: str = "") -> str:
        return self._run(["-C", str(self._source), *words], missing)

    def _run(self, words: Sequence[str], missing: str = "") -> str:
        # Inside a hook GIT_DIR and its like name another repository; hooks of the user's own are not ours to run.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *words]
        try:
            done = subprocess.run(  # noqa: S603 - git, with words of ours and names that git itself has checked
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LONGEST_S,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError as error:
            raise InputError("git was wanted to look at commits, but it is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise InputError(f"git took longer than {_LONGEST_S:g} s in {self._source}") from error
        if done.returncode:
            if missing:
                raise InputError(f"{self._source} has no commit called {missing!r}")
            reason = (done.stderr.strip().splitlines() or ["without a word"])[-1]
            raise InputError(f"git failed in {self._source}: {printable(reason)[:200]}")
        return done.stdout
