"""The child's side: a process that makes one simulator and runs what it is asked for, one request at a time.

The same code serves a child of the fork server, an interpreter of its own (``python -m`` this module) and, without a
connection, samepath's own process. Whatever goes wrong inside a simulator comes back as a reply: only a crash or a hang is
the parent's to notice.
"""

import os
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.core.processes import die_with_parent
from samepath.engines import registry
from samepath.instrument.conditions import packages
from samepath.instrument.conditions.process import apply, read_back
from samepath.instrument.execution.job import (
    CommandsRecorded,
    ErrorReply,
    Job,
    Ready,
    RecordOnce,
    RepeatDone,
    RunForever,
    RunRepeat,
    WorkerReply,
    WorkerRequest,
)
from samepath.instrument.host.sampler import HostSampler
from samepath.instrument.traces.recorder import Recorder


class Session:
    """A simulator and the job it serves. ``first`` is the reply to the job itself."""

    def __init__(self, job: Job, *, set_conditions: bool = True) -> None:
        self._job = job
        self.first: WorkerReply
        try:
            # Conditions first: a simulator may look at its cores and threads once, when it is made.
            measured = apply(job.condition) if set_conditions else read_back()
            if job.packages:
                packages.check_unchanged(str(job.condition["packages"]), job.packages)
            self._simulator = registry.create(job.simulator)
            self._info = self._simulator.described(job.settings)
            self.first = Ready(measured)
        # SystemExit too: a simulator that calls sys.exit() has failed, and its worker must say so. KeyboardInterrupt passes:
        # inline this is samepath's own process.
        except (Exception, SystemExit) as error:
            self.first = error_reply(error)

    def reply(self, request: WorkerRequest) -> WorkerReply:
        """Do what is asked."""
        try:
            match request:
                case RunRepeat(number):
                    return self._run(number)
                case RecordOnce():
                    return CommandsRecorded(self._simulator.record_commands(self._job.request(0)))
                case RunForever():
                    while True:
                        self._run(0)
        except (Exception, SystemExit) as error:
            return error_reply(error)

    def _run(self, number: int) -> RepeatDone:
        info = self._info
        recorder = Recorder(number, info.channels, info.step_s, self._job.log_every)
        with HostSampler() as sampler:
            start_s = SYSTEM_CLOCK.monotonic_s()
            self._simulator.run(self._job.request(number), recorder, sampler.tick)
            # Before the digests are worked out: this is the simulator's time, not the instrument's.
            seconds = SYSTEM_CLOCK.monotonic_s() - start_s
        return RepeatDone(recorder.finish(sampler.log()), seconds)

    def close(self) -> None:
        """Let go of the simulator; by now nobody waits for what may go wrong in that."""
        with suppress(Exception):
            self._simulator.close()


def error_reply(error: BaseException) -> ErrorReply:
    """Put an error into one line; of an unexpected one, keep where it came from."""
    if isinstance(error, SamepathError):
        return ErrorReply(str(error))
    words = " ".join(str(error).split())
    # The innermost place, as a rule in the simulator's code: the lines above it are ours.
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"{type(error).__name__}: {words}" if words else type(error).__name__
    detail = "".join(traceback.format_exception(error))
    return ErrorReply(f"{reason} ({Path(place.filename).name}, line {place.lineno})", detail)


def serve(connection: Connection) -> None:
    """Serve one job until the other end closes the connection; the caller then ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    session: Session | None = None
    try:
        job: Job = connection.recv()
        # Before the simulator is looked for: it may lie beside the study, where only the parent's path leads.
        if job.condition.get("packages", packages.OWN) == packages.OWN:
            sys.path[:] = job.path  # another installation has put its own in order when it was started
        session = Session(job)
        connection.send(session.first)
        while True:
            # One request at a time, and idle in between: while the parent stores a repeat nothing runs here.
            connection.send(session.reply(connection.recv()))
    except (EOFError, ConnectionError):
        if session is not None:
            session.close()


def main() -> NoReturn:
    """Serve the connection whose number, with the parent's, is on the command line."""
    handle, parent = int(sys.argv[1]), int(sys.argv[2])
    # First: should the parent be gone already, nothing of this must start.
    die_with_parent(parent)
    serve(Connection(handle))
    sys.stderr.flush()
    os._exit(0)  # as forked workers end: what a simulator leaves running must not hold the process


if __name__ == "__main__":
    main()
