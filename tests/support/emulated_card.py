"""A graphics card that is none: the driver's interface over plain memory, with the real kernels run by the processor.

It is harder to please than a card. Nothing happens until somebody waits, and then the streams go on in an order drawn by a
seed, bound by events alone: what was not ordered comes out of order. Fresh memory is full of rubbish, copies and zeros outside
of what was allocated are refused, and so is giving memory back that work under way may use.
"""

import bisect
import ctypes
import hashlib
import random
import subprocess
from collections import deque
from functools import cache
from pathlib import Path

import numpy as np

from samepath.simulator.sensors.cuda.driver import HEADERS, HERE, CardError
from samepath.simulator.sensors.cuda.host_device import COMPILER, FLAGS
from samepath.simulator.sensors.raster.compiled import cache_folder

SOURCE = Path(__file__).with_suffix(".cpp")
RUBBISH = 0xA5


@cache
def library(many=False):
    """The kernels, for one world or for many, built once and kept as the core is."""
    flags = (*FLAGS, "-DMANY_WORLDS") if many else FLAGS
    digest = hashlib.blake2b(SOURCE.read_bytes() + " ".join(flags).encode(), digest_size=12)
    for name in HEADERS:
        digest.update((HERE / name).read_bytes())
    path = cache_folder(HERE) / f"card-{digest.hexdigest()}.so"
    if not path.exists():
        made = path.with_suffix(f".{random.SystemRandom().getrandbits(64):x}")
        subprocess.run([COMPILER, *flags, "-I", str(HERE), "-o", str(made), str(SOURCE)], check=True)
        made.replace(path)
    built = ctypes.CDLL(str(path))
    built.samepath_work_bytes.argtypes, built.samepath_work_bytes.restype = [ctypes.c_char_p], ctypes.c_int64
    built.samepath_launch.argtypes = [ctypes.c_char_p, *[ctypes.c_int64] * 3, ctypes.c_char_p, ctypes.c_uint64]
    return built


class Mark:
    """One record of an event: passed, or not yet."""

    def __init__(self):
        self.passed = False


class EmulatedCard:
    """``seed`` chooses the order of everything that has none; ``room`` is how much memory there is."""

    told = "a card that is none"
    multiprocessors = 2
    dlpack_device = (1, 0)  # its memory is the processor's

    def __init__(self, seed=0, room=1 << 30):
        self._chance = random.Random(seed)
        self._shuffles = seed != 0
        self._streams = []
        self._pieces = {}
        self._free = room
        self.launched = []
        self.uploaded_bytes = 0
        self.closed = False
        self.lost = False

    def allocate(self, size):
        if size > self._free:
            raise CardError("the graphics card cannot draw: it has not enough memory left")
        self._free -= size
        piece = np.full(size, RUBBISH, np.uint8)
        self._pieces[piece.ctypes.data] = piece
        return piece.ctypes.data

    def release(self, address):
        assert not any(self._streams), "memory was given back while work was under way"
        self._free += len(self._pieces.pop(address))

    def pinned(self, size):
        return np.full(size, RUBBISH, np.uint8)

    def stream(self):
        self._streams.append(deque())
        return len(self._streams) - 1

    def upload(self, to, given, stream):
        self.uploaded_bytes += given.nbytes
        if given.nbytes:
            self._inside(to, given.nbytes)
            self._add(stream, lambda: ctypes.memmove(to, given.ctypes.data, given.nbytes))

    def download(self, to, given, stream):
        if to.nbytes:
            self._inside(given, to.nbytes)
            self._add(stream, lambda: ctypes.memmove(to.ctypes.data, given, to.nbytes))

    def clear(self, to, size, stream):
        if size:
            self._inside(to, size)
            self._add(stream, lambda: ctypes.memset(to, 0, size))

    def launch(self, kernel, blocks, rows, threads, work, stream, *, many=False):
        assert 1 <= blocks < 2**31 and 1 <= rows <= 65535 and 1 <= threads <= 1024
        assert len(work) == library(many).samepath_work_bytes(kernel.encode()), kernel
        order = self._chance.getrandbits(30) if self._shuffles else 0
        self.launched.append(kernel)
        self._add(stream, lambda: self._run(kernel, blocks, rows, threads, work, order, many))

    def _run(self, kernel, blocks, rows, threads, work, order, many=False):
        assert library(many).samepath_launch(kernel.encode(), blocks, rows, threads, work, order) == 0, kernel

    def event(self):
        return []

    def record(self, event, stream):
        mark = Mark()
        event[:] = [mark]
        self._add(stream, lambda: setattr(mark, "passed", True))

    def hold(self, stream, event):
        for mark in event:
            self._add(stream, mark)

    def wait(self, event):
        for mark in list(event):
            while not mark.passed:
                self._step()

    def finish(self):
        while any(self._streams):
            self._step()

    def close(self):
        self.closed = True

    def _add(self, stream, work):
        if self.lost:
            raise CardError("the graphics card cannot draw: it failed with CUDA_ERROR_DEVICE_UNAVAILABLE")
        self._streams[stream].append(work)

    def _step(self):
        if self.lost:
            raise CardError("the graphics card cannot draw: it failed with CUDA_ERROR_DEVICE_UNAVAILABLE")
        able = [work for work in self._streams if work and not (isinstance(work[0], Mark) and not work[0].passed)]
        assert able, "somebody waits for what was never started"
        # Without a seed the last stream comes first: copies before what they copy, if nothing holds them.
        work = self._chance.choice(able) if self._shuffles else able[-1]
        done = work.popleft()
        if not isinstance(done, Mark):
            done()

    def _inside(self, address, size):
        starts = sorted(self._pieces)
        at = bisect.bisect_right(starts, address) - 1
        assert at >= 0 and address + size <= starts[at] + len(self._pieces[starts[at]]), "outside of what was allocated"
