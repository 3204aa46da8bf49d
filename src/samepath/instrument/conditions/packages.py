"""The condition ``packages``: from which installation an engine and its controllers are taken.

A level is ``own`` (what samepath itself runs with), a virtual environment, an interpreter, or a plain folder of packages
(``pip install --target``, a checkout of a controller). So two versions of one engine, which cannot be installed side by side,
are two levels of one factor. A path says nothing of what lies there: :func:`contents_of` names the packages with their versions
and digests their files. That goes into the header of every trace, beside the engine's own version, so that a trace belongs to
what really ran and a folder whose content has changed is not mixed with what it was before.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from samepath import __version__
from samepath.core.errors import StudyError, printable
from samepath.instrument.conditions import packages_start

OWN: Final = "own"
# Part of every virtual environment and of no simulation.
_TOOLS: Final = ("pip", "setuptools", "wheel")
# What these hold changes without any change of code: compiled files, who installed what from where.
_UNREAD: Final = re.compile(r"(^|/)(__pycache__|\.git|\.mypy_cache|\.pytest_cache)(/|$)|\.dist-info/|\.pyc$")
# An environment with a deep learning library has about 50,000 files and 8 GB; more is a wrong path, such as / or a home.
MOST_FILES: Final = 200_000
MOST_BYTES: Final = 16 << 30
_MOST_NAMED: Final = 40
_PART_BYTES: Final = 1 << 20
_ASK_S: Final = 120.0


@dataclass(frozen=True)
class PackagePlace:
    """Where packages are: ``folders`` come first for every import, ``python`` is the interpreter that runs them."""

    python: str
    folders: tuple[str, ...]


def installation_of(level: str) -> PackagePlace:
    """Find what a level names; refuse a path at which no packages can be."""
    path = Path(level).absolute()  # not resolved: the interpreter of an environment is a link to another one
    if path.is_file() and os.access(path, os.X_OK):
        # An interpreter: bin/python of an environment, or one of the system.
        root = path.parent.parent
        folders = _site_folders(root) if (root / "pyvenv.cfg").is_file() else ()
        return PackagePlace(str(path), folders)
    if not path.is_dir():
        what = "is not there" if not path.exists() else "is neither a folder nor a program"
        raise StudyError(f"packages {level!r} {what}: a virtual environment, an interpreter or a folder of packages was wanted")
    if not (path / "pyvenv.cfg").is_file():
        return PackagePlace(sys.executable, (str(path),))
    python = next((found for name in ("python", "python3") if (found := path / "bin" / name).exists()), None)
    if python is None:
        raise StudyError(f"packages {level!r}: the virtual environment has no interpreter in bin: make it anew")
    return PackagePlace(str(python), _site_folders(path))


def _site_folders(root: Path) -> tuple[str, ...]:
    return tuple(str(folder) for folder in sorted(root.glob("lib/python3.*/site-packages")))


def start(level: str, module: str) -> list[str]:
    """Return the command that runs a module of samepath in the installation of ``level``; arguments may follow."""
    if level == OWN:
        return [sys.executable, "-m", module]
    found = installation_of(level)
    task = {
        "cache_tag": sys.implementation.cache_tag,
        "source": str(Path(packages_start.__file__).parents[3]),
        "samepath": __version__,
        "folders": found.folders,
        # An empty entry is the current folder, where a user's own simulator may lie; it is the same in the child.
        "path": [entry or str(Path.cwd()) for entry in sys.path],
    }
    return [found.python, str(Path(packages_start.__file__)), json.dumps(task), module]


def ask(level: str, module: str, question: dict[str, object]) -> dict[str, object]:
    """Run a module there that answers one question with a line of JSON; whatever it says before that is passed over."""
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the study names, and our own module
            [*start(level, module), json.dumps(question)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StudyError(f"packages {level!r}: it took longer than {_ASK_S:g} s to say what is installed there") from error
    except OSError as error:
        raise StudyError(f"packages {level!r}: its interpreter cannot be started ({error.strerror or error})") from error
    lines = done.stdout.splitlines()
    try:
        answer = json.loads(lines[-1]) if done.returncode == 0 and lines else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = printable(said[-1])[:300] if said else f"its interpreter ended with status {done.returncode}"
        raise StudyError(f"packages {level!r}: {reason}")
    return answer


def versions_of(level: str) -> tuple[str, ...]:
    """Name the packages of an installation with their versions; of one that lies in two folders, that of the first."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions(path=list(installation_of(level).folders)):
        name = distribution.metadata["Name"]
        if name and name.lower() not in _TOOLS:
            found.setdefault(name.lower(), f"{name} {distribution.version}")
    return tuple(found[name] for name in sorted(found))


@cache
def contents_of(level: str) -> str:
    """Say what lies at a level: packages and versions, and a digest of their files, wherever the folder is.

    Read once a process: a digest of a large installation takes seconds. Repeats check versions alone (:func:`versions_of`).
    """
    if level == OWN:
        return OWN
    found, named = installation_of(level), _named(versions_of(level))
    # Of an interpreter outside of any environment nothing can be read from here: its engine says its own version.
    digest = f"files {_digest(found.folders, level)}" if found.folders else f"interpreter {found.python}"
    return f"{named}; {digest}" if named else digest


def _named(versions: Sequence[str]) -> str:
    more = f" and {len(versions) - _MOST_NAMED} more" if len(versions) > _MOST_NAMED else ""
    return ", ".join(versions[:_MOST_NAMED]) + more


def in_use(level: str) -> bool:
    """Is this process run by the installation of ``level``, and does that come first for every import?"""
    if level == OWN:
        return True
    found = installation_of(level)
    first = tuple(sys.path[: len(found.folders)])
    # By name, not by what it links to: the interpreters of all environments of one Python are the same file.
    return first == found.folders and Path(sys.executable).absolute() == Path(found.python)


def check_unchanged(level: str, contents: str) -> None:
    """Refuse an installation whose packages are not those that ``contents`` names: somebody changed it since."""
    now = "" if level == OWN else _named(versions_of(level))
    if level != OWN and now != contents.rpartition("; ")[0]:
        raise StudyError(f"packages {level!r} was changed while the study ran: {now or 'nothing'} is installed there now")


def _digest(folders: Sequence[str], level: str) -> str:
    """Digest names and bytes of all files, in the order of their names."""
    whole = hashlib.blake2b(digest_size=8)
    count = size = 0
    for folder in folders:
        for path, name in _files(Path(folder)):
            try:
                count, size = count + 1, size + path.stat().st_size
                if count > MOST_FILES or size > MOST_BYTES:
                    most = f"{MOST_FILES} files or {MOST_BYTES >> 30} GB"
                    raise StudyError(
                        f"packages {level!r}: more than {most} lie there: name a virtual environment or a folder of packages"
                    )
                digest = hashlib.blake2b(digest_size=16)
                with path.open("rb") as file:
                    while part := file.read(_PART_BYTES):
                        digest.update(part)
            except OSError as error:
                raise StudyError(f"packages {level!r}: {path} cannot be read: {error.strerror or error}") from error
            whole.update(name.encode(errors="surrogateescape") + b"\0" + digest.digest())
    return whole.hexdigest()


def _files(folder: Path) -> list[tuple[Path, str]]:
    tools = tuple(f"{name}/" for name in (*_TOOLS, "_distutils_hack"))
    found = []
    for place, folders, names in os.walk(folder):
        below = os.path.relpath(place, folder)
        prefix = "" if below == "." else f"{below}/"
        folders[:] = sorted(
            name for name in folders if not _UNREAD.search(f"{prefix}{name}/") and f"{prefix}{name}/" not in tools
        )
        found += [(Path(place) / name, f"{prefix}{name}") for name in names if not _UNREAD.search(f"{prefix}{name}")]
        if len(found) > MOST_FILES:
            break  # :func:`_digest` says so
    return sorted((entry for entry in found if entry[0].is_file()), key=lambda entry: entry[1])
