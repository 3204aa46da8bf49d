"""The experiment: for every set of nodes a cluster, in it episode after episode, each with more vehicles than before."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from bench.thesis.fleet import Route, Rows, routes_of, states_of
from bench.thesis.listening import PATIENCE_S, CameraListeners, ReceivedCounts
from bench.thesis.placing import LISTENERS, Layout, eight_layout, layout, pin, usable_cores
from bench.thesis.plan import CLUSTER_S, LEAST_FRAMES_PER_S, LEAST_TICKS, SETTLE_TICKS, Cell, Mode, NodeSet, Plan, Resolution
from bench.thesis.probes import LatencyProbe
from bench.thesis.records import EightTrial, Episode, Store, summed
from bench.thesis.server import Measured, nodes_of, running
from bench.thesis.traffic import CARLA, Awaited, Driven, OfficialTraffic, PursuitTraffic, Traffic
from bench.thesis.wire import RpcConnection, WorldStream, connected
from samepath.cluster.monitor.status import ClusterStatus
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError, InputError
from samepath.simulator.carla import blueprints, codec
from samepath.simulator.carla.records import AttributeValue, Description, Settings, VehicleControl, write_settings
from samepath.simulator.maps import load_map

_CAR: Final = "vehicle.tesla.model3"
_CAMERA: Final = "sensor.camera.rgb"
_MOUNT: Final = ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0))
_DESTROY: Final = 1  # CARLA's number of a command in a batch
_ENDLESS: Final = 1 << 30
_LOOK_EVERY_S: Final = 0.005
# Where the vehicle is that commands are sent to: in the air, held there, in nobody's way.
_ASIDE: Final = ((0.0, 0.0, 60.0), (0.0, 0.0, 0.0))
# Of a budget, what an episode spends on settling.
_SETTLE_PART: Final = 0.25
_EPISODE_MOST_S: Final = 6.0
_REAL_TIME_LEAST_S: Final = 1.0

# Eight cameras as on today's cars: three to the front, two to the sides from the pillars, two backwards from the wings, one to
# the rear. Location, and pitch, yaw and roll; then the field of view.
EIGHT: Final = (
    ((1.6, 0.0, 1.4), (0.0, 0.0, 0.0), 50), ((1.6, 0.1, 1.4), (0.0, 0.0, 0.0), 35), ((1.6, -0.1, 1.4), (0.0, 0.0, 0.0), 120),
    ((0.2, -0.9, 1.3), (0.0, -60.0, 0.0), 90), ((0.2, 0.9, 1.3), (0.0, 60.0, 0.0), 90),
    ((0.9, -1.0, 0.9), (0.0, -140.0, 0.0), 75), ((0.9, 1.0, 0.9), (0.0, 140.0, 0.0), 75),
    ((-2.4, 0.0, 1.1), (0.0, 180.0, 0.0), 130),
)  # fmt: skip
_EIGHT_MOST: Final = 200
_EIGHT_SETTLE_S: Final = 0.7
_EIGHT_S: Final = 2.0
_EIGHT_LISTENERS: Final = 3

Tell = Callable[[Cell, Episode | None], None]
TellEight = Callable[[EightTrial], None]


@dataclass
class Allowance:
    """What is left of a budget, shared out over the episodes that are left by what they take at least."""

    end_s: float | None
    weight: float

    def seconds(self, cell: Cell) -> float | None:
        """How long this episode may take in all; None: as long as the plan says."""
        if self.end_s is None:
            return None
        left_s = max(self.end_s - SYSTEM_CLOCK.monotonic_s(), 0.0)
        part = cell.least_s / max(self.weight, cell.least_s)
        self.weight -= cell.least_s
        return left_s * part


class BudgetSpentError(ClusterError):
    """There is no time left; what was measured is kept."""


def run(plan: Plan, store: Store, log: Path, tell: Tell, tell_eight: TellEight) -> None:
    """Run all episodes that are not in the store yet; ``tell`` hears of each when it begins and when it is over."""
    start_s, cores = SYSTEM_CLOCK.monotonic_s(), usable_cores()
    missing = [cell for cell in plan.cells() if cell not in store]
    sizes = [size for size in plan.eight_sizes if size not in store.eight]
    end_s = None if plan.budget_s is None else start_s + plan.budget_s
    if sizes:
        # First: it must not be what a budget is too short for.
        with running(NodeSet("equal", 1), eight_layout(cores), plan.map_name, log) as cluster:
            eight_cameras(cluster, plan, sizes, store, tell_eight, log, eight_layout(cores))
    # What starting clusters takes is taken off as it goes by: the clock runs on.
    allowance = Allowance(end_s, sum(cell.least_s for cell in missing) + CLUSTER_S * _starts(missing))
    for (_, node_set), cells in groupby(missing, key=lambda cell: (cell.repeat, cell.node_set)):
        _check_time(end_s)
        where = layout(node_set, cores)
        with running(node_set, where, plan.map_name, log) as cluster:
            allowance.weight -= CLUSTER_S
            measure(cluster, plan, list(cells), store, tell, log=log, where=where, allowance=allowance)


def _starts(cells: Sequence[Cell]) -> int:
    return len({(cell.repeat, cell.node_set) for cell in cells})


def _check_time(end_s: float | None) -> None:
    if end_s is not None and SYSTEM_CLOCK.monotonic_s() > end_s:
        raise BudgetSpentError("the budget is spent; what was measured is kept, started again it goes on")


def measure(
    cluster: Measured,
    plan: Plan,
    cells: Sequence[Cell],
    store: Store,
    tell: Tell,
    *,
    log: Path,
    where: Layout | None = None,
    allowance: Allowance | None = None,
) -> None:
    """Run episodes of one cluster."""
    allowance = allowance or Allowance(None, 0.0)
    with _Client(cluster, plan, where, log) as client:
        for (mode, resolution), group in groupby(cells, key=lambda cell: (cell.mode, cell.resolution)):
            client.clear(mode, plan.step_s)
            for cell in group:
                _check_time(allowance.end_s)
                tell(cell, None)
                episode = client.episode(cell, resolution, allowance.seconds(cell))
                store.add(episode)
                tell(cell, episode)


def eight_cameras(
    cluster: Measured, plan: Plan, sizes: Sequence[Resolution], store: Store, tell: TellEight, log: Path, where: Layout
) -> None:
    """How many vehicles with eight cameras each run in real time."""
    step_s = 1.0 / LEAST_FRAMES_PER_S
    with _Client(cluster, plan, where, log, listeners=_EIGHT_LISTENERS if where.is_pinned else 1) as client:
        for size in sizes:
            client.clear("real time", step_s)
            trials: list[EightTrial] = []

            def holds(vehicles: int, size: Resolution = size, trials: list[EightTrial] = trials) -> bool:
                for _ in range(2):  # one that fails is tried again: the machine may have done something else
                    try:
                        trials.append(client.trial(vehicles, size, step_s))
                    except InputError:  # there is no room for more on the map
                        return False
                    tell(trials[-1])
                    if trials[-1].holds:
                        return True
                return False

            most_that_hold(holds, min(plan.eight_guess(size, len(where.nodes)), _EIGHT_MOST), _EIGHT_MOST)
            store.add_eight(size, trials)


def most_that_hold(holds: Callable[[int], bool], guess: int, most: int) -> int:
    """The largest number that holds, to an eighth: from a guess up until one fails, or down until one holds, then between."""
    good, bad = 0, most + 1
    at = max(1, min(guess, most))
    while bad - good > max(1, good // 8):
        if holds(at):
            good = at
            at = min(2 * at, most) if bad > most else (good + bad) // 2
        else:
            bad = at
            at = max(1, at // 2) if good == 0 else (good + bad) // 2
        if good >= most or at in (good, bad):
            break
    return good


class _Client:
    """The measuring client: a connection to every server, a stream from every camera, somebody who drives."""

    def __init__(self, cluster: Measured, plan: Plan, where: Layout | None, log: Path, *, listeners: int | None = None) -> None:
        self._cluster, self._plan, self._log = cluster, plan, log
        self._cores = where.clients if where is not None else frozenset()
        self._listeners = listeners or (LISTENERS if self._cores else 1)
        self._routes: tuple[Route, ...] = ()
        self._stack = ExitStack()
        self._spawned: dict[int, list[int]] = {}  # by vehicle, its cameras
        self._rows: Rows | None = None
        self._traffic: Traffic | None = None
        self._lockstep = True
        self._step_s = plan.step_s
        self._aside: int | None = None
        self._frames_before, self._heard_before = 0, 0
        self._all_cores = frozenset(os.sched_getaffinity(0))

    def __enter__(self) -> "_Client":
        addresses = [self._cluster.main, *nodes_of(self._cluster)]
        with ExitStack() as stack:
            self.callers: list[RpcConnection] = stack.enter_context(connected(addresses))
            self._stream_ports = [caller.stream_port() for caller in self.callers]
            self._probe = LatencyProbe(addresses, self._cores)
            stack.callback(self._probe.close)
            self._listener = CameraListeners(self._listeners, self._cores)
            stack.callback(self._listener.close)
            self._world: WorldStream | None = None
            self._stack = stack.pop_all()
        pin(os.getpid(), self._cores)
        return self

    def __exit__(self, *_: object) -> None:
        pin(os.getpid(), self._all_cores)
        with self._stack, suppress(ClusterError):
            self._empty()
            self._end_traffic()

    @property
    def _main(self) -> RpcConnection:
        return self.callers[0]

    # For those who drive.

    def tick(self) -> None:
        """Tick, and see the state."""
        frame = int(self._main.value("tick_cue"))
        if self._world is None:
            raise RuntimeError("nobody looks at the world")
        while True:
            seen, self._rows = states_of(self._world.message())
            if seen >= frame:
                return

    def rows(self) -> Rows | None:
        """The state that was seen last."""
        return self._rows

    # The scene.

    def clear(self, mode: Mode, step_s: float) -> None:
        """Begin anew: nobody there, and time as the mode wants it."""
        self._empty()
        lockstep = mode == "lockstep"
        if self._traffic is not None and (lockstep != self._lockstep or step_s != self._step_s):
            self._end_traffic()
        self._lockstep, self._step_s = lockstep, step_s
        settings = Settings(synchronous_mode=lockstep, fixed_delta_seconds=step_s)
        self._main.value("set_episode_settings", write_settings(settings))
        if self._traffic is None:
            self._begin_traffic()
        # What is heard from now on belongs to frames that are drawn from now on: everybody before has been hung up on.
        self._frames_before, self._heard_before = self._cluster.status().frames, self._listener.heard().images

    def _begin_traffic(self) -> None:
        if self._plan.traffic == CARLA:
            self._traffic = OfficialTraffic(self, lockstep=self._lockstep, log=self._log, cores=self._cores)
        else:
            self._routes = self._routes or routes_of(load_map(self._plan.map_name))
            self._traffic = PursuitTraffic(self, self._routes, self._step_s)
        # A synchronous stream that nobody reads would hold up the world, so it is opened for those who read every state.
        if self._plan.traffic != CARLA or not self._lockstep:
            self._world = WorldStream(self._main.address.host, self._stream_ports[0])

    def _end_traffic(self) -> None:
        if self._world is not None:
            self._world.close()
            self._world = None
        if self._traffic is not None:
            traffic, self._traffic = self._traffic, None
            traffic.close()
        self._rows = None

    def _driver(self) -> Traffic:
        if self._traffic is None:
            raise RuntimeError("nobody drives")
        return self._traffic

    def _add(self, cameras: Sequence[Description], mounts: Sequence[Any]) -> None:
        """One more vehicle and its cameras, by turns through every node."""
        home = 1 + len(self._spawned) % (len(self.callers) - 1)
        caller = self.callers[home]
        car = caller.value("spawn_actor", _described(_CAR), self._driver().place())[0]
        self._driver().add(car, home)
        self._spawned[car] = []
        for camera, mount in zip(cameras, mounts, strict=True):
            record = caller.value("spawn_actor_with_parent", camera, mount, car, 0, "")
            self._spawned[car].append(record[0])
            stream = codec.stream_of(bytes(record[5]))
            caller.value("get_sensor_token", stream)
            self._listener.listen(caller.address.host, self._stream_ports[home], stream)

    def _empty(self) -> None:
        """Take out everybody, cameras before those who carry them."""
        self._listener.forget()
        self._remove(list(self._spawned))
        if self._aside is not None:
            self._destroy([self._aside])
            self._aside = None
        if self._traffic is not None:
            self._traffic.forget(())

    def _remove(self, vehicles: Sequence[int]) -> None:
        for vehicle in vehicles:
            cameras = self._spawned.pop(vehicle)
            self._destroy([*cameras, vehicle])
        if self._traffic is not None and vehicles:
            self._traffic.forget(vehicles)

    def _destroy(self, actors: Sequence[int]) -> None:
        self._main.send("apply_batch", [[[_DESTROY, [actor]]] for actor in actors], False)
        self._main.receive()

    def _put_aside(self) -> int:
        """A vehicle for commands that nobody meets; it does not move, and its control shows in the state all the same."""
        if self._aside is None:
            self._aside = int(self._main.value("spawn_actor", _described(_CAR), _ASIDE)[0])
            self._main.send("set_actor_simulate_physics", self._aside, False)
            self._main.receive()
            self._main.send("apply_control_to_vehicle", self._aside, list(VehicleControl(brake=1.0)))
            self._main.receive()
        return self._aside

    # An episode.

    def episode(self, cell: Cell, resolution: Resolution, allowed_s: float | None) -> Episode:
        """Add vehicles, let everything settle, then measure."""
        began_s = SYSTEM_CLOCK.monotonic_s()
        camera = _described(_CAMERA, image_size_x=resolution.width, image_size_y=resolution.height)
        while len(self._spawned) < cell.vehicles:
            self._look()
            self._add([camera], [_MOUNT])
        watched = next(iter(self._spawned)) if self._lockstep else self._put_aside()
        settle_s, episode_s, ticks = self._plan.settle_s, self._plan.episode_s, self._plan.ticks
        if allowed_s is not None:
            left_s = max(allowed_s - (SYSTEM_CLOCK.monotonic_s() - began_s), 0.0)
            settle_s, episode_s = _SETTLE_PART * left_s, min((1.0 - _SETTLE_PART) * left_s, _EPISODE_MOST_S)
            episode_s = episode_s if self._lockstep else max(episode_s, _REAL_TIME_LEAST_S)
            ticks = _ENDLESS
        self._drive(_ENDLESS, settle_s, SETTLE_TICKS)
        before, heard = self._settled()
        self._probe.begin(watched, commands=not self._lockstep)
        driven = self._drive(ticks, episode_s, LEAST_TICKS)
        pings = self._probe.end()
        after, heard_after = self._settled()
        return summed(cell, before, after, pings, driven, heard_after.since(heard))

    def trial(self, vehicles: int, resolution: Resolution, step_s: float) -> EightTrial:
        """So many vehicles with eight cameras each, in real time for a while."""
        width, height = resolution
        cameras = [_described(_CAMERA, image_size_x=width, image_size_y=height, fov=view) for *_, view in EIGHT]
        while len(self._spawned) < vehicles:
            self._look()
            self._add(cameras, [mount for *mount, _ in EIGHT])
        if len(self._spawned) > vehicles:
            self._remove(list(self._spawned)[vehicles:])
        self._drive(_ENDLESS, _EIGHT_SETTLE_S, SETTLE_TICKS)
        before, heard = self._cluster.status(), self._listener.heard()
        self._drive(_ENDLESS, _EIGHT_S, LEAST_TICKS)
        after = self._cluster.status()
        ticks = after.ticks - before.ticks
        return EightTrial(
            resolution=resolution,
            nodes=len(self.callers) - 1,
            vehicles=vehicles,
            steps_per_s=ticks / (after.at_s - before.at_s),
            # What real time asks for, whatever the main server has managed: a world that runs late makes fewer steps.
            due=round((after.at_s - before.at_s) / step_s) * vehicles * len(EIGHT),
            received=self._listener.heard().since(heard).images,
            late=after.late_frames - before.late_frames,
            step_s=(after.tick_times.sum_s - before.tick_times.sum_s) / max(ticks, 1),
        )

    def _look(self) -> None:
        """In real time see where everybody is, for the next one's place; in lockstep that was seen at the last tick."""
        if not self._lockstep and self._world is not None:
            self._rows = states_of(self._world.latest())[1]

    def _drive(self, ticks: int, seconds: float, least: int) -> Driven:
        """Drive for a while, or so many ticks, whichever is over first; but not for nothing."""
        driver = self._driver()
        if self._lockstep:
            cameras = sum(map(len, self._spawned.values()))
            return driver.drive(ticks, seconds, least, Awaited(self._listener.counts, cameras))
        start_s, done = SYSTEM_CLOCK.monotonic_s(), 0
        while done < ticks and (done < least or SYSTEM_CLOCK.monotonic_s() - start_s < seconds):
            driver.in_real_time()
            if self._world is None:
                raise RuntimeError("nobody looks at the world")
            self._rows = states_of(self._world.latest())[1]
            done += 1
        return Driven(done, SYSTEM_CLOCK.monotonic_s() - start_s)

    def _settled(self) -> tuple[ClusterStatus, ReceivedCounts]:
        """How the cluster stands, and what was heard; in lockstep when every frame that was drawn so far has come."""
        status = self._cluster.status()
        end_s = SYSTEM_CLOCK.monotonic_s() + PATIENCE_S
        while True:
            heard = self._listener.heard()
            missing = status.frames - self._frames_before - (heard.images - self._heard_before)
            if not self._lockstep or missing <= 0:
                return status, heard
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                raise ClusterError(f"all frames were wanted, but {missing} had not come after {PATIENCE_S:.0f} s")
            SYSTEM_CLOCK.sleep_s(_LOOK_EVERY_S)


def _described(blueprint_id: str, **attributes: int) -> Description:
    blueprint = blueprints.find(blueprint_id)
    known = {attribute.id: attribute for attribute in blueprint.attributes}
    values = tuple(AttributeValue(name, int(known[name].type), str(value)) for name, value in attributes.items())
    return Description(blueprint.uid, blueprint.id, values)
