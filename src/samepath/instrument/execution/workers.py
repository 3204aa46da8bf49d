"""The parent's side: starting workers (forked, cold or in this very process) and learning how they ended."""

import json
import os
import socket
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

from samepath.core.processes import how_it_ended
from samepath.instrument.conditions.process import command, environment
from samepath.instrument.execution.job import Answer, Job, Order
from samepath.instrument.execution.worker import Session
from samepath.instrument.study.records import Isolation

# How long a worker may take to end by itself once it is told to, and the fork server to answer.
GRACE_S: Final = 2.0
# The first branch waits for the server's imports, any branch for what its simulator prepares.
ANSWER_S: Final = 120.0
# Idle branches cost memory; a study alternates between a few.
MAX_BRANCHES: Final = 24


class WorkerLostError(Exception):
    """A worker is gone; the text says how it ended."""


class Worker(Protocol):
    """A process that serves one job. Answers come in the order of the orders; the first is :class:`Ready`."""

    @property
    def waitable(self) -> Connection | None:
        """What to wait on for the next answer; None where it is there already."""
        ...

    def send(self, order: Order) -> None:
        """Give an order."""
        ...

    def receive(self) -> Answer:
        """Return the next answer; raises :class:`WorkerLostError` if there will be none."""
        ...

    def end(self, grace_s: float = GRACE_S) -> str:
        """Let go of the worker, kill it if it takes longer than ``grace_s``, and say how it ended."""
        ...


class ForkServer:
    """Starts the fork server when first needed, and keeps a branch per simulator and scenario."""

    def __init__(self) -> None:
        self._root: Branch | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._branches: OrderedDict[str, Branch] = OrderedDict()

    def start(self, job: Job, *, cold: bool = False) -> "ServedWorker":
        """Fork a worker for ``job``, or start an interpreter for it."""
        branch = self._running_root() if cold else self._branch(job)
        request: dict[str, Any] = {"do": "worker"}
        if cold:
            argv = command(job.condition, [sys.executable, "-m", "samepath.instrument.execution.worker"])
            request = {"do": "interpreter", "argv": argv, "environment": environment(job.condition)}
        here, there = Pipe()
        try:
            pid = branch.ask(request, there.fileno())["pid"]
        except WorkerLostError:
            here.close()
            raise
        finally:
            there.close()
        return ServedWorker(here, pid, branch, job)

    def _branch(self, job: Job) -> "Branch":
        prepared = {**asdict(replace(job, commands=None, condition={}, path=())), "settings": dict(job.settings)}
        name = json.dumps(prepared, sort_keys=True)
        root = self._running_root()
        branch = self._branches.get(name)
        if branch is not None and branch.lost:
            self._forget(branch)
            branch = None
        if branch is None:
            while len(self._branches) >= MAX_BRANCHES:
                self._forget(next(iter(self._branches.values())))
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                try:
                    pid = root.ask({"do": "branch", "job": prepared, "path": list(job.path)}, there.fileno())["pid"]
                except WorkerLostError:
                    here.close()
                    self.close()
                    raise
            branch = self._branches[name] = Branch(here, pid)
        self._branches.move_to_end(name)
        return branch

    def _running_root(self) -> "Branch":
        if self._root is not None and (self._root.lost or self._process is None or self._process.poll() is not None):
            self.close()
        if self._root is None:
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                numbers = [str(there.fileno()), str(os.getpid())]
                # What children print goes to stderr: stdout is for results.
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    [sys.executable, "-m", "samepath.instrument.execution.fork_server", *numbers],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    pass_fds=[there.fileno()],
                    process_group=0,
                )
            self._root = Branch(here, self._process.pid)
        return self._root

    def _forget(self, branch: "Branch") -> None:
        """Close a branch and let the root collect it."""
        branch.control.close()
        for name in [name for name, one in self._branches.items() if one is branch]:
            del self._branches[name]
        if self._root is not None:
            with suppress(WorkerLostError):
                self._root.ask({"do": "end", "pid": branch.pid, "grace_s": GRACE_S})

    def close(self) -> None:
        """End the server and all it has forked."""
        for branch in self._branches.values():
            branch.control.close()
        self._branches.clear()
        if self._root is not None and self._process is not None:
            self._root.control.close()
            try:
                self._process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._root = self._process = None


class Branch:
    """The server, or a fork of it that has loaded one simulator and scenario."""

    def __init__(self, control: socket.socket, pid: int) -> None:
        self.control = control
        self.pid = pid
        self.lost = False

    def ask(self, request: dict[str, Any], handle: int | None = None, longest_s: float = ANSWER_S) -> dict[str, Any]:
        """Send a request, perhaps with a file descriptor, and return the answer."""
        if self.lost:
            raise WorkerLostError("the process that loads the simulator died")
        self.lost = True  # until the answer is there: after an interrupt in between, the next one would be the wrong one
        self.control.settimeout(longest_s)
        try:
            socket.send_fds(self.control, [json.dumps(request).encode()], [] if handle is None else [handle])
            data = self.control.recv(1 << 12)
        except TimeoutError as error:
            raise WorkerLostError(f"loading the simulator took longer than {longest_s:g} s") from error
        except OSError as error:
            raise WorkerLostError("the process that loads the simulator died") from error
        if not data:
            raise WorkerLostError("the process that loads the simulator died")
        self.lost = False
        answer: dict[str, Any] = json.loads(data)
        return answer


class ServedWorker:
    """A child of the fork server: forked from it, or an interpreter that it has started."""

    def __init__(self, connection: Connection, pid: int, branch: Branch, job: Job) -> None:
        self.pid = pid
        self._connection = connection
        self._branch = branch
        self._ended = ""
        self.send(job)

    @property
    def waitable(self) -> Connection:
        """What to wait on for the next answer."""
        return self._connection

    def send(self, order: Order | Job) -> None:
        """Give an order; a worker that is gone already says so when its answer is asked for."""
        with suppress(ConnectionError):
            self._connection.send(order)

    def receive(self) -> Answer:
        """Return the next answer."""
        return _receive(self._connection, self)

    def end(self, grace_s: float = GRACE_S) -> str:
        """Let go of the worker and say how it ended."""
        if not self._ended:
            self._connection.close()
            try:
                status = self._branch.ask({"do": "end", "pid": self.pid, "grace_s": grace_s}, longest_s=grace_s + ANSWER_S)
                self._ended = how_it_ended(status["status"])
            except WorkerLostError:
                self._ended = "died with the process that it was forked from"
        return self._ended


class InlineWorker:
    """No process at all: orders are carried out here, at once. Conditions of a process are not set."""

    def __init__(self, job: Job) -> None:
        self._session = Session(job, set_conditions=False)
        self._answer = self._session.first
        self.pid = os.getpid()

    @property
    def waitable(self) -> None:
        """Nothing to wait for."""
        return

    def send(self, order: Order) -> None:
        """Carry out an order."""
        self._answer = self._session.answer(order)

    def receive(self) -> Answer:
        """Return the answer."""
        return self._answer

    def end(self, grace_s: float = GRACE_S) -> str:
        """Let go of the simulator."""
        self._session.close()
        return "ended"


class Launcher:
    """Starts workers of every isolation."""

    def __init__(self) -> None:
        self._server = ForkServer()

    def start(self, job: Job, isolation: Isolation) -> Worker:
        """Start a worker; raises :class:`WorkerLostError` where that fails."""
        match isolation:
            case Isolation.INLINE:
                return InlineWorker(job)
            case _:
                return self._server.start(job, cold=isolation is Isolation.COLD)

    def close(self) -> None:
        """End the fork server."""
        self._server.close()


def _receive(connection: Connection, worker: Worker) -> Answer:
    try:
        answer: Answer = connection.recv()
    except (EOFError, OSError) as error:
        raise WorkerLostError(f"the simulator's process {worker.end()}") from error
    return answer
