"""Starts a server again when it has failed or hangs, and leaves it alone when it was told to end.

The server is a child process. It says once a second over a pipe that it is well (:class:`Pulse`); one that has said nothing
for too long is killed, because what hangs cannot be asked to end. A child that ends with ``EpisodeFailedError.exit_code`` or by
a signal is started again, with the command that goes on from its journal; any other end is the user's business (a mistyped
option does not get better by being repeated). Several failures in a row within seconds mean that starting again does not help:
then it is given up, so that whoever is above (systemd, Kubernetes, a person) hears of it.
"""

import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import EpisodeFailedError
from samepath.core.processes import ShutdownSignals, describe_exit, die_with

_VARIABLE: Final = "SAMEPATH_SUPERVISOR"
_BEAT_S: Final = 1.0


@dataclass(frozen=True)
class RestartPolicy:
    """When a server that failed is started again, and when it is given up.

    ``silent_s``: it is killed when it has not been well for so long; while it starts, which may mean to build a map or to play
    a journal, ``starting_s``. A failure within ``short_s`` after a start counts as one in a row.
    """

    silent_s: float = 60.0
    starting_s: float = 600.0
    short_s: float = 60.0
    most_in_a_row: int = 5
    first_wait_s: float = 1.0


class Pulse:
    """The child's side: tells the supervisor that all is well, as long as ``complaint`` is empty. None needed: does nothing."""

    def __init__(self, complaint: Callable[[], str]) -> None:
        found = os.environ.pop(_VARIABLE, "")
        if not found:
            return
        parent, pipe = (int(part) for part in found.split(":"))
        os.set_inheritable(pipe, False)
        die_with(parent)
        self._pipe, self._complaint = pipe, complaint
        threading.Thread(target=self._beat, name="samepath heartbeat", daemon=True).start()

    def _beat(self) -> None:
        try:
            while True:
                if not self._complaint():
                    os.write(self._pipe, b".")
                SYSTEM_CLOCK.sleep_s(_BEAT_S)
        except BrokenPipeError:  # the supervisor is gone, and the kernel is about to end us
            pass


def supervise(
    first: Sequence[str],
    again: Sequence[str],
    end: ShutdownSignals,
    log: Callable[[str], None],
    policy: RestartPolicy | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> int:
    """Run ``first``, and after each failure ``again``; returns the exit code of the run that was not to be repeated."""
    policy = policy or RestartPolicy()
    stopping = threading.Event()
    command, in_a_row = first, 0
    while True:
        began_s = clock.monotonic_s()
        with _Child(command, end, stopping) as child:
            code = child.wait(policy, log, clock)
        if stopping.is_set() or (code >= 0 and code != EpisodeFailedError.exit_code):
            return code if code >= 0 else 128 - code
        in_a_row = in_a_row + 1 if clock.monotonic_s() - began_s < policy.short_s else 1
        if in_a_row >= policy.most_in_a_row:
            log(f"the server {describe_exit(code)}: it has failed {in_a_row} times in a row, so it is given up")
            return EpisodeFailedError.exit_code
        wait_s = policy.first_wait_s * 2.0 ** (in_a_row - 1)
        log(f"the server {describe_exit(code)}; it is started again from its journal in {wait_s:g} s")
        if stopping.wait(wait_s):
            return EpisodeFailedError.exit_code
        command = again


class _Child:
    """A run of the server, with a pipe for its heartbeat; the first signal is passed on to it."""

    def __init__(self, command: Sequence[str], end: ShutdownSignals, stopping: threading.Event) -> None:
        self._read, write = os.pipe()
        environment: Mapping[str, str] = {**os.environ, _VARIABLE: f"{os.getpid()}:{write}"}
        try:
            # A session of its own: Ctrl-C in a terminal reaches the supervisor alone, which passes it on once.
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                command, env=environment, pass_fds=(write,), start_new_session=True
            )
        finally:
            os.close(write)

        def stop() -> None:
            stopping.set()
            self._process.send_signal(signal.SIGTERM)

        end.call_on_first(stop)

    def wait(self, policy: RestartPolicy, log: Callable[[str], None], clock: Clock) -> int:
        """Wait for its end; one that is silent for too long is killed."""
        heard_s, limit_s = clock.monotonic_s(), policy.starting_s
        handle = os.pidfd_open(self._process.pid)
        try:
            while True:
                readable, _, _ = select.select([handle, self._read], [], [], _BEAT_S)
                if handle in readable:
                    return self._process.wait()
                if self._read in readable and os.read(self._read, 4096):
                    heard_s, limit_s = clock.monotonic_s(), policy.silent_s
                elif clock.monotonic_s() - heard_s > limit_s:
                    log(f"the server has not been well for {limit_s:g} s: it is killed")
                    self._process.kill()
                    return self._process.wait()
        finally:
            os.close(handle)

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
