"""The experiment: for every number of nodes a cluster, in it episode after episode, each with more vehicles than before."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from bench.thesis.fleet import Fleet, Route, Rows, routes_of, states_of
from bench.thesis.plan import Cell, Mode, Plan, Resolution
from bench.thesis.records import Episode, Store, summed
from bench.thesis.server import Measured, nodes_of, running
from bench.thesis.wire import CameraListener, LatencyProbe, RpcConnection, WorldStream, connected
from samepath.cluster.monitor.status import ClusterStatus
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError
from samepath.simulator.carla import blueprints, codec
from samepath.simulator.carla.records import AttributeValue, Description, Settings, VehicleControl, write_settings
from samepath.simulator.maps import load_map

_CAR: Final = "vehicle.tesla.model3"
_CAMERA: Final = "sensor.camera.rgb"
_MOUNT: Final = ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0))
_LIFT_M: Final = 0.5
_DESTROY, _CONTROL = 1, 2  # CARLA's numbers of commands in a batch
_LEAST_TICKS: Final = 5
_ENDLESS: Final = 1 << 60
_PATIENCE_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.02

Tell = Callable[[Cell, Episode | None], None]


def run(plan: Plan, store: Store, log: Path, tell: Tell) -> None:
    """Run all episodes that are not in the store yet; ``tell`` hears of each when it begins and when it is over."""
    routes = routes_of(load_map(plan.map_name))
    missing = [cell for cell in plan.cells() if cell not in store]
    for nodes, cells in groupby(missing, key=lambda cell: cell.nodes):
        with running(nodes, plan.map_name, plan.threads, log) as cluster:
            measure(cluster, plan, routes, list(cells), store, tell)


def measure(cluster: Measured, plan: Plan, routes: tuple[Route, ...], cells: Sequence[Cell], store: Store, tell: Tell) -> None:
    """Run episodes of one number of nodes."""
    with ExitStack() as stack:
        client = stack.enter_context(_Client(cluster, plan, routes))
        for (mode, resolution), group in groupby(cells, key=lambda cell: (cell.mode, cell.resolution)):
            client.clear(mode)
            for cell in group:
                tell(cell, None)
                episode = client.episode(cell, resolution)
                store.add(episode)
                tell(cell, episode)


class _Client:
    """The measuring client: a connection to every server, a stream from every camera, a driver for every vehicle."""

    def __init__(self, cluster: Measured, plan: Plan, routes: tuple[Route, ...]) -> None:
        self._cluster = cluster
        self._plan = plan
        self._routes = routes
        self._stack = ExitStack()
        self._driving_s, self._decisions = 0.0, 0
        self._spawned: list[int] = []
        self._rows: Rows | None = None
        self._lockstep = True

    def __enter__(self) -> "_Client":
        addresses = [self._cluster.main, *nodes_of(self._cluster)]
        with ExitStack() as stack:
            self._callers: list[RpcConnection] = stack.enter_context(connected(addresses))
            self._stream_ports = [caller.stream_port() for caller in self._callers]
            self._probe = LatencyProbe(addresses)
            stack.callback(self._probe.close)
            self._world = WorldStream(addresses[0].host, self._stream_ports[0])
            stack.callback(self._world.close)
            self._listener = CameraListener()
            stack.callback(self._listener.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack, suppress(ClusterError):
            self._empty()

    @property
    def _main(self) -> RpcConnection:
        return self._callers[0]

    # -- the scene ---------------------------------------------------------------------------------------------------

    def clear(self, mode: Mode) -> None:
        """Begin anew: nobody there, and time as the mode wants it."""
        self._empty()
        self._lockstep = mode == "lockstep"
        settings = Settings(synchronous_mode=self._lockstep, fixed_delta_seconds=self._plan.step_s)
        self._main.value("set_episode_settings", write_settings(settings))
        self._fleet, self._rows = Fleet(self._routes, self._plan.step_s), None

    def _add(self, resolution: Resolution) -> None:
        """One more vehicle and its camera, by turns through every node."""
        home = 1 + len(self._fleet.vehicles) % (len(self._callers) - 1)
        spot = self._fleet.spot()
        at = ((spot.x_m, spot.y_m, _LIFT_M), (0.0, spot.yaw_deg, 0.0))
        car = self._callers[home].value("spawn_actor", _described(_CAR), at)[0]
        camera = _described(_CAMERA, image_size_x=resolution.width, image_size_y=resolution.height)
        record = self._callers[home].value("spawn_actor_with_parent", camera, _MOUNT, car, 0, "")
        self._fleet.add(car, home, spot)
        self._spawned += [car, record[0]]
        stream = codec.stream_of(bytes(record[5]))
        self._callers[home].value("get_sensor_token", stream)
        self._listener.listen(self._callers[home].address.host, self._stream_ports[home], stream)

    def _empty(self) -> None:
        """Take out everybody, cameras before those who carry them."""
        self._listener.forget()
        self._main.send("apply_batch", [[[_DESTROY, [actor]]] for actor in reversed(self._spawned)], False)
        self._main.receive()
        self._spawned = []

    # -- an episode --------------------------------------------------------------------------------------------------

    def episode(self, cell: Cell, resolution: Resolution) -> Episode:
        """Add vehicles, let everything settle, then measure."""
        while len(self._fleet.vehicles) < cell.vehicles:
            self._add(resolution)
            if not self._lockstep:
                self._step()
        self._drive(self._plan.settle_s, _ENDLESS)
        before, heard = self._status(), self._listener.heard()
        self._driving_s, self._decisions = 0.0, 0
        self._probe.begin(self._fleet.vehicles[0].actor)
        self._drive(self._plan.episode_s, self._plan.ticks)
        pings = self._probe.end()
        after = self._status()
        if self._lockstep:
            due = (after.ticks - before.ticks) * cell.vehicles
            self._wait_until(lambda: self._listener.heard().images - heard.images >= due, "all frames of the episode")
        driving_s = self._driving_s / max(self._decisions, 1)
        return summed(cell, before, after, pings, driving_s, self._listener.heard().since(heard))

    def _drive(self, seconds: float, ticks: int) -> None:
        """Drive for a while, or so many ticks, whichever is over first; but not for nothing."""
        start_s, begin = SYSTEM_CLOCK.monotonic_s(), -1
        while True:
            frame = self._step()
            begin = frame - 1 if begin < 0 else begin
            done = frame - begin
            if done >= ticks or (done >= _LEAST_TICKS and SYSTEM_CLOCK.monotonic_s() - start_s >= seconds):
                return

    def _step(self) -> int:
        """Decide for everybody, then tick, or in real time wait for a tick; returns its frame."""
        self._steer()
        if self._lockstep:
            frame = int(self._main.value("tick_cue"))
            while True:
                seen, rows = states_of(self._world.message())
                if seen >= frame:
                    break
        else:
            seen, rows = states_of(self._world.latest())
        self._rows = rows
        return seen

    def _steer(self) -> None:
        """Say what everybody is to do, through the node that each belongs to."""
        if self._rows is None:
            return
        start_s = SYSTEM_CLOCK.monotonic_s()
        decided = self._fleet.decide(self._rows)
        asked = []
        for home, caller in enumerate(self._callers):
            own = [vehicle.actor for vehicle in self._fleet.vehicles if vehicle.home == home and vehicle.actor in decided]
            if own:
                caller.send("apply_batch", [_control(actor, decided[actor]) for actor in own], False)
                asked.append(caller)
        for caller in asked:
            caller.receive()
        self._driving_s += SYSTEM_CLOCK.monotonic_s() - start_s
        self._decisions += 1

    def _status(self) -> ClusterStatus:
        """How the cluster stands from now on; in real time everybody goes on driving meanwhile."""
        asked_s = SYSTEM_CLOCK.monotonic_s()
        while (found := self._cluster.status()) is None or found.at_s < asked_s:
            if SYSTEM_CLOCK.monotonic_s() - asked_s > _PATIENCE_S:
                raise ClusterError(f"the main server has said nothing for {_PATIENCE_S:.0f} s: look at the cluster's log")
            if self._lockstep:
                SYSTEM_CLOCK.sleep_s(_LOOK_EVERY_S)
            else:
                self._step()
        return found

    @staticmethod
    def _wait_until(is_so: Callable[[], bool], what: str) -> None:
        end_s = SYSTEM_CLOCK.monotonic_s() + _PATIENCE_S
        while not is_so():
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                raise ClusterError(f"{what} were wanted, but some had not come after {_PATIENCE_S:.0f} s")
            SYSTEM_CLOCK.sleep_s(_LOOK_EVERY_S)


def _described(blueprint_id: str, **attributes: int) -> Description:
    blueprint = blueprints.find(blueprint_id)
    known = {attribute.id: attribute for attribute in blueprint.attributes}
    values = tuple(AttributeValue(name, int(known[name].type), str(value)) for name, value in attributes.items())
    return Description(blueprint.uid, blueprint.id, values)


def _control(actor: int, control: VehicleControl) -> list[Any]:
    return [[_CONTROL, [actor, list(control)]]]
