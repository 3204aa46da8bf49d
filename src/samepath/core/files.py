"""Files that are whole or not there at all, also after a power cut.

A file is written beside its place and renamed into it, which the kernel does at once. For the rename to survive a power cut the
file must be on disk before it and the folder's entry after it, in this order: the other way round leaves a name with nothing
behind it.

Whoever must survive power cuts goes through a :class:`Disk`, so that tests can put a disk in its place that loses and tears
what was not synced. An error of ``sync`` is final for its file: the kernel reports it once, takes the pages that it could not
write for written, and a second ``sync`` succeeds over data that is gone. What is still known is written to another file.

Files that are believed: keys, tokens, addresses. Whoever can write one decides whom we let in, or whom we obey.

A file is believed if it belongs to the user we run as, or to root, and nobody else can write it. Group write permission counts
as somebody else's, but for the group that many systems give each user alone, which has the user's own number. The questions
are asked of the open file, not of its name, which may mean another file a moment later.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from samepath.core.errors import InputError, StoreError

# Some file systems cannot sync a folder and say so: their entries are as safe as they can be.
_NO_FOLDER_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})
_SPECIAL: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Disk(Protocol):
    """What files that survive a power cut are made with. Errors are ``OSError``."""

    def create(self, path: Path) -> int:
        """A handle that appends to a new file; one that is there already is an error."""
        ...

    def open(self, path: Path) -> int:
        """A handle that appends to a file that is there."""
        ...

    def append(self, handle: int, data: bytes | bytearray | memoryview) -> int:
        """Hand bytes to the kernel; returns how many it took, fewer where the disk is full."""
        ...

    def truncate(self, handle: int, size_bytes: int) -> None:
        """Cut a file off."""
        ...

    def sync(self, handle: int) -> None:
        """Wait until everything written to a file is on disk."""
        ...

    def close(self, handle: int) -> None:
        """Let go of a handle."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of what was there."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is an error."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Wait until names that were given, changed and removed in a folder are on disk."""
        ...

    def read(self, path: Path) -> bytes:
        """All of a file."""
        ...

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted."""
        ...


class SystemDisk:
    """The machine's own disk."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def append(self, handle: int, data: bytes | bytearray | memoryview) -> int:
        return os.write(handle, data)

    def truncate(self, handle: int, size_bytes: int) -> None:
        os.ftruncate(handle, size_bytes)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(handle)

    def read(self, path: Path) -> bytes:
        return regular(path).read_bytes()

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())


SYSTEM_DISK: Final = SystemDisk()


def write_atomically(path: Path, write: Callable[[Path], None], *, durable: bool = True, disk: Disk = SYSTEM_DISK) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to disk if ``durable``, then rename it into place.

    A process killed at any moment leaves the old file, the new one, or a ``*.partial`` that no reader looks at.
    """
    with _put_in_place(path, durable=durable, disk=disk) as partial:
        write(partial)
        if durable:
            handle = disk.open(partial)
            try:
                disk.sync(handle)
            finally:
                disk.close(handle)


def write_bytes_atomically(path: Path, data: bytes, *, disk: Disk = SYSTEM_DISK) -> None:
    """Write ``data`` to ``path``, whole or not at all; it is on disk when this returns."""
    with _put_in_place(path, durable=True, disk=disk) as partial:
        # One that a process of the same number left behind, as happens in containers.
        with contextlib.suppress(FileNotFoundError):
            disk.remove(partial)
        handle = disk.create(partial)
        try:
            rest = memoryview(data)
            while rest:  # the kernel takes 2 GiB at once, or what there is room for; without any it raises
                rest = rest[disk.append(handle, rest) :]
            # By the handle that wrote: it is told of every error since it was opened, a later one need not be.
            disk.sync(handle)
        finally:
            disk.close(handle)


def write_text_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all."""

    def write(partial: Path) -> None:
        partial.write_text(text, encoding="utf-8")

    write_atomically(path, write)


@contextlib.contextmanager
def _put_in_place(path: Path, *, durable: bool, disk: Disk) -> Iterator[Path]:
    """A name beside ``path`` for what is written inside; afterwards the file gets its own name, or is removed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    placed = False
    try:
        yield partial
        disk.rename(partial, path)
        placed = True
        if durable:
            disk.sync_folder(path.parent)
    except OSError as error:
        kept = "it may be gone after a power cut" if placed else "nothing there was changed"
        raise StoreError(f"{path} could not be written: {error.strerror or error}; {kept}") from error
    finally:
        if not placed:
            with contextlib.suppress(OSError):
                disk.remove(partial)


def sync_folder(folder: Path) -> None:
    """Flush the folder's own entry, so that a rename survives a power cut."""
    SYSTEM_DISK.sync_folder(folder)


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents, or say in one line why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"folder {path} could not be created: {error.strerror or error}; choose another") from error
    return path


def make_folder_durably(path: Path) -> Path:
    """Create ``path`` and its parents so that they are there after a power cut."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    make_folder(path)
    for folder in new:
        # A parent that may not be read cannot be synced; that is no reason not to use the folder.
        with contextlib.suppress(OSError):
            SYSTEM_DISK.sync_folder(folder.parent)
    return path


def regular(path: Path) -> Path:
    """Return the path of a file that can be read to its end; refuse a pipe, a socket or a device.

    Opening a pipe waits until another process writes into it, and a device may have no end. A path that
    does not exist, or is a folder, is returned: to open it raises the usual ``OSError``.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return path
    if kind in _SPECIAL:
        raise InputError(f"{path}: expected a regular file, got {_SPECIAL[kind]}: save its content to a file first")
    return path


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
