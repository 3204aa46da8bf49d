"""How long calls take: a process of its own asks every server in turn, whatever its clients do meanwhile.

Two calls: ``version``, which whoever is asked answers itself, and a vehicle's last control, which only the main server knows.
In a process of its own nothing that the measuring client computes is counted as latency.
"""

import json
import subprocess
import sys
import threading
from itertools import cycle
from typing import Any, Final, NamedTuple

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import ClusterError
from samepath.sim.cluster.measuring.wire import Caller, Door

_PAUSE_S: Final = 0.005


class Pings(NamedTuple):
    """Latencies by server: of what it answers itself, and of what the main server answers."""

    here_s: dict[str, list[float]]
    at_main_s: dict[str, list[float]]


class Pinger:
    """Asks in turn, from begin to end."""

    def __init__(self, doors: list[Door]) -> None:
        command = [sys.executable, "-m", __name__, str(len(doors))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)  # noqa: S603
        self._say({"doors": doors})
        self._heard()

    def begin(self, vehicle: int) -> None:
        """Ask from now on, for the control of this vehicle."""
        self._say({"vehicle": vehicle})

    def end(self) -> Pings:
        """Stop asking; return what came since the beginning."""
        self._say({"vehicle": None})
        return Pings(*self._heard())

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(20.0)

    def _say(self, words: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise RuntimeError("a pipe was asked for")
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()

    def _heard(self) -> Any:  # noqa: ANN401 - its own words
        if self._process.stdout is None:
            raise RuntimeError("a pipe was asked for")
        line = self._process.stdout.readline()
        if not line:
            raise ClusterError("the process that measures latencies has ended: look at what it printed above")
        return json.loads(line)


def ask_in_turn(callers: list[Caller], vehicle: int, over: threading.Event) -> Pings:
    """Ask until it is over, everybody at least once."""
    here: dict[str, list[float]] = {one.door.name: [] for one in callers}
    at_main: dict[str, list[float]] = {one.door.name: [] for one in callers}
    turns: list[tuple[Caller, dict[str, list[float]], str, tuple[int, ...]]] = [
        *((one, here, "version", ()) for one in callers),
        *((one, at_main, "samepath_control", (vehicle,)) for one in callers),
    ]
    for number, (caller, kept, method, arguments) in enumerate(cycle(turns)):
        if over.wait(_PAUSE_S) and number >= len(turns):
            break
        start_s = SYSTEM_CLOCK.monotonic_s()
        caller.value(method, *arguments)
        kept[caller.door.name].append(SYSTEM_CLOCK.monotonic_s() - start_s)
    return Pings(here, at_main)


def main() -> None:
    """Take orders, one a line, until there are no more."""
    first = json.loads(sys.stdin.buffer.readline())
    callers = [Caller(Door(*one)) for one in first["doors"]]
    print("[]", flush=True)
    over, found = threading.Event(), []
    asking: threading.Thread | None = None

    def ask(vehicle: int) -> None:
        found.append(ask_in_turn(callers, vehicle, over))

    for line in sys.stdin.buffer:
        vehicle = json.loads(line)["vehicle"]
        if vehicle is not None:
            over.clear()
            asking = threading.Thread(target=ask, args=(vehicle,), daemon=True)
            asking.start()
        elif asking is not None:
            over.set()
            asking.join()
            print(json.dumps(found.pop() if found else [{}, {}]), flush=True)


if __name__ == "__main__":
    main()
