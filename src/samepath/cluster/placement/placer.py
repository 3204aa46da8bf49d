"""The process that talks to Ray on the main server's behalf: ``python -m samepath.cluster.placement.placer PARENT``.

Ray ends the process that is connected to it when it fails itself. That must not be the one that owns the world. Orders come as
lines of JSON on standard input, news go as lines of JSON to standard output; the end of its input ends it, and with it
everything that it has started.
"""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict
from typing import IO, Any, Final

from samepath.cluster.placement.actors import ActorPlacement
from samepath.cluster.placement.records import NodeKeys, NodeOrder
from samepath.core.errors import SamepathError
from samepath.core.processes import die_with_parent

RAY_FAILED: Final = 3
_EVERY_S: Final = 0.05


class Voice:
    """Where news go; one line at a time, from any thread."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def say(self, **news: Any) -> None:  # noqa: ANN401 - JSON
        """Tell the main server something."""
        with self._lock:
            self._pipe.write(json.dumps(news) + "\n")
            self._pipe.flush()


def serve(voice: Voice, main: int) -> None:
    """Do what is asked until the input ends."""
    wanted = json.loads(sys.stdin.readline())
    try:
        placement = ActorPlacement(
            lambda line: voice.say(line=line),
            lambda: os._exit(RAY_FAILED),
            main,
            address=wanted["address"],
            link_is_loopback=wanted["link_is_loopback"],
            module=wanted["module"],
        )
    except SamepathError as error:
        voice.say(refused=str(error))
        return
    voice.say(folder=placement.folder)
    over = threading.Event()

    def tell() -> None:
        for one in placement.ended():
            voice.say(ended=asdict(one))

    def report() -> None:
        while not over.wait(_EVERY_S):
            tell()

    reporter = threading.Thread(target=report, name="reports ends", daemon=True)
    reporter.start()
    try:
        for line in sys.stdin:
            _obey(placement, json.loads(line))
    finally:
        placement.close()
        over.set()
        reporter.join()
        tell()


def _obey(placement: ActorPlacement, asked: dict[str, Any]) -> None:
    match asked["do"]:
        case "start":
            placement.start(NodeOrder(**asked["order"]), NodeKeys(**asked["keys"]))
        case "restart":
            placement.restart(asked["name"])
        case "stop":
            placement.stop(asked["name"])


def main() -> None:
    """Serve the parent whose number is on the command line."""
    parent = int(sys.argv[1])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main server's to handle
    voice = Voice(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what Ray prints is no news
    serve(voice, parent)


if __name__ == "__main__":
    main()
