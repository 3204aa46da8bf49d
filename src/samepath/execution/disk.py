"""Is there room, and may it be written? Asked before the first run."""

import os
import shutil
from pathlib import Path

from samepath.base.errors import StudyError


def free_bytes(folder: Path) -> int:
    """Return the free space where ``folder`` is or will be."""
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    path = folder.absolute()
    while not path.exists():
        path = path.parent
    return path


def check_writable(folder: Path) -> None:
    """Refuse a place that cannot hold a study, without touching it."""
    place = existing(folder)
    if not place.is_dir():
        raise StudyError(f"{folder} cannot hold a study: {place} is not a folder; choose another --out folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise StudyError(f"{folder} cannot be written: permission denied in {place}; choose another --out folder")


def check_room(folder: Path, needed_bytes: int) -> None:
    """Refuse a study that would fill the disk."""
    free = free_bytes(folder)
    if free < needed_bytes:
        raise StudyError(
            f"{folder}: the study needs about {size(needed_bytes)}, but {size(free)} are free there: make room, choose another "
            "--out folder, or lower design.repeats or raise design.log_every"
        )


def size(count: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
