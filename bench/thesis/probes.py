"""How long calls and commands take: a process of its own asks every server in turn, whatever its clients do meanwhile.

*Calls*: ``version``, which whoever is asked answers itself (the thesis' ping), and a vehicle's last control, which only the
main server knows. *Commands*, in real time: a control command for a vehicle that stands aside is sent through a server, and the
stream of the world's state of that same server is watched until it shows the command. So the whole way is measured, as a
vehicle's software would see it: client, node, main server, the step that feels it, and the state back. In a process of its own
nothing that the measuring client computes is counted as latency.
"""

import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from typing import Any, Final, NamedTuple

from bench.thesis.child import Child, orders, reply
from bench.thesis.fleet import states_of
from bench.thesis.wire import RpcConnection, ServerAddress, WorldStream
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.simulator.carla.records import VehicleControl

_PAUSE_S: Final = 0.005
_COMMAND_LONGEST_S: Final = 10.0
_STEER: Final = struct.Struct("<f")
_STEER_AT: Final = 4  # in a vehicle's part of the state, behind the throttle
_STEPS: Final = 1 << 12  # values of steering that differ, each exact in 32 bits


class CallLatencies(NamedTuple):
    """Latencies by server: of what it answers itself, of what the main server answers, and of commands through it."""

    here_s: dict[str, list[float]]
    at_main_s: dict[str, list[float]]
    commands_s: dict[str, list[float]]


class LatencyProbe:
    """Asks in turn, from begin to end."""

    def __init__(self, addresses: list[ServerAddress], cores: frozenset[int] = frozenset()) -> None:
        self._child = Child("the process that measures latencies", __name__, cores=cores)
        self._child.ask(addresses=addresses)

    def begin(self, vehicle: int, *, commands: bool) -> None:
        """Ask from now on, for the control of this vehicle; command it, too, if ``commands``."""
        self._child.say(begin=[vehicle, commands])

    def end(self) -> CallLatencies:
        """Stop asking; return what came since the beginning."""
        return CallLatencies(*self._child.ask(end=True))

    def close(self) -> None:
        """End the process."""
        self._child.close()


# In the process.


def ask_in_turn(callers: list[RpcConnection], vehicle: int, over: threading.Event) -> tuple[dict[str, list[float]], ...]:
    """Ask until it is over, everybody at least once."""
    here: dict[str, list[float]] = {caller.address.name: [] for caller in callers}
    at_main: dict[str, list[float]] = {caller.address.name: [] for caller in callers}
    turns: list[tuple[RpcConnection, dict[str, list[float]], str, tuple[int, ...]]] = [
        *((caller, here, "version", ()) for caller in callers),
        *((caller, at_main, "samepath_control", (vehicle,)) for caller in callers),
    ]
    for number, (caller, kept, method, arguments) in enumerate(cycle(turns)):
        if over.wait(_PAUSE_S) and number >= len(turns):
            break
        start_s = SYSTEM_CLOCK.monotonic_s()
        caller.value(method, *arguments)
        kept[caller.address.name].append(SYSTEM_CLOCK.monotonic_s() - start_s)
    return here, at_main


def command_in_turn(
    callers: list[RpcConnection], worlds: list[WorldStream], vehicle: int, over: threading.Event
) -> dict[str, list[float]]:
    """Command until it is over, through everybody at least once, at random moments of a step."""
    found: dict[str, list[float]] = {caller.address.name: [] for caller in callers}
    pauses = stream(1, "bench", "thesis commands")
    for number, (caller, world) in enumerate(cycle(zip(callers, worlds, strict=True))):
        if over.wait(float(pauses.uniform(0.0, 0.05))) and number >= len(callers):
            break
        steer = (1 + number % (_STEPS - 1)) / _STEPS
        world.skip()
        start_s = SYSTEM_CLOCK.monotonic_s()
        caller.send("apply_control_to_vehicle", vehicle, list(VehicleControl(steer=steer, brake=1.0)), asynchronous=True)
        while (now_s := SYSTEM_CLOCK.monotonic_s()) - start_s < _COMMAND_LONGEST_S:
            _, rows = states_of(world.message())
            row = rows[rows["id"] == vehicle]
            if len(row) and _STEER.unpack_from(row["union"].tobytes(), _STEER_AT)[0] == steer:
                found[caller.address.name].append(SYSTEM_CLOCK.monotonic_s() - start_s)
                break
        else:
            raise TimeoutError(f"a command through {caller.address.name} was not felt for {now_s - start_s:.0f} s")
    return found


class _Probes:
    def __init__(self, addresses: list[ServerAddress]) -> None:
        self._callers = [RpcConnection(address) for address in addresses]
        self._commanding = [RpcConnection(address) for address in addresses]
        self._stream_ports = [caller.stream_port() for caller in self._callers]
        self._over = threading.Event()
        self._found: dict[str, Any] = {}
        self._threads: list[threading.Thread] = []

    def begin(self, vehicle: int, commands: bool) -> None:
        self._over.clear()
        self._found = {}
        work: dict[str, Callable[[], object]] = {"calls": lambda: ask_in_turn(self._callers, vehicle, self._over)}
        if commands:
            work["commands"] = lambda: self._command(vehicle)
        self._threads = [threading.Thread(target=self._keep, args=each, daemon=True) for each in work.items()]
        for thread in self._threads:
            thread.start()

    def _command(self, vehicle: int) -> dict[str, list[float]]:
        """Streams are heard only as long as they are read: in lockstep a server waits for whoever does not."""
        with ExitStack() as stack:
            worlds = []
            for caller, port in zip(self._commanding, self._stream_ports, strict=True):
                worlds.append(WorldStream(caller.address.host, port))
                stack.callback(worlds[-1].close)
            return command_in_turn(self._commanding, worlds, vehicle, self._over)

    def _keep(self, name: str, work: Callable[[], object]) -> None:
        try:
            self._found[name] = work()
        except Exception as error:  # whatever it is, whoever measures is told, and stops
            self._found["error"] = f"{type(error).__name__}: {error}"

    def end(self) -> Any:  # noqa: ANN401
        self._over.set()
        for thread in self._threads:
            thread.join()
        if "error" in self._found:
            return {"error": self._found["error"]}
        return [*self._found.get("calls", ({}, {})), self._found.get("commands", {})]


def main() -> None:
    """Take orders until there are no more."""
    probes: _Probes | None = None
    for order in orders():
        if "addresses" in order:
            probes = _Probes([ServerAddress(*address) for address in order["addresses"]])
            reply([])
        elif probes is None:
            reply({"error": "addresses were wanted first"})
        elif "begin" in order:
            probes.begin(*order["begin"])
        else:
            reply(probes.end())


if __name__ == "__main__":
    main()
