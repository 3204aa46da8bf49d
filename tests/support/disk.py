"""A disk in memory that forgets what was not synced, and a background that a test turns by hand.

What a file system promises is little, and this one keeps no more than that:

- What was written to a file is on disk once its ``sync`` returned. Before, any of its 512-byte sectors may be there or not, in
  any order; the file may be as long as any of the writes made it, and where nothing came it reads as zeros.
- A name is on disk once ``sync_folder`` returned, whatever was synced of the file. Before, any of the creations, renames and
  removals since may have happened: a rename may be there and nothing of what it names.
- A ``sync`` that fails reports it once. The pages count as written from then on: the next ``sync`` succeeds, and the data
  stays lost. They may still be read from memory, or be gone from there too.
"""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

from samepath.core.streams import stream

SECTOR_BYTES = 512


class _File:
    """``data`` is what a process reads; ``durable`` what is on disk; ``pending`` the writes and cuts between them."""

    def __init__(self, durable=b""):
        self.data, self.durable, self.pending = bytearray(durable), bytearray(durable), []


def _apply(data, change):
    offset, written = change
    if written is None:  # a cut
        del data[offset:]
        data.extend(bytes(offset - len(data)))
    else:
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : offset + len(written)] = written


class SimulatedDisk:
    """One folder. ``before_each`` is called before every operation: that is where power is cut.

    ``faults`` are errors by the number of the operation that they come in. ``skips`` says, of an operation and a file's name,
    that it only pretends to be done: so the disk behaves under a program that forgot it. ``while_syncing`` is called in the
    middle of each sync: what another thread writes then is not in it.
    """

    def __init__(self, seed=0):
        self.operations = 0
        self.before_each = lambda: None
        self.while_syncing = lambda: None
        self.faults = {}
        self.skips = lambda operation, name: False
        self._chance = stream(seed, "disk errors")
        self._names, self._durable_names, self._pending_names = {}, {}, []
        self._handles, self._next_handle = {}, 1

    # What the journal calls.

    def create(self, path):
        self._operate()
        if path.name in self._names:
            raise _error(errno.EEXIST)
        file = _File()
        self._change_name((None, path.name, file))
        return self._open(path, file)

    def open(self, path):
        self._operate()
        return self._open(path, self._find(path))

    def append(self, handle, data):
        (_, file), data = self._handles[handle], bytes(data)
        try:
            self._operate()
        except OSError as error:
            if error.errno != errno.ENOSPC or len(data) < 2:
                raise
            data = data[: len(data) // 2]  # what there was room for
        self._change(file, (len(file.data), data))
        return len(data)

    def truncate(self, handle, size_bytes):
        self._operate()
        self._change(self._handles[handle][1], (size_bytes, None))

    def sync(self, handle):
        name, file = self._handles[handle]
        count = len(file.pending)
        try:
            self._operate()
        except OSError:
            del file.pending[:count]
            if self._chance.integers(2):  # memory forgets it, too
                file.data = bytearray(file.durable)
                for change in file.pending:
                    _apply(file.data, change)
            raise
        self.while_syncing()
        if not self.skips("sync", name):
            for change in file.pending[:count]:
                _apply(file.durable, change)
            del file.pending[:count]

    def close(self, handle):
        del self._handles[handle]

    def rename(self, old, new):
        self._operate()
        self._change_name((old.name, new.name, self._find(old)))

    def remove(self, path):
        self._operate()
        self._find(path)
        self._change_name((path.name, None, None))

    def sync_folder(self, folder):
        count = len(self._pending_names)
        self._operate()
        self.while_syncing()
        if not self.skips("sync_folder", folder.name):
            for change in self._pending_names[:count]:
                _rename(self._durable_names, change)
            del self._pending_names[:count]

    def read(self, path):
        return bytes(self._find(path).data)

    def names(self, folder):
        return sorted(self._names)

    # What a test does.

    def after_power_cut(self, chance):
        """The disk as another process finds it if the power goes now. This one goes on."""
        left = SimulatedDisk()
        names = dict(self._durable_names)
        for change in _some(self._pending_names, chance):
            _rename(names, change)
        files = {id(file): _File(_torn(file, chance)) for file in names.values()}
        left._names = {name: files[id(file)] for name, file in names.items()}
        left._durable_names = dict(left._names)
        return left

    def synced(self):
        """The disk as it is if everything is lost that was not synced."""
        left = SimulatedDisk()
        left._names = {name: _File(file.durable) for name, file in self._durable_names.items()}
        left._durable_names = dict(left._names)
        return left

    def save(self, folder):
        """Write the files to a real folder."""
        folder.mkdir()
        for name, file in self._names.items():
            (folder / name).write_bytes(file.data)
        return folder

    @property
    def open_handles(self):
        return len(self._handles)

    def _operate(self):
        self.before_each()
        self.operations += 1
        if self.operations in self.faults:
            raise _error(self.faults[self.operations])

    def _find(self, path):
        if path.name not in self._names:
            raise _error(errno.ENOENT)
        return self._names[path.name]

    def _open(self, path, file):
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._handles[handle] = path.name, file
        return handle

    @staticmethod
    def _change(file, change):
        _apply(file.data, change)
        file.pending.append(change)

    def _change_name(self, change):
        _rename(self._names, change)
        self._pending_names.append(change)


def _error(number):
    return OSError(number, os.strerror(number))


def _rename(names, change):
    old, new, file = change
    names.pop(old, None)
    if new is not None:
        names[new] = file


def _some(changes, chance):
    """None of the changes, all, those up to a moment, or any."""
    how = int(chance.integers(4))
    if how == 2:
        return changes[: int(chance.integers(len(changes) + 1))]
    return [change for change in changes if how == 1 or (how == 3 and chance.integers(2))]


def _torn(file, chance):
    data = bytearray(file.durable)
    sectors = []
    for offset, written in file.pending:
        if written is None:
            sectors.append((offset, None))
            continue
        at = offset
        while at < offset + len(written):
            end = min(offset + len(written), (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
            sectors.append((at, written[at - offset : end - offset]))
            at = end
    for change in _some(sectors, chance):
        _apply(data, change)
    # The length of a file is written apart from its content.
    ends = [offset + len(written or b"") for offset, written in file.pending]
    if ends and chance.integers(2):
        data.extend(bytes(max(0, int(chance.choice(ends)) - len(data))))
    return bytes(data)


class HandBackground:
    """Jobs are done when the test says so, and time passes when it does."""

    def __init__(self):
        self.now_s = 0.0
        self._jobs, self._later = [], []

    def submit(self, job, after_s=0.0):
        if after_s:
            self._later.append((self.now_s + after_s, job))
        else:
            self._jobs.append(job)

    def drain(self):
        while self._jobs:
            self._jobs.pop(0)()

    def close(self):
        self.drain()

    def pass_s(self, seconds):
        """Let time pass; what falls due is done at its moment, after what was to be done before."""
        end_s = self.now_s + seconds
        while self._later and self._later[0][0] <= end_s:
            due_s, job = self._later.pop(0)
            self.now_s = max(self.now_s, due_s)
            self._jobs.append(job)
            self.drain()
        self.now_s = end_s

    def clock(self):
        """A clock that tells this time."""
        return SimpleNamespace(monotonic_s=lambda: self.now_s, utc_iso=lambda: "2026-01-01T00:00:00+00:00")


FOLDER = Path("/simulated")
