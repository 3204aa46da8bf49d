"""A small process that outlives the main server by a moment and clears away what its private Ray leaves behind.

``python -m samepath.cluster.placement.ray_cleanup FOLDER``, with a pipe from the main server as standard input. When the pipe
closes, because the main server says so or because it is gone, every process that belongs to that folder is killed, by its
own number, and the folder removed. Ray's own processes detach themselves, so neither process groups nor parent-death signals
reach them, and a main server that was killed cannot clean up itself.
"""

import os
import shutil
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from samepath.core.clock import SYSTEM_CLOCK

MARK: Final = "SAMEPATH_CLUSTER_RAY"
# A process that is just being started shows its mark a moment later.
_QUIET_LOOKS: Final = 5
_BETWEEN_LOOKS_S: Final = 0.05


def belonging(folder: str, owner: int) -> list[int]:
    """Return the processes that belong to a folder: it is in their environment, or they write to a file in it.

    Some of Ray's processes put their title where their environment was; those write their logs. The owner does not count.
    """
    found = (path for path in Path("/proc").iterdir() if path.name.isdecimal() and path.name != str(owner))
    return [int(path.name) for path in found if _belongs(path, folder)]


def _belongs(process: Path, folder: str) -> bool:
    try:
        if f"{MARK}={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
            return True
        handles = list((process / "fd").iterdir())
    except OSError:  # it is gone, or another user's
        return False
    for handle in handles:
        with suppress(OSError):
            if handle.lstat().st_mode & stat.S_IWUSR and str(handle.readlink()).startswith(f"{folder}/"):
                return True
    return False


def sweep(folder: str, owner: int) -> None:
    """Kill all that belongs to a folder, until nothing is left, and remove it."""
    quiet = 0
    while quiet < _QUIET_LOOKS:
        found = belonging(folder, owner)
        for pid in found:
            with suppress(OSError):
                _kill(pid, folder)
        quiet = 0 if found else quiet + 1
        SYSTEM_CLOCK.sleep_s(_BETWEEN_LOOKS_S)
    shutil.rmtree(folder, ignore_errors=True)


def _kill(pid: int, folder: str) -> None:
    handle = os.pidfd_open(pid)
    try:
        # The number may have gone to another process since: looked at once more with the handle held.
        if _belongs(Path(f"/proc/{pid}"), folder):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def main() -> None:
    """Wait for the end of the main server and sweep."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    owner = os.getppid()
    sys.stdin.buffer.read()
    sweep(sys.argv[1], owner)


if __name__ == "__main__":
    main()
