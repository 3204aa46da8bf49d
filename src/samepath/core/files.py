"""Files that are whole or not there at all.

A file is written beside its place and renamed into it, which the kernel does at once. For the rename to survive a power cut the
file must be on disk before it and the folder's entry after it, in this order: the other way round leaves a name with nothing
behind it.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from samepath.core.errors import StoreError


def write_atomically(path: Path, write: Callable[[Path], None], *, durable: bool = True) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to disk if ``durable``, then rename it into place.

    A process killed at any moment leaves the old file, the new one, or a ``*.partial`` that no reader looks at.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        if durable:
            with partial.open("rb+") as handle:
                os.fsync(handle.fileno())
        partial.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}; nothing there was changed") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all."""

    def write(partial: Path) -> None:
        partial.write_text(text, encoding="utf-8")

    write_atomically(path, write)


def sync_folder(folder: Path) -> None:
    """Flush the folder's own entry, so that a rename survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents, or say in one line why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"folder {path} could not be created: {error.strerror or error}; choose another") from error
    return path
