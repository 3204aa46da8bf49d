"""Who drives the vehicles and lets time pass.

The thesis' vehicles moved "with the default autopilot enabled". Here that is the traffic manager of CARLA's official client,
where its wheel is installed. The substitute, which the result names, drives each vehicle around a block by pure pursuit.
"""

import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from bench.thesis.child import Child
from bench.thesis.fleet import Fleet, Route, Rows
from bench.thesis.listening import FetchedCounter
from bench.thesis.wire import RpcConnection
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.simulator.carla.records import VehicleControl

_CONTROL: Final = 2  # CARLA's number of a command in a batch
_LIFT_M: Final = 0.5
_ROOM_M: Final = 9.0
CARLA: Final = "carla"
PURSUIT: Final = "pursuit"

Place = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Location, and rotation as CARLA sends it: pitch, yaw, roll."""


class Driven(NamedTuple):
    """What a drive was: its ticks, the wall-clock time of all of it, and the part in which drawn pictures were waited for."""

    ticks: int
    wall_s: float
    waited_s: float = 0.0


class Awaited(NamedTuple):
    """What is waited for after every tick of lockstep: a picture of each camera; the listeners count in a file."""

    counts: str
    cameras: int


class Clocked(Protocol):
    """The measuring client, for those who drive."""

    @property
    def callers(self) -> Sequence[RpcConnection]:
        """The main server, then the nodes."""
        ...

    def tick(self) -> None:
        """Tick, and see the state."""
        ...

    def rows(self) -> Rows | None:
        """The state that was seen last."""
        ...


class Traffic(Protocol):
    """Somebody who drives."""

    def place(self) -> Place:
        """Where another vehicle can be put: far from all others."""
        ...

    def add(self, actor: int, home: int) -> None:
        """Drive this vehicle from the next drive on; ``home`` is the number of the node that it belongs to."""
        ...

    def drive(self, ticks: int, seconds: float, least: int, awaited: Awaited) -> Driven:
        """In lockstep: tick so often or for so long, whichever is over first, but not fewer than the least."""
        ...

    def in_real_time(self) -> None:
        """In real time: decide once, if that is up to us."""
        ...

    def forget(self, actors: Sequence[int]) -> None:
        """These are gone, or all of them if none is named."""
        ...

    def close(self) -> None:
        """Stop driving."""
        ...


def version(kind: str) -> str:
    """Who drives, for the result; an error where they cannot be had."""
    if kind == CARLA:
        if importlib.util.find_spec("carla") is None:
            raise InputError("the traffic manager of CARLA's client was wanted, but carla is not installed: --traffic pursuit")
        from importlib.metadata import version as installed

        return f"autopilot: the traffic manager of CARLA's official client {installed('carla')}, connected to the main server"
    if kind == PURSUIT:
        return "a substitute for autopilot: each vehicle goes around a block by pure pursuit, decided by the measuring client"
    raise InputError(f"--traffic: {CARLA} or {PURSUIT} was wanted, but {kind!r} came")


def best_kind() -> str:
    """CARLA's traffic manager where it can be had."""
    return CARLA if importlib.util.find_spec("carla") is not None else PURSUIT


class _Spots:
    """Places of a map, and who is near them."""

    def __init__(self, places: Sequence[Place]) -> None:
        if not places:
            raise InputError("a map with places for vehicles was wanted")
        self._places = list(places)
        self._xy = np.array([place[0][:2] for place in places])
        self.at: dict[int, tuple[float, float]] = {}

    def see(self, rows: Rows | None) -> None:
        """Take in where everybody is now."""
        if rows is not None:
            for actor, motion in zip(rows["id"].tolist(), rows["motion"].tolist(), strict=True):
                if actor in self.at:
                    self.at[actor] = (motion[0], motion[1])

    def best(self) -> Place:
        """The place that is farthest from everybody."""
        if not self.at:
            return self._places[0]
        others = np.array(list(self.at.values()))
        far_m = np.hypot(*(self._xy[:, None, :] - others[None, :, :]).transpose(2, 0, 1)).min(axis=1)
        best = int(far_m.argmax())
        if far_m[best] < _ROOM_M:
            raise InputError(f"fewer vehicles were wanted: there is no room on this map beside {len(self.at)} of them")
        return self._places[best]

    def add(self, actor: int, place: Place) -> None:
        self.at[actor] = place[0][:2]


class OfficialTraffic:
    """CARLA's client in a process of its own, with its traffic manager, connected to the main server."""

    def __init__(self, client: Clocked, *, lockstep: bool, log: Path, cores: frozenset[int]) -> None:
        self._client = client
        main = client.callers[0]
        self._cache = tempfile.TemporaryDirectory(prefix="samepath-bench-carla-")
        environment: Mapping[str, str] = {"CARLA_CACHE_DIR": self._cache.name}
        self._child = Child(
            "CARLA's client", "bench.thesis.autopilot", log=log, cores=cores, extra_environment=dict(environment)
        )
        self._child.ask(open=[main.address.host, main.address.port, lockstep])
        points: list[Any] = main.value("get_map_info")[1]
        self._spots = _Spots([(tuple(point[0]), tuple(point[1])) for point in points])
        self._last: Place | None = None
        self._new: list[int] = []

    def place(self) -> Place:
        self._spots.see(self._client.rows())
        self._last = self._spots.best()
        return self._last

    def add(self, actor: int, home: int) -> None:
        if self._last is None:
            raise RuntimeError("a place was wanted first")
        self._spots.add(actor, self._last)
        self._new.append(actor)

    def _tell(self) -> None:
        if self._new:
            self._child.ask(drive=self._new)
            self._new = []

    def drive(self, ticks: int, seconds: float, least: int, awaited: Awaited) -> Driven:
        self._tell()
        done = self._child.ask(tick=[ticks, seconds, least, *awaited])
        self._spots.at.update({actor: (x_m, y_m) for actor, x_m, y_m in done["at"] if actor in self._spots.at})
        return Driven(done["ticks"], done["wall_s"], done["waited_s"])

    def in_real_time(self) -> None:
        self._tell()

    def forget(self, actors: Sequence[int]) -> None:
        for actor in actors or list(self._spots.at):
            self._spots.at.pop(actor, None)
        self._new = [actor for actor in self._new if actor in self._spots.at]

    def close(self) -> None:
        try:
            self._child.ask(close=True)
        finally:
            self._child.close()
            self._cache.cleanup()


class PursuitTraffic:
    """The substitute: the measuring client decides for all between two ticks, and sends commands through each one's node."""

    def __init__(self, client: Clocked, routes: tuple[Route, ...], step_s: float) -> None:
        self._client, self._routes, self._step_s = client, routes, step_s
        self._fleet = Fleet(routes, step_s)
        self._spot = None

    def place(self) -> Place:
        self._spot = self._fleet.spot()
        return (self._spot.x_m, self._spot.y_m, _LIFT_M), (0.0, self._spot.yaw_deg, 0.0)

    def add(self, actor: int, home: int) -> None:
        if self._spot is None:
            raise RuntimeError("a place was wanted first")
        self._fleet.add(actor, home, self._spot)

    def drive(self, ticks: int, seconds: float, least: int, awaited: Awaited) -> Driven:
        fetched = FetchedCounter(awaited.counts)
        start_s, done, waited_s, before = SYSTEM_CLOCK.monotonic_s(), 0, 0.0, fetched.total()
        while done < ticks and (done < least or SYSTEM_CLOCK.monotonic_s() - start_s < seconds):
            self.in_real_time()
            self._client.tick()
            done += 1
            waited_s += fetched.wait(before + done * awaited.cameras)
        return Driven(done, SYSTEM_CLOCK.monotonic_s() - start_s, waited_s)

    def in_real_time(self) -> None:
        rows = self._client.rows()
        if rows is None:
            return
        decided = self._fleet.decide(rows)
        asked = []
        for home, caller in enumerate(self._client.callers):
            own = [vehicle.actor for vehicle in self._fleet.vehicles if vehicle.home == home and vehicle.actor in decided]
            if own:
                caller.send("apply_batch", [_control(actor, decided[actor]) for actor in own], False)
                asked.append(caller)
        for caller in asked:
            caller.receive()

    def forget(self, actors: Sequence[int]) -> None:
        self._fleet.forget(actors)

    def close(self) -> None:
        pass


def _control(actor: int, control: VehicleControl) -> list[Any]:
    return [[_CONTROL, [actor, list(control)]]]
