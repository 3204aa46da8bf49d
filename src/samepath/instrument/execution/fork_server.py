"""The fork server: a process that has imported the code, and from which workers are forked in milliseconds.

``python -m`` this module: it imports what every worker needs and runs nothing. For each simulator and scenario it
forks a *branch* of itself that also loads that simulator's code and what it prepares (maps, meshes); workers are forked from
the branch. So every worker of a cell starts from the same state, whatever other cells have been run before. All workers of a
branch share imported code, prepared data, hash seed and address layout; no worker ever sees what another has done.

Requests are JSON on a local socket, answered one by one. ``worker``, ``interpreter`` (a worker that starts cold) and ``branch``
come with a file descriptor for the new process to serve, and are answered with its number. ``end`` waits for a process that was
forked here, kills it and all it has started if it takes too long, and is answered with how it ended. The server ends with the
socket, or with its parent, and takes all it has forked with it.
"""

import gc
import json
import os
import signal
import socket
import sys
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.processes import die_with_parent
from samepath.engines import registry
from samepath.instrument.execution import worker
from samepath.instrument.execution.job import MAX_REQUEST_BYTES, ErrorReply, Job

# waitpid has no time limit of its own. A worker ends within a millisecond of being told to, and every repeat waits for that.
_POLL_S = 0.0005


class ForkServer:
    """Forks what it is asked to and knows what it has forked."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._children: dict[int, str] = {}

    def serve(self) -> NoReturn:
        """Answer requests until the other end is gone."""
        # What is there now is never garbage: collecting it in a child would only copy its pages.
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGTERM, lambda *_: self._leave())
        while True:
            try:
                data, handles, _, _ = socket.recv_fds(self._channel, MAX_REQUEST_BYTES, 1)
            except ConnectionError:
                data = b""
            if not data:
                self._leave()
            request = json.loads(data)
            if request["do"] == "end":
                answer: dict[str, Any] = {"status": self._end(request["pid"], request["grace_s"])}
            else:
                answer = {"pid": self._fork(request, handles[0])}
            with suppress(ConnectionError):
                self._channel.send(json.dumps(answer).encode())

    def _fork(self, request: dict[str, Any], handle: int) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            os.close(handle)
            self._children[pid] = request["do"]
            return pid
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._channel.close()
            os.setpgid(0, 0)  # so that all that this child starts can be ended with it
            if request["do"] == "branch":
                die_with_parent(parent, signal.SIGTERM)  # not SIGKILL: it must end its own children first
                _branch(request, handle)
            die_with_parent(parent)
            if request["do"] == "interpreter":
                _become(request, handle, parent)
            worker.serve(Connection(handle))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # No clean-up of the interpreter: it is the server's, whose files and buffers are not this child's to flush.
            sys.stderr.flush()
            os._exit(code)

    def _end(self, pid: int, grace_s: float) -> int:
        """Reap a child, by force once ``grace_s`` is over. Its number cannot be another's: it is ours until it is reaped."""
        until_s = SYSTEM_CLOCK.monotonic_s() + grace_s
        while SYSTEM_CLOCK.monotonic_s() < until_s:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                break
            SYSTEM_CLOCK.sleep_s(_POLL_S)
        else:
            _kill(pid)
            status = os.waitpid(pid, 0)[1]
        del self._children[pid]
        return os.waitstatus_to_exitcode(status)

    def _leave(self) -> NoReturn:
        for pid, kind in self._children.items():
            if kind == "branch":
                os.kill(pid, signal.SIGTERM)  # it has children of its own to end
            else:
                _kill(pid)
        os._exit(0)


def _branch(request: dict[str, Any], handle: int) -> NoReturn:
    sys.path[:] = request["path"]
    channel = socket.socket(fileno=handle)
    job = Job(**request["job"])
    # What cannot be loaded here fails again in the worker, where the reason is told.
    with suppress(Exception), registry.create(job.simulator) as simulator:
        simulator.prepare(job.request(0))
    ForkServer(channel).serve()


def _become(request: dict[str, Any], handle: int, parent: int) -> NoReturn:
    """Give way to a new interpreter; nothing of this one is left but its number and its parent."""
    argv = [*request["argv"], str(handle), str(parent)]
    os.set_inheritable(handle, True)
    try:
        os.execvpe(argv[0], argv, {**os.environ, **request["environment"]})  # noqa: S606 - our own interpreter
    except OSError as error:
        Connection(handle).send(ErrorReply(f"{argv[0]} cannot be started: {error.strerror or error}"))
        os._exit(1)


def _kill(pid: int) -> None:
    # The group first, with all that the child has started; a child that has not made its group yet is killed by itself.
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            end(pid, signal.SIGKILL)


def main() -> NoReturn:
    """Serve the socket whose number, with the parent's, is on the command line."""
    handle, parent = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent, signal.SIGTERM)
    # Libraries may keep threads of their own; they are made to be forked, and what is forked here starts none before.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    ForkServer(socket.socket(fileno=handle)).serve()


if __name__ == "__main__":
    main()
