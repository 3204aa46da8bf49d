"""A client's map is tried in a process of its own before the server builds it.

Reading and building a map is pure computation, but how long it takes and how much memory it wants is decided by whoever wrote
the map. The child does all of it, below the server's priority and within limits that the kernel enforces, and says only whether
that worked: nothing, or one line that tells what is wrong. What it made is thrown away. The server then builds the map itself,
which takes as long and as much as the child was seen to need.

    python -m samepath.simulator.server.map_trial LANES_M MEMORY_BYTES CPU_S < map.xodr
"""

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Lock
from typing import Final

from samepath.core.errors import InputError, SamepathError, printable
from samepath.simulator.carla.limits import ServerLimits

_GOOD, _REFUSED = 0, 3
_LINE_MOST: Final = 1000
_NICE: Final = 10
# On a busy host the child may wait for a core; after so many times its processor time it is given up.
_WALL: Final = 3.0
_OVERDUE: Final = (-signal.SIGXCPU, -signal.SIGKILL)


class MapTrial:
    """Tries maps, several at once if need be. :meth:`close` ends what is being tried; from any thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def run(self, xodr: str, name: str) -> None:
        """Return if the map can be built within the limits; what is wrong with it is an InputError of one line."""
        limits = self._limits
        child = self._start()
        try:
            said, _ = child.communicate(xodr.encode("utf-8", errors="surrogatepass"), timeout=_WALL * limits.map_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
        finally:
            self._running.discard(child)
        if child.returncode == _GOOD:
            return
        if self._closed:
            raise InputError(f"map {name!r} is not built: the server stops")
        if child.returncode == _REFUSED:
            raise InputError(printable(said[: 4 * _LINE_MOST].decode(errors="replace"))[:_LINE_MOST])
        if child.returncode in _OVERDUE:
            raise InputError(
                f"map {name!r}: a map that is built in at most {limits.map_s:g} s was wanted, but this one takes longer: "
                "make it smaller, or start the server with a larger --map-seconds"
            )
        raise InputError(f"map {name!r} cannot be built: the process that tried it ended with {child.returncode}")

    def _start(self) -> "subprocess.Popen[bytes]":
        limits = self._limits
        numbers = (f"{limits.road_m:g}", str(limits.map_bytes), f"{limits.map_s:g}")
        with self._lock:
            if self._closed:
                raise InputError("the server stops")
            child = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", __name__, *numbers],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C is the server's to handle
            )
            self._running.add(child)
            return child

    def close(self) -> None:
        """End what is being tried; nothing is tried any more."""
        with self._lock:
            self._closed = True
            for child in tuple(self._running):
                with suppress(OSError):
                    child.kill()


def _confine(memory_bytes: int, cpu_s: float) -> None:
    """Take no more from the host than this, from now on: what is loaded already does not count."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel's
        size_bytes = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes + memory_bytes,) * 2)
    used = resource.getrusage(resource.RUSAGE_SELF)
    end_s = max(1, round(used.ru_utime + used.ru_stime + cpu_s + 0.5))
    resource.setrlimit(resource.RLIMIT_CPU, (end_s, end_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)


def _build(xodr: str, lanes_m: float) -> None:
    """Do with a map all that the server will do with it."""
    from samepath.simulator.server.maps import SENT, MapLibrary, served_map

    library = MapLibrary({}, lambda _: None, ServerLimits(road_m=lanes_m))
    _ = served_map(SENT, library.read(xodr, tried=True)).navigation


def main() -> int:
    """Try the map on stdin."""
    from samepath.simulator.server import maps, navmesh  # now, so that limits count what the map takes and nothing else

    del maps, navmesh
    lanes_m, memory_bytes, cpu_s = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    xodr = sys.stdin.buffer.read().decode("utf-8", errors="surrogatepass")
    _confine(memory_bytes, cpu_s)
    try:
        _build(xodr, lanes_m)
    except MemoryError:
        wanted = f"a map that is built in at most {memory_bytes >> 20} MiB was wanted, but this one takes more"
        line = f"{wanted}: make it smaller, or start the server with a larger --map-mib"
    except SamepathError as error:
        line = str(error)
    except Exception as error:  # the map is strange in a way nobody thought of: it is refused all the same
        line = f"the map cannot be built: {type(error).__name__}: {error}"
    else:
        return _GOOD
    sys.stdout.write(line[:_LINE_MOST])
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main())
