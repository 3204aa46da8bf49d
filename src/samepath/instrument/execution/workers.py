"""The parent's side: starting workers (forked, cold or in this very process), watching them, learning how they ended.

Why a fork server: a fresh interpreter takes about a second, most of it imports; a fork of a process that has imported
everything takes milliseconds, and no repeat sees what another did. samepath's own process must not be the one that forks: it
has threads and has run things. So a child is started once (``fork_server.py``), and forks a *branch* of itself for each
simulator and scenario, from which that cell's workers are forked.

Why nothing is left behind: workers end when their connection closes; the fork server reaps them and kills what lingers, with
all it has started; and the kernel ends each process with its parent, so that even ``kill -9`` on samepath leaves no simulator
running.
"""

import json
import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.processes import describe_exit
from samepath.instrument.conditions.packages import OWN, start
from samepath.instrument.conditions.process import command, environment
from samepath.instrument.execution.job import MAX_REQUEST_BYTES, Job, WorkerReply, WorkerRequest
from samepath.instrument.execution.worker import Session
from samepath.instrument.study.records import Isolation, Scalar

# How long a worker may take to end by itself once its connection is closed.
GRACE_S: Final = 2.0
# How long the fork server may take to answer: the first branch waits for its imports.
ANSWER_S: Final = 120.0
# How long a branch may take to prepare what its workers share: on a new machine the code of sensors is built, which took two
# minutes where all cores were busy.
PREPARE_S: Final = 600.0
# Idle branches cost memory; a study alternates between a few.
MAX_BRANCHES: Final = 24


class WorkerLostError(Exception):
    """A worker is gone; the text says how it ended."""


class Worker(ABC):
    """Runs the repeats of one job. Replies come in the order of the requests; the first, to the job itself, is ``Ready``.

    ``number`` is the repeat at hand, ``position`` how many came before it in the same process, ``deadline_s`` until when the
    worker must reply; ``measured`` is for whoever runs repeats to keep what ``Ready`` told.
    """

    def __init__(self, number: int, watchdog_s: float, clock: Clock) -> None:
        self._clock = clock
        self._watchdog_s = watchdog_s
        self.number = number
        self.position = 0
        self.measured: dict[str, Scalar] = {}
        self.begun_s = clock.monotonic_s()
        self.deadline_s = self.begun_s + watchdog_s

    def send(self, request: WorkerRequest) -> None:
        """Ask for something and start the watchdog anew."""
        self.deadline_s = self._clock.monotonic_s() + self._watchdog_s
        self._send(request)

    def receive(self) -> WorkerReply:
        """Return the next reply; where it is not there by now the worker is killed. Wait on ``waitable`` first."""
        # A connection that was closed can be read too: a crash is told as a crash, and only silence as a time-out.
        if self.waitable is not None and not self.waitable.poll(0):
            self.end(0.0)
            limit = f"{self._watchdog_s:g} s"
            raise WorkerLostError(f"took longer than {limit} and was stopped; execution.watchdog sets the limit")
        return self._receive()

    def move_on(self, number: int) -> None:
        """Turn to the next repeat in the same process."""
        self.number, self.position, self.begun_s = number, self.position + 1, self._clock.monotonic_s()

    @property
    @abstractmethod
    def waitable(self) -> Connection | None:
        """What to wait on for the next reply; None where it is there already."""

    @abstractmethod
    def end(self, grace_s: float = GRACE_S) -> str:
        """Let go of the worker, kill it if it takes longer than ``grace_s``, and say how it ended."""

    @abstractmethod
    def _send(self, request: WorkerRequest) -> None: ...

    @abstractmethod
    def _receive(self) -> WorkerReply: ...


class InlineWorker(Worker):
    """No process at all: requests are carried out here, at once. Conditions of a process are not set, nothing can be killed."""

    waitable = None

    def __init__(self, job: Job, number: int, watchdog_s: float, clock: Clock) -> None:
        super().__init__(number, watchdog_s, clock)
        # Conditions of a process would stay with samepath itself, and with every cell after this one.
        self._session = Session(job, set_conditions=False)
        self._reply = self._session.first

    def end(self, grace_s: float = GRACE_S) -> str:
        self._session.close()
        return "ended"

    def _send(self, request: WorkerRequest) -> None:
        self._reply = self._session.reply(request)

    def _receive(self) -> WorkerReply:
        return self._reply


@dataclass
class _Branch:
    """The fork server, or a fork of it that has loaded one simulator and scenario. ``lost``: it cannot be asked any more."""

    channel: socket.socket
    pid: int
    lost: bool = False

    def ask(self, request: dict[str, Any], handle: int | None = None, longest_s: float = ANSWER_S) -> dict[str, Any]:
        """Send a request, perhaps with a file descriptor, and return the answer."""
        if self.lost:
            raise WorkerLostError("the process that loads the simulator died")
        # Looked at here: the server would read a part of it, and take the whole branch down over one cell's settings.
        message = json.dumps(request).encode()
        if len(message) > MAX_REQUEST_BYTES:
            size = f"{len(message)} bytes came, {MAX_REQUEST_BYTES} is the most"
            raise WorkerLostError(f"settings and module path are too long for a worker process: {size}; shorten them")
        self.lost = True  # until the answer is there: after an interrupt in between, the next one would be the wrong one
        self.channel.settimeout(longest_s)
        try:
            socket.send_fds(self.channel, [message], [] if handle is None else [handle])
            data = self.channel.recv(1 << 12)
        # ``lost`` stays set in all three: the answer may still come, and would be taken for that to the next request.
        except TimeoutError as error:
            raise WorkerLostError(f"loading the simulator took longer than {longest_s:g} s") from error
        except OSError as error:
            raise WorkerLostError("the process that loads the simulator died") from error
        if not data:
            raise WorkerLostError("the process that loads the simulator died")
        self.lost = False
        answer: dict[str, Any] = json.loads(data)
        return answer


class ProcessWorker(Worker):
    """A child of the fork server: forked from it, or an interpreter that it has started."""

    def __init__(
        self, job: Job, connection: Connection, pid: int, branch: _Branch, number: int, watchdog_s: float, clock: Clock
    ) -> None:
        super().__init__(number, watchdog_s, clock)
        self.pid = pid
        self._connection = connection
        self._branch = branch
        self._ended = ""
        self._send(job)

    @property
    def waitable(self) -> Connection:
        return self._connection

    def end(self, grace_s: float = GRACE_S) -> str:
        if not self._ended:
            # First: the end of its connection is what tells a worker to end by itself.
            self._connection.close()
            try:
                request = {"do": "end", "pid": self.pid, "grace_s": grace_s}
                # The fork server is its parent, and alone can learn how it ended. It waits ``grace_s``, then kills; our own
                # limit is for a server that is stuck.
                self._ended = describe_exit(self._branch.ask(request, longest_s=grace_s + ANSWER_S)["status"])
            except WorkerLostError:
                self._ended = "died with the process that it was forked from"
        return self._ended

    def _send(self, request: WorkerRequest | Job) -> None:
        with suppress(ConnectionError):  # a worker that is gone already says so when its reply is asked for
            self._connection.send(request)

    def _receive(self) -> WorkerReply:
        try:
            reply: WorkerReply = self._connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerLostError(f"the simulator's process {self.end()}") from error
        return reply


class Launcher:
    """Starts workers of every isolation. The fork server is started when first needed and again if it was killed."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._root: _Branch | None = None
        # By simulator, scenario and settings, the one that was used last at the end.
        self._branches: OrderedDict[str, _Branch] = OrderedDict()

    def start(self, job: Job, isolation: Isolation, number: int = 0, watchdog_s: float = 60.0) -> Worker:
        """Start a worker whose first repeat is ``number``; raises :class:`WorkerLostError` where that fails."""
        if isolation is Isolation.INLINE:
            return InlineWorker(job, number, watchdog_s, self._clock)
        if isolation is Isolation.COLD:
            branch = self._running_root()
            argv = command(
                job.condition, start(str(job.condition.get("packages", OWN)), "samepath.instrument.execution.worker")
            )
            request: dict[str, Any] = {"do": "interpreter", "argv": argv, "environment": environment(job.condition)}
        else:
            branch, request = self._branch(job), {"do": "worker"}
        here, there = Pipe()
        try:
            pid = branch.ask(request, there.fileno(), PREPARE_S)["pid"]
        except WorkerLostError:
            here.close()
            raise
        finally:
            # Our copy of the child's end: as long as it were open, a child that dies would leave no end of file here.
            there.close()
        return ProcessWorker(job, here, pid, branch, number, watchdog_s, self._clock)

    def close(self) -> None:
        """End the fork server and all it has forked."""
        # Branches first: each ends its own workers when its channel closes.
        for branch in self._branches.values():
            branch.channel.close()
        self._branches.clear()
        if self._root is not None and self._process is not None:
            self._root.channel.close()
            try:
                self._process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._root = self._process = None

    def _running_root(self) -> _Branch:
        if self._root is not None and (self._root.lost or self._process is None or self._process.poll() is not None):
            self.close()
        if self._root is None:
            # Sequenced packets: one send is one request, with the descriptor that belongs to it.
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                numbers = [str(there.fileno()), str(os.getpid())]
                # What children print goes to stderr: stdout is for results. A process group of its own: Ctrl-C at the terminal
                # is samepath's alone to handle, which then ends its children in order.
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    [sys.executable, "-m", "samepath.instrument.execution.fork_server", *numbers],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    pass_fds=[there.fileno()],
                    process_group=0,
                )
            self._root = _Branch(here, self._process.pid)
        return self._root

    def _branch(self, job: Job) -> _Branch:
        """Return the branch of a job's simulator, scenario and settings; conditions and commands are the worker's own."""
        # Without conditions, since a branch must not have what a worker sets; so all levels of a condition start from one
        # state.
        prepared = {**asdict(replace(job, commands=None, condition={}, path=())), "settings": dict(job.settings)}
        # Sorted: the same settings in another order are the same branch.
        name = json.dumps(prepared, sort_keys=True)
        root = self._running_root()
        if name in self._branches and self._branches[name].lost:
            self._forget(name)
        if name not in self._branches:
            while len(self._branches) >= MAX_BRANCHES:
                self._forget(next(iter(self._branches)))
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                try:
                    pid = root.ask({"do": "branch", "job": prepared, "path": list(job.path)}, there.fileno())["pid"]
                except WorkerLostError:
                    here.close()
                    # Nobody knows how far the root got with it: the next start begins with a new one.
                    self.close()
                    raise
            self._branches[name] = _Branch(here, pid)
        self._branches.move_to_end(name)
        return self._branches[name]

    def _forget(self, name: str) -> None:
        """Close a branch and let the root collect it."""
        branch = self._branches.pop(name)
        branch.channel.close()
        if self._root is not None:
            with suppress(WorkerLostError):
                self._root.ask({"do": "end", "pid": branch.pid, "grace_s": GRACE_S})
