"""The process that talks to Ray on the main server's behalf: ``python -m samepath.cluster.placement.ray_driver PARENT``.

Ray ends the process that is connected to it when it fails itself. That must not be the one that owns the world. Requests come
as lines of JSON on standard input, what happens goes as lines of JSON to standard output; the end of its input ends it, and
with it everything that it has started.
"""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict
from typing import IO, Any, Final

from samepath.cluster.placement.ray_actors import ActorPlacement
from samepath.cluster.placement.records import NodeKeys, NodeSpec
from samepath.core.errors import SamepathError
from samepath.core.processes import die_with_parent

RAY_FAILED: Final = 3
_EVERY_S: Final = 0.05


class JsonLines:
    """Sends to the main server, one line of JSON at a time, from any thread."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def send(self, **news: object) -> None:
        with self._lock:
            self._pipe.write(json.dumps(news) + "\n")
            self._pipe.flush()


def serve(output: JsonLines, main: int) -> None:
    """Do what is asked until the input ends."""
    wanted = json.loads(sys.stdin.readline())
    try:
        placement = ActorPlacement(
            lambda line: output.send(line=line),
            lambda: os._exit(RAY_FAILED),
            main,
            address=wanted["address"],
            link_is_loopback=wanted["link_is_loopback"],
            module=wanted["module"],
        )
    except SamepathError as error:
        output.send(refused=str(error))
        return
    output.send(folder=placement.folder)
    over = threading.Event()

    def tell() -> None:
        for ended in placement.ended():
            output.send(ended=asdict(ended))

    def report() -> None:
        while not over.wait(_EVERY_S):
            tell()

    reporter = threading.Thread(target=report, name="reports ends", daemon=True)
    reporter.start()
    try:
        for line in sys.stdin:
            _carry_out(placement, json.loads(line))
    finally:
        placement.close()
        over.set()
        reporter.join()
        tell()


def _carry_out(placement: ActorPlacement, asked: dict[str, Any]) -> None:
    match asked["do"]:
        case "start":
            placement.start(NodeSpec(**asked["spec"]), NodeKeys(**asked["keys"]))
        case "restart":
            placement.restart(asked["name"], asked["pid"])
        case "stop":
            placement.stop(asked["name"])


def main() -> None:
    """Serve the parent whose number is on the command line."""
    parent = int(sys.argv[1])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main server's to handle
    output = JsonLines(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what Ray prints must not get between the lines of JSON
    serve(output, parent)


if __name__ == "__main__":
    main()
