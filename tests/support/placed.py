"""A placement in a process of its own, and how tests talk to it: a command a line in, what happens a line out.

Ray changes signals and environment of the process that it is used in, and warns; what runs tests wants neither.
"""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress

import psutil

from samepath.core.clock import SYSTEM_CLOCK
from tests.support import ROOT, SUPPORT

LONGEST_S = 300.0
SECRET = "S" * 40


def alive(pid):
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(so, what="something"):
    until_s = SYSTEM_CLOCK.monotonic_s() + LONGEST_S
    while not so():
        if SYSTEM_CLOCK.monotonic_s() > until_s:
            raise AssertionError(f"waited in vain for {what}")
        SYSTEM_CLOCK.sleep_s(0.01)


class Placed:
    """The other process, and all it has told."""

    def __init__(self, kind, *arguments, environment=()):
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, str(SUPPORT / "placed.py"), kind, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path, **dict(environment)},
        )  # fmt: skip
        self.told = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait(lambda: self.of("open"), "the placement")

    def _read(self):
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    def of(self, what):
        return [message[what] for message in self.told if what in message]

    def lines(self, name):
        return [line.removeprefix(f"{name}: ") for line in self.of("line") if line.startswith(f"{name}: ")]

    def pids(self, name):
        """The process numbers of all lives of a node so far."""
        return [int(line.split()[1]) for line in self.lines(name) if line.startswith("ready ")]

    def ends(self, name):
        return [(number, why, again) for node, number, why, again in self.of("ended") if node == name]

    def wait(self, so, what):
        def over():
            if self.process.poll() is not None and not so():
                raise AssertionError(f"waited for {what}, but it ended: {self.process.stderr.read()}")
            return so()

        wait_until(over, what)

    def wait_for_life(self, name, number):
        self.wait(lambda: len(self.pids(name)) >= number, f"life {number} of {name}")
        return self.pids(name)[number - 1]

    def tell(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def close(self):
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(LONGEST_S)
        self._reader.join()
        with self.process.stdout, self.process.stderr as said:
            return code, said.read()


def main(kind, *arguments):
    from samepath.cluster.placement.processes import ProcessPlacement
    from samepath.cluster.placement.ray_placement import RayPlacement
    from samepath.cluster.placement.records import NodeKeys, NodeSpec
    from samepath.core.errors import SamepathError

    def say(**what):
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()

    def log(line):
        say(line=line)

    try:
        if kind == "processes":
            placement = ProcessPlacement(log, module="tests.support.stand_in_node")
        else:
            placement = RayPlacement(log, address=arguments[0] if arguments else None, module="tests.support.stand_in_node")
            placement.open()
    except SamepathError as error:
        say(open=str(error))
        return
    say(open="")

    over = threading.Event()

    def report():
        folder = ""
        while True:
            last = over.is_set()
            if getattr(placement, "folder", "") != folder:
                folder = placement.folder
                say(folder=folder)
            for ended in placement.ended():
                say(ended=(ended.name, ended.incarnation, ended.why, ended.restarts))
            if last:
                return
            over.wait(0.01)

    thread = threading.Thread(target=report)
    thread.start()
    keys = NodeKeys("M" * 40, "P" * 40, SECRET)
    for line in sys.stdin:
        order, name, *pid = line.split()
        match order:
            case "start":
                placement.start(NodeSpec(name, 3, "tcp://127.0.0.1:9"), keys)
            case "stop":
                placement.stop(name)
            case "restart":
                placement.restart(name, int(pid[0]))
    placement.close()
    over.set()
    thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
