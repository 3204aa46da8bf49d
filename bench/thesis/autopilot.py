"""Autopilot traffic by CARLA's own client and its traffic manager, in a process of its own: the client may crash, we may not.

``python -m bench.thesis.autopilot PARENT`` takes orders, see :class:`bench.thesis.traffic.OfficialTraffic`. In lockstep this
process ticks, because a synchronous traffic manager works between the ticks of the client that it belongs to.
"""

import os
import socket
from typing import Any, Final

from bench.thesis.child import orders, reply
from bench.thesis.listening import FetchedCounter
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError

_TIMEOUT_S: Final = 120.0
_SEED: Final = 1


class _Autopilot:
    def __init__(self, host: str, port: int, *, lockstep: bool) -> None:
        import carla

        self._carla = carla
        self._client = carla.Client(host, port)
        self._client.set_timeout(_TIMEOUT_S)
        self._world = self._client.get_world()
        self._driven: set[int] = set()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._manager_port = free.getsockname()[1]
        self._manager = self._client.get_trafficmanager(self._manager_port)
        self._manager.set_synchronous_mode(lockstep)
        self._manager.set_random_device_seed(_SEED)

    def drive(self, actors: list[int]) -> None:
        """Drive these, too."""
        command = self._carla.command.SetAutopilot
        answers = self._client.apply_batch_sync([command(actor, True, self._manager_port) for actor in actors], False)
        refused = [answer.error for answer in answers if answer.error]
        if refused:
            raise RuntimeError(f"autopilot was refused: {refused[0]}")
        self._driven.update(actors)

    def tick(self, ticks: int, seconds: float, least: int, counts: str, cameras: int) -> dict[str, Any]:
        """Tick so often or for so long, whichever is over first, but not fewer than the least.

        After each the picture of every camera is waited for, see :class:`FetchedCounter`.
        """
        fetched = FetchedCounter(counts)
        start_s, done, frame, waited_s, before = SYSTEM_CLOCK.monotonic_s(), 0, 0, 0.0, fetched.total()
        while done < ticks and (done < least or SYSTEM_CLOCK.monotonic_s() - start_s < seconds):
            frame = self._world.tick()
            done += 1
            waited_s += fetched.wait(before + done * cameras)
        wall_s = SYSTEM_CLOCK.monotonic_s() - start_s
        return {"ticks": done, "frame": frame, "wall_s": wall_s, "waited_s": waited_s, "at": self._places()}

    def _places(self) -> list[tuple[int, float, float]]:
        places = []
        for seen in self._world.get_snapshot():
            if seen.id in self._driven:
                location = seen.get_transform().location
                places.append((seen.id, location.x, location.y))
        return places

    def close(self) -> None:
        """Take the traffic manager away."""
        self._manager.set_synchronous_mode(False)
        self._manager.shut_down()


def main() -> None:
    """Take orders until there are no more."""
    autopilot: _Autopilot | None = None
    for order in orders():
        try:
            if "open" in order:
                host, port, lockstep = order["open"]
                autopilot = _Autopilot(host, port, lockstep=lockstep)
                reply([])
            elif autopilot is None:
                reply({"error": "a server was wanted first"})
            elif "drive" in order:
                autopilot.drive(order["drive"])
                reply([])
            elif "tick" in order:
                reply(autopilot.tick(*order["tick"]))
            else:
                autopilot.close()
                autopilot = None
                reply([])
        except (RuntimeError, ImportError, ClusterError) as error:  # what CARLA's client raises, and frames that do not come
            reply({"error": str(error)})
    # Ending in good order is not what is measured, and a traffic manager may take its time about it.
    os._exit(0)


if __name__ == "__main__":
    main()
