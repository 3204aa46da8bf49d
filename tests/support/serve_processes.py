"""``samepath serve`` in processes of their own, within limits that the kernel enforces; what they say, how and when they end.

Importing takes longer than most tests of a server: one process imports everything, and each server is a fork of it.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import psutil

from samepath.core.clock import SYSTEM_CLOCK
from tests.support.rpc import RawRpc
from tests.support.serving import RawListener

# Much longer than anything here takes: whoever waits so long has found a server that hangs.
HANGS_S = 120.0
_FORKING = """
import gc, json, os, resource, select, sys, warnings
from samepath.cli.app import load_verb, main
load_verb("serve")
import samepath.simulator.server.server
from samepath.simulator.sensors import building
from samepath.simulator.server import map_trial, navmesh

# Every server loads it before it serves; its forks have it.
building.build_code(lambda line: None)

def serve(asked):
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    said = os.open(asked["said"], os.O_WRONLY)
    os.dup2(said, 2)
    os.close(said)
    os.chdir(asked["cwd"])
    # Python 3.11 keeps the half of a bytecode file that the limit lets through, and every later process trips over it.
    sys.dont_write_bytecode = "RLIMIT_FSIZE" in asked["limits"]
    for name, value in asked["limits"].items():
        if name in ("RLIMIT_AS", "RLIMIT_DATA"):  # beyond what is there: how much that is depends on the libraries
            pages = open("/proc/self/statm").read().split()
            value += int(pages[0 if name == "RLIMIT_AS" else 5]) * resource.getpagesize()
        resource.setrlimit(getattr(resource, name), (value, value))
    exec(asked["first"])
    sys.argv = ["samepath", "serve", "--port", "0", *asked["arguments"]]
    sys.exit(main())

for line in sys.stdin:
    asked = json.loads(line)
    answer = 0
    gc.freeze()  # or each server, when it ends, would look through all that was imported here: most of a second
    if asked["do"] == "start":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = os.fork()
        if answer == 0:
            serve(asked)
    else:
        handle = os.pidfd_open(asked["pid"])
        ended = select.select([handle], [], [], asked["wait_s"])[0]
        os.close(handle)
        answer = os.waitstatus_to_exitcode(os.waitpid(asked["pid"], 0)[1]) if ended else None
    print(json.dumps(answer), flush=True)
"""


class ServeProcess:
    """One server. ``lines`` is what it has said so far."""

    def __init__(self, pool, cwd, arguments, **asked):
        self._pool = pool
        self.lines = []
        self._news = threading.Condition()
        self._closed = False
        self.exit_code = None
        said = cwd / f"said-{len(pool.started)}"
        os.mkfifo(said)
        # Opened before the server does, or opening would wait for ever for one that ended at once.
        end = os.open(said, os.O_RDONLY | os.O_NONBLOCK)
        self.pid = pool.ask(do="start", cwd=str(cwd), arguments=list(map(str, arguments)), said=str(said), **asked)
        self.process = psutil.Process(self.pid)
        # Held open until the process is gone, so that reading does not end before the server has opened it.
        keep = os.open(said, os.O_WRONLY)
        os.set_blocking(end, True)
        self._reader = threading.Thread(target=self._read, args=(end,), daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, args=(os.pidfd_open(self.pid), keep), daemon=True).start()
        self.port = self.stream_port = 0

    def _read(self, end):
        with os.fdopen(end, encoding="utf-8", errors="replace") as said:
            for line in said:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._closed = True
            self._news.notify_all()

    @staticmethod
    def _watch(process, keep):
        select.select([process], [], [])
        os.close(process)
        os.close(keep)

    def line(self, pattern, wait_s=HANGS_S):
        """Wait for a line; returns the match."""
        with self._news:
            found = None

            def is_there():
                nonlocal found
                found = next((match for line in self.lines if (match := re.search(pattern, line))), None)
                return found is not None or self._closed

            self._news.wait_for(is_there, wait_s)
        assert found is not None, f"{pattern!r} was wanted, but the server said: {self.lines[-20:]}"
        return found

    def ready(self):
        """Wait until it serves."""
        found = self.line(r"127\.0\.0\.1:(\d+), streams on (\d+)")
        self.port, self.stream_port = int(found[1]), int(found[2])
        return self

    def client(self, timeout_s=HANGS_S):
        return RawRpc("127.0.0.1", self.port, timeout_s)

    def listener(self, stream_id, timeout_s=HANGS_S):
        return RawListener(self, stream_id, timeout_s)

    def cpu_s(self):
        used = self.process.cpu_times()
        return used.user + used.system

    def children(self):
        return self.process.children(recursive=True)

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, wait_s):
        """Its exit code, negative for a signal; None: it is still there."""
        if self.exit_code is None:
            self.exit_code = self._pool.ask(do="wait", pid=self.pid, wait_s=wait_s)
            if self.exit_code is not None:
                self._reader.join(HANGS_S)
        return self.exit_code

    def end(self):
        if self.exit_code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(HANGS_S)


class ServePool:
    """Starts servers."""

    def __init__(self, forking):
        self._forking = forking
        self.started = []

    def ask(self, **asked):
        self._forking.stdin.write(json.dumps(asked) + "\n")
        self._forking.stdin.flush()
        return json.loads(self._forking.stdout.readline())

    @contextmanager
    def serve(self, cwd, *arguments, limits=None, first=""):
        """Start ``samepath serve`` in a folder, with limits such as ``{"RLIMIT_NOFILE": 64}``; it does not outlive this.

        ``first`` is run in its process before.
        """
        server = ServeProcess(self, Path(cwd), arguments, limits=limits or {}, first=first)
        self.started.append(server)
        try:
            yield server
        finally:
            server.end()


@contextmanager
def serve_pool():
    """Yield a :class:`ServePool`; nothing it started is left behind."""
    command = [sys.executable, "-c", _FORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forking:
        pool = ServePool(forking)
        try:
            yield pool
        finally:
            for server in pool.started:
                server.end()
            forking.stdin.close()


def until(happened, what, wait_s=HANGS_S):
    """Wait until something has happened that sends no event of its own."""
    end_s = SYSTEM_CLOCK.monotonic_s() + wait_s
    while not (found := happened()):
        assert SYSTEM_CLOCK.monotonic_s() < end_s, f"{what} was waited for in vain"
        SYSTEM_CLOCK.sleep_s(0.005)
    return found
