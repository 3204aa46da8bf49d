"""What a server that runs for long needs around it: a log that nobody can flood, a probe, and somebody who starts it again.

About the log: what a server says of its clients is one line for each of them, and a client that connects, is refused and
connects again does so thousands of times a second: the disk that is full then is the journal's, too. So lines of one kind,
which are those that differ in numbers and quoted words alone, are written a few times in a while; the rest is counted, and the
count is written.

The probe is an address that says whether a server is alive, for Docker, Kubernetes and load balancers. One question, one line:
``GET /healthz`` gives 200 and ``ok``, or 503 and what is wrong. It is answered by the event loop that serves the clients, so
that a loop which hangs answers no probe either.

The supervisor starts a server again when it has failed or hangs, and leaves it alone when it was told to end. The server is a
child process. It says once a second over a pipe that it is well (:class:`Pulse`); one that has said nothing for too long is
killed, because what hangs cannot be asked to end. A child that ends with ``EpisodeFailedError.exit_code`` or by a signal is
started again, with the command that goes on from its journal; any other end is the user's business (a mistyped option does not
get better by being repeated). Several failures in a row within seconds mean that starting again does not help: then it is given
up, so that whoever is above (systemd, Kubernetes, a person) hears of it.
"""

import asyncio
import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import EpisodeFailedError
from samepath.core.network import Listener, listen
from samepath.core.processes import ShutdownSignals, describe_exit, die_with

KIND_MOST: Final = 20
WINDOW_S: Final = 10.0
# Kinds that are remembered; the words of a line are ours, so there are not many.
_KINDS_MOST: Final = 256
_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")


class LineLimiter:
    """Passes lines on to ``write``, of each kind at most :data:`KIND_MOST` in :data:`WINDOW_S`; from any thread."""

    def __init__(self, write: Callable[[str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._samples: dict[str, str] = {}  # the last line of a kind that was left out
        self._until_s = 0.0

    def __call__(self, line: str) -> None:
        kind = _VARIES.sub("#", line)
        with self._lock:
            if self._clock.monotonic_s() >= self._until_s:
                self._tell()
                self._until_s = self._clock.monotonic_s() + WINDOW_S
            if kind not in self._counts and len(self._counts) >= _KINDS_MOST:
                self._tell()
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            if count <= KIND_MOST:
                self._write(line)
            else:
                self._samples[kind] = line

    def _tell(self) -> None:
        """Say what was left out, and begin to count anew."""
        for kind, line in self._samples.items():
            self._write(f"{self._counts[kind] - KIND_MOST} more lines like the last one were left out: {line}")
        self._counts.clear()
        self._samples.clear()


PATH: Final = "/healthz"
# A probe is one short request from a machine: whoever takes longer, or says more, is none.
_REQUEST_S: Final = 2.0
_REQUEST_BYTES: Final = 8192


async def serve_probe(
    complaint: Callable[[], str], host: str, port: int, log: Callable[[str], None], notes: Callable[[], str] = lambda: ""
) -> Listener:
    """Answer probes from now on. ``complaint`` returns what is wrong, or nothing; ``notes`` a line below ``ok``."""
    found = await listen(lambda: _Visit(complaint, notes), host, port, log)
    found.start_serving()
    return found


class _Visit(asyncio.Protocol):
    """One connection, for one request."""

    def __init__(self, complaint: Callable[[], str], notes: Callable[[], str]) -> None:
        self._complaint, self._notes = complaint, notes
        self._request = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport was wanted")
        self._transport = transport
        # Also for the answer to be fetched: nobody holds a descriptor for longer.
        self._deadline = asyncio.get_running_loop().call_later(_REQUEST_S, transport.abort)

    def connection_lost(self, _: Exception | None) -> None:
        self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        self._request += data
        if b"\r\n\r\n" in self._request:
            self._transport.write(_answer(bytes(self._request).split(b"\r\n", 1)[0], self._complaint, self._notes))
            self._transport.close()
        elif len(self._request) > _REQUEST_BYTES:
            self._transport.abort()


def probe_words(complaint: str, notes: str) -> str:
    """The answer to a probe: what is wrong, or ``ok`` and figures below it."""
    return complaint or (f"ok\n{notes}" if notes else "ok")


def _answer(line: bytes, complaint: Callable[[], str], notes: Callable[[], str]) -> bytes:
    method, _, target = line.partition(b" ")
    if method not in (b"GET", b"HEAD") or target.split(b" ")[0] != PATH.encode():
        status, words = HTTPStatus.NOT_FOUND, f"there is GET {PATH}"
    else:
        wrong = complaint()
        status, words = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK, probe_words(wrong, notes())
    body = f"{words}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)


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
