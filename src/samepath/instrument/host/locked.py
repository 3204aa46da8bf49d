"""The library versions that this samepath was tested with, and the installed ones that differ.

``locked_versions.json`` holds, by Python, the versions of the libraries that samepath itself requires.
``make locks`` writes it, together with ``locks/`` in the repository.
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Final

from samepath.instrument.host.probe import Unknown

HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_FILE: Final = "locked_versions.json"

Versions = Callable[[str], str | None]


def installed_version(name: str) -> str | None:
    """Return the version of an installed library, None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def locked_versions() -> dict[str, dict[str, str]]:
    """Return the versions of the lock by Python, then by library."""
    versions: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath(_FILE).read_text("utf-8"))
    return versions


def differences_from_lock(installed: Versions = installed_version, python: str = HERE) -> tuple[str, ...] | Unknown:
    """Name every installed library whose version is not that of the lock, with both versions."""
    locked = locked_versions().get(python)
    if locked is None:
        return Unknown.because(f"there is no lock for Python {python}")
    found = ((name, installed(name), version) for name, version in locked.items())
    return tuple(f"{name} {here} (lock: {version})" for name, here, version in found if here not in (None, version))
