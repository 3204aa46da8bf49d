"""Files that are believed: keys, tokens, addresses. Whoever can write one decides whom we let in, or whom we obey.

A file is believed if it belongs to the user we run as, or to root, and nobody else can write it. Group write permission counts
as somebody else's, but for the group that many systems give each user alone, which has the user's own number. The questions
are asked of the open file, not of its name, which may mean another file a moment later.
"""

import os
import stat
from pathlib import Path

from samepath.core.errors import InputError


def read_trusted(path: Path, most_bytes: int, *, secret: bool = False, follow: bool = True) -> bytes:
    """Read a file, or say in one line why it is not believed; OSError where it cannot be read at all.

    ``secret``: nor may anybody else read it. ``follow`` False: a link is refused, in folders where anybody can put one.
    """
    links = 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | links)  # a pipe would hold us until somebody writes
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is no plain file: remove it")
        _refuse_foreign(path, found)
        if secret and found.st_mode & 0o077:
            raise InputError(f"{path} can be read by other users: chmod 600 it, or make a new one")
        return file.read(most_bytes)


def check_folder(folder: Path) -> None:
    """Refuse a folder in which somebody else can put, replace or rename files."""
    found = folder.stat()
    is_fixed = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)  # such as a secret that a container has mounted
    _refuse_foreign(folder, found, writable_by_others=not is_fixed and _others_write(found))


def _refuse_foreign(path: Path, found: os.stat_result, *, writable_by_others: bool | None = None) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise InputError(f"{path} belongs to user {found.st_uid}, neither to you nor to root: chown it, or make a new one")
    if _others_write(found) if writable_by_others is None else writable_by_others:
        raise InputError(f"{path} can be written by other users: chmod go-w it, after a look at what is there")


def _others_write(found: os.stat_result) -> bool:
    own_group = found.st_gid == found.st_uid
    return bool(found.st_mode & (0o002 if own_group else 0o022))
