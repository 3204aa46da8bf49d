"""Sources of non-determinism, each a real mechanism, to be switched on one by one (Section IV of the paper).

Nothing here adds noise to a result. A source changes how something is computed, in the way engines do by accident: it asks the
wall clock, leaves an order to a scheduler or a hash table, draws without a seed. Sources reach a run in four places: some are
modes of the game loop (:meth:`samepath.simulator.game_loop.LoopSettings.with_sources`), some a setting of the simulation, some
the order in which a scenario is put together, and some disturb the world before each step. Each names its deterministic twin:
what the two differ in comes from the source, and not from the force it adds.
"""

import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Barrier, Lock, Thread
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import VehicleType
from samepath.core.errors import InputError, unknown
from samepath.core.states import ActorState, Vector
from samepath.core.streams import entropy_key, keyed, stream, unseeded
from samepath.core.trig import sincos_deg
from samepath.scenarios.model import ActorSpec
from samepath.scenarios.run_inputs import InputFeed, InputRecorder
from samepath.simulator.maps import Mesh, load_map
from samepath.simulator.simulation import Arrangement, SimulationSettings, merged
from samepath.simulator.world.world import StaticMesh, World

# What the sources' inputs are called: orders, draws, pushes (see samepath.core.inputs).
ACTORS: Final = "actors"
MESHES: Final = "meshes"
LOTS: Final = "walker-lots"
GUST: Final = "gust"
PANELS: Final = "panels"
FLIP: Final = "bit-flip"
DEFAULT_GUSTS_N: Final = 50.0
DEFAULT_PANELS: Final = 64
# A flip of a bit strikes one of so many lowest bits of the mantissa, of one of these numbers of a state.
LOW_BITS: Final = 8
_NUMBERS: Final = ("x_m", "y_m", "x", "y", "z")
# Threads that load, and what an asset is padded to: about the size of a vehicle's meshes and textures, so that unpacking takes
# long enough for the threads to overtake each other.
LOADERS: Final = 4
ASSET_BYTES: Final = 4 << 20
# The wind on panels, the threads that add it up, and the points of a panel over which its pressure is taken.
AIR_KGPM3: Final = 1.2
WIND_MPS: Final = (3.0, -4.0)
_WORKERS: Final = 4
_POINTS: Final = 512

Floats = NDArray[np.float64]
Packed = TypeVar("Packed")
Loaded = TypeVar("Loaded")


class Disturbed(Protocol):
    """Whose world is disturbed, a simulation's or a server's, and where what is left to chance is written down, if anywhere."""

    @property
    def world(self) -> World: ...

    @property
    def inputs(self) -> InputRecorder | None: ...


class Disturbance(Protocol):
    """Pushes the world, or changes what it stores, before every step; a loop calls its own in the order it was given them."""

    def before_step(self, simulation: Disturbed) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Source:
    """A source of non-determinism: the paper's section, what it does, and what to run for comparison."""

    name: str
    section: str
    summary: str
    twin: str


SOURCES: Final[Mapping[str, Source]] = {
    source.name: source
    for source in (
        Source("wall-clock-step", "III, IV-E", "each step is as long as the frame before took", "mode lockstep"),
        Source("async-controller", "IV-B", "controllers run in a thread of their own", "controllers inline"),
        Source("unseeded-random", "IV-E", "gusts of wind drawn from entropy", "gusts_n without the source: a seeded stream"),
        Source("hash-order", "IV-F", "actors are spawned in the order of a set of strings", "no source, or PYTHONHASHSEED=0"),
        Source("unstable-queue", "IV-F", "walkers plan with a plain binary heap", "queue stable"),
        Source("random-queue", "IV-F", "walkers' planner breaks ties by lots from entropy", "queue randomised: seeded lots"),
        Source(
            "parallel-accumulation", "IV-A, IV-B", "forces are added as threads finish", "panels without the source: in order"
        ),
        Source("bit-flip", "IV-D", "one low bit of one actor's state turns over at a random tick", "no source"),
        Source("load-order", "IV-E", "meshes and actors enter physics as threads finish loading them", "no source"),
    )
}


def parse_sources(text: str) -> tuple[str, ...]:
    """Read names separated by commas; nothing is no source."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if name not in SOURCES:
            raise unknown("source of non-determinism", name, SOURCES)
    return names


def simulation_with(settings: SimulationSettings, names: tuple[str, ...]) -> SimulationSettings:
    """Return the simulation's settings with the walkers' queue that the sources ask for."""
    wanted = [queue for name, queue in (("unstable-queue", "unstable"), ("random-queue", "randomised")) if name in names]
    if len(wanted) > 1:
        raise InputError("sources: unstable-queue and random-queue are both the walkers' queue: choose one")
    return replace(settings, queue=wanted[0]) if wanted else settings


def arrangement_with(names: tuple[str, ...], inputs: InputRecorder | None = None) -> Arrangement:
    """Return how the scenario is put together; ``inputs`` is told what came of it."""
    arrangement = Arrangement()
    if "hash-order" in names and "load-order" in names:
        raise InputError("sources: hash-order and load-order both order the actors: choose one")
    if "hash-order" in names:
        arrangement = replace(arrangement, order=partial(_ordered, hash_order, inputs))
    if "load-order" in names:
        statics = partial(loaded_statics, inputs=inputs)
        arrangement = replace(arrangement, order=partial(_ordered, loaded_actors, inputs), statics=statics)
    if "random-queue" in names:
        arrangement = replace(arrangement, chance=partial(_entropy, inputs))
    return arrangement


def arrangement_fed(names: tuple[str, ...], feed: InputFeed) -> Arrangement:
    """Return how the scenario was put together in a run that is replayed: orders and lots as they fell then."""
    arrangement = arrangement_with(names)
    actors, meshes = feed.order(ACTORS), feed.order(MESHES)

    def in_order(specs: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
        return [specs[index - 1] for index in _whole(actors, [spec.id for spec in specs], ACTORS)]

    def statics(map_name: str) -> tuple[StaticMesh, ...]:
        found = load_map(map_name).meshes if map_name != "flat" else ()
        return merged([found[index] for index in _whole(meshes, range(len(found)), MESHES)]) if found else ()

    def lots(seed: int, purpose: str, actor_id: int, plans: int) -> np.random.Generator:
        key = feed.text(LOTS, actor_id, str(plans))
        if key is None and feed.fork_seed is not None:
            return stream(feed.fork_seed, "lots of a fork", actor_id, plans)
        if key is None:
            raise InputError(f"inputs: lots for plan {plans} of walker {actor_id} were wanted, but none were written down")
        return keyed(int(key, 16))

    if {"hash-order", "load-order"} & set(names):
        arrangement = replace(arrangement, order=in_order)
    if "load-order" in names:
        arrangement = replace(arrangement, statics=statics)
    return replace(arrangement, chance=lots) if "random-queue" in names else arrangement


def _whole(order: tuple[int, ...] | None, wanted: Sequence[int], name: str) -> tuple[int, ...]:
    """Refuse an order that is not one of exactly these: it would lose somebody, or name a stranger."""
    if wanted and (order is None or sorted(order) != sorted(wanted)):
        raise InputError(f"inputs: an order of the {len(wanted)} {name} was wanted, but {order} came: record the run again")
    return order or ()


def disturbances_with(
    names: tuple[str, ...],
    *,
    gusts_n: float = 0.0,
    panels: int = 0,
    seed: int = 0,
    ticks: int = 0,
    feed: InputFeed | None = None,
) -> tuple[Disturbance, ...]:
    """Return what meddles before each step. ``gusts_n`` and ``panels`` alone give the deterministic twins.

    ``ticks``: a bit flips before one of the first so many. With a ``feed`` what is left to chance and threads is what it was in
    the run that is replayed.
    """
    if not gusts_n >= 0 or panels < 0:
        raise InputError(f"gusts_n and panels of at least 0 were wanted, but {gusts_n} and {panels} came")
    found: list[Disturbance] = []
    unseeded_gusts, parallel = "unseeded-random" in names, "parallel-accumulation" in names
    if gusts_n or unseeded_gusts:
        found.append(Gusts(gusts_n or DEFAULT_GUSTS_N, None if unseeded_gusts else seed, feed))
    if panels or parallel:
        found.append(FedPanels(feed) if parallel and feed else Panels(panels or DEFAULT_PANELS, parallel=parallel))
    if "bit-flip" in names:
        found.append(FedBitFlip(feed) if feed else BitFlip(ticks, None))
    return tuple(found)


# Of a server's sources: those that push the world as it goes. The others belong to a scenario or a loop, which it has not.
SERVED: Final = ("unseeded-random", "parallel-accumulation", "bit-flip")
_SERVED_FLIP_TICKS: Final = 100


@dataclass(frozen=True)
class _ServedWorld:
    """A server's world as disturbances see it; what they draw is nobody's to write down."""

    world: World
    inputs: None = None


def served_disturbance(names: tuple[str, ...]) -> Callable[[World], None]:
    """Return what pushes the world of a server before each step, so that it does not repeat itself, on purpose."""
    for name in names:
        if name not in SERVED:
            raise unknown("source of non-determinism of a server", name, SERVED)
    disturbances = disturbances_with(names, ticks=_SERVED_FLIP_TICKS)

    def before_step(world: World) -> None:
        for disturbance in disturbances:
            disturbance.before_step(_ServedWorld(world))

    return before_step


def _ordered(
    order: Callable[[tuple[ActorSpec, ...]], Sequence[ActorSpec]], inputs: InputRecorder | None, actors: tuple[ActorSpec, ...]
) -> Sequence[ActorSpec]:
    found = order(actors)
    if inputs is not None:
        inputs.order(ACTORS, (actor.id for actor in found))
    return found


def _entropy(inputs: InputRecorder | None, seed: int, purpose: str, actor_id: int, plans: int) -> np.random.Generator:
    """Lots for a walker's plan. The key is what is written down: a search draws as many of them as it likes."""
    key = entropy_key()
    if inputs is not None:
        inputs.draw(LOTS, actor_id, text=f"{plans} {key:032x}")
    return keyed(key)


class BitFlip:
    """A single event upset (Section IV-D: memory without ECC).

    Turns over one of the 8 lowest mantissa bits of one number of one actor's state, once, before a tick drawn in advance.

    Physics holds its state in 32-bit floats, so a bit of such a float is turned. With ``seed`` None the cosmic ray comes from
    the operating system's entropy; with a seed it strikes the same place every time. A flip may be masked: a walker's velocity
    along the ground is set anew in every step, so of walkers only the position is struck.
    """

    def __init__(self, ticks: int, seed: int | None) -> None:
        self._generator = unseeded() if seed is None else stream(seed, "bit-flip")
        self._tick = int(self._generator.integers(1, max(2, ticks)))
        self.struck: str | None = None

    def before_step(self, simulation: Disturbed) -> None:
        """Strike, when the tick has come and somebody is there to be struck."""
        world = simulation.world
        if self.struck is not None or world.tick_count < self._tick or not world.actors:
            return
        draw = self._generator
        actor = world.actors[int(draw.integers(len(world.actors)))]
        walks = actor.type.startswith("walker.")
        name = _NUMBERS[int(draw.integers(2 if walks else len(_NUMBERS)))]
        bit = int(draw.integers(LOW_BITS))
        _flip(simulation, actor.id, name, bit)
        self.struck = f"bit {bit} of {name} of actor {actor.id} before tick {world.tick_count + 1}"

    def close(self) -> None:
        """Nothing to let go of."""


def _flip(simulation: Disturbed, actor_id: int, name: str, bit: int) -> None:
    world, state = simulation.world, simulation.world.state(actor_id)
    if name in ("x_m", "y_m"):
        value = flipped(getattr(state.pose, name), bit)
        world.set_pose(actor_id, state.pose._replace(**{name: value}))
    else:
        value = flipped(getattr(state.velocity_mps, name), bit)
        world.set_velocity(actor_id, state.velocity_mps._replace(**{name: value}))
    if simulation.inputs is not None:
        simulation.inputs.push(FLIP, actor_id, (value,), f"{name} bit {bit}")


class FedBitFlip:
    """Strikes where, when and as a flip of a run that is replayed did."""

    def __init__(self, feed: InputFeed) -> None:
        self._feed = feed

    def before_step(self, simulation: Disturbed) -> None:
        for push in self._feed.pushes(simulation.world.tick_count, FLIP):
            name, _, bit = push.text.partition(" bit ")
            if push.actor is None or name not in _NUMBERS or not (bit.isdecimal() and int(bit) < LOW_BITS):
                raise InputError(
                    f"inputs: a bit of an actor's state was wanted at step {push.step}, but {push.text[:80]!r} came"
                )
            if push.actor in simulation.world.states():
                # The bit, not the value: where a fork has led elsewhere, a cosmic ray still turns one bit over.
                _flip(simulation, push.actor, name, int(bit))

    def close(self) -> None:
        """Nothing to let go of."""


def flipped(value: float, bit: int) -> float:
    """Return the 32-bit float that differs from ``value`` in this bit of its mantissa."""
    bits = np.array([value], np.float32).view(np.uint32) ^ np.uint32(1 << bit)
    return float(bits.view(np.float32)[0])


class Gusts:
    """Control of pseudo-random numbers (Section IV-E).

    Pushes every vehicle sideways, in every step, by a normally distributed force of standard deviation ``size_n``.

    With a seed, the stream is named by vehicle and tick, and repeats. With ``seed`` None it comes from the operating system's
    entropy: the simulation is as it was, but nobody wrote down the seed. A ``feed`` has what was drawn then.
    """

    def __init__(self, size_n: float, seed: int | None, feed: InputFeed | None = None) -> None:
        self._size_n = size_n
        self._seed = seed
        self._feed = feed

    def before_step(self, simulation: Disturbed) -> None:
        world = simulation.world
        for actor in world.actors:
            if isinstance(world.kind(actor.id), VehicleType):
                drawn = self._drawn(actor.id, world.tick_count)
                # Of a seeded stream nothing is written down: its name gives the same numbers again.
                if self._seed is None and simulation.inputs is not None:
                    simulation.inputs.draw(GUST, actor.id, (drawn,))
                force_n = self._size_n * drawn
                sine, cosine = sincos_deg(world.state(actor.id).pose.yaw_deg)
                world.add_force(actor.id, Vector(-force_n * sine, force_n * cosine))

    def close(self) -> None:
        """Nothing to let go of."""

    def _drawn(self, actor_id: int, tick: int) -> float:
        if self._seed is not None:
            return float(stream(self._seed, "gust", actor_id, tick).standard_normal())
        if self._feed is None:
            return float(unseeded().standard_normal())
        drawn = self._feed.drawn(tick, GUST, actor_id)
        if drawn is None and self._feed.fork_seed is not None:
            return float(stream(self._feed.fork_seed, "gust of a fork", actor_id, tick).standard_normal())
        if drawn is None:
            raise InputError(f"inputs: a gust on actor {actor_id} was wanted at step {tick}, but none was written down")
        return drawn


class FedPanels:
    """Pushes as parallel panels did in a run that is replayed: the sums came from the order in which threads finished."""

    def __init__(self, feed: InputFeed) -> None:
        self._feed = feed

    def before_step(self, simulation: Disturbed) -> None:
        for push in self._feed.pushes(simulation.world.tick_count, PANELS):
            if push.actor is None or len(push.values) != 3:
                raise InputError(f"inputs: a force on an actor was wanted at step {push.step}, but {push} came")
            if push.actor not in simulation.world.states():
                continue  # gone in a fork, though not in the run that is replayed
            simulation.world.add_force(push.actor, Vector(*push.values))
            if simulation.inputs is not None:
                simulation.inputs.push(PANELS, push.actor, push.values, push.text)

    def close(self) -> None:
        """Nothing to let go of."""


def hash_order(actors: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
    """Return actors as a set of their names gives them out (Section IV-F).

    Python salts the hash of a string once per process: within a process the order repeats, in a fresh one it may not, unless
    PYTHONHASHSEED is set. Ids stay as in the scenario; it is the physics engine that meets the bodies in another order.
    """
    named = {f"{actor.type} {actor.id}": actor for actor in actors}
    return [named[name] for name in set(named)]


def loaded_actors(actors: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
    """Return actors in the order in which several threads have unpacked and read them (Section IV-E).

    An actor is packed with blanks up to 4 MiB, about the size of a vehicle's meshes and textures.
    """
    packed = [zlib.compress(actor.model_dump_json().encode().ljust(ASSET_BYTES)) for actor in actors]
    return in_order_of_completion(packed, lambda asset: ActorSpec.model_validate_json(zlib.decompress(asset).rstrip()))


def loaded_statics(map_name: str, inputs: InputRecorder | None = None) -> tuple[StaticMesh, ...]:
    """Return a map's meshes, merged in the order in which several threads have unpacked them."""
    if map_name == "flat":
        return ()
    meshes = load_map(map_name).meshes
    packed = [(index, mesh, zlib.compress(mesh.vertices.tobytes())) for index, mesh in enumerate(meshes)]
    order = in_order_of_completion(packed, _unpacked)
    if inputs is not None:
        inputs.order(MESHES, order)
    return merged([meshes[index] for index in order])


def _unpacked(asset: tuple[int, Mesh, bytes]) -> int:
    index, mesh, packed = asset
    points = np.frombuffer(zlib.decompress(packed), mesh.vertices.dtype).reshape(mesh.vertices.shape)
    if not np.isfinite(points).all():
        raise ValueError(f"mesh {mesh.name} has a vertex that is no number")
    return index


def in_order_of_completion(items: Sequence[Packed], load: Callable[[Packed], Loaded]) -> list[Loaded]:
    """Load with several threads that begin together; return what they loaded, first come, first served."""
    indices, done, errors = itertools.count(), list[Loaded](), list[Exception]()
    # They begin together: a thread that is started first would have loaded everything before the second one runs.
    begin = Barrier(LOADERS)

    def work() -> None:
        begin.wait()
        try:
            while (index := next(indices)) < len(items):
                done.append(load(items[index]))
        except Exception as error:  # raised again in the caller's thread
            errors.append(error)

    threads = [Thread(target=work, name=f"loader {number}") for number in range(LOADERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return done


class Panels:
    """Parallel sums (Sections IV-A and IV-B).

    A steady wind presses on ``count`` panels around every vehicle: f = 1/2 rho A (v_rel . n)^2 n where it meets them.

    The pressure on a panel is the mean over 512 points of it, which is the work that is shared out. ``parallel`` workers add
    what they have as soon as they have it, as atomic additions on a GPU do; otherwise panels are added in order.
    Either way the sum is of 32-bit floats, the precision of the physics engine.

    Addition of floats is not associative: (x + y) + z and x + (y + z) may differ in the last bit. A sum in a fixed order
    repeats that error exactly; a sum in the order in which parallel workers happen to finish does not.
    """

    def __init__(self, count: int, *, parallel: bool) -> None:
        headings = np.arange(count) * (360.0 / count)
        turns = [sincos_deg(float(heading)) for heading in headings]
        self._normals = [(cosine, sine) for sine, cosine in turns]
        self._area_m2 = 12.0 / count
        self._weights: Floats = np.linspace(0.5, 1.5, _POINTS)
        self._pool = ThreadPoolExecutor(_WORKERS) if parallel else None

    def before_step(self, simulation: Disturbed) -> None:
        world = simulation.world
        for actor in world.actors:
            if isinstance(world.kind(actor.id), VehicleType):
                force_n = self._force(world.state(actor.id))
                world.add_force(actor.id, force_n)
                # Where one thread adds in order, the force follows from the state.
                if self._pool is not None and simulation.inputs is not None:
                    simulation.inputs.push(PANELS, actor.id, tuple(force_n), "added as threads finished")

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown()

    def _force(self, state: ActorState) -> Vector:
        sine, cosine = sincos_deg(state.pose.yaw_deg)
        wind_x, wind_y = WIND_MPS[0] - state.velocity_mps.x, WIND_MPS[1] - state.velocity_mps.y
        relative = (wind_x * cosine + wind_y * sine, wind_y * cosine - wind_x * sine)
        forward, right = self._summed(relative) if self._pool is None else self._raced(self._pool, relative)
        return Vector(forward * cosine - right * sine, forward * sine + right * cosine)

    def _panel(self, index: int, relative: tuple[float, float]) -> tuple[float, float]:
        x, y = self._normals[index]
        into_mps = relative[0] * x + relative[1] * y
        if into_mps >= 0.0:
            return 0.0, 0.0
        local = np.multiply(self._weights, into_mps)
        force_n = 0.5 * AIR_KGPM3 * self._area_m2 * float(np.multiply(local, local).sum()) / _POINTS
        return -force_n * x, -force_n * y

    def _summed(self, relative: tuple[float, float]) -> tuple[float, float]:
        forward = right = np.float32(0.0)
        for index in range(len(self._normals)):
            x, y = self._panel(index, relative)
            forward += np.float32(x)
            right += np.float32(y)
        return float(forward), float(right)

    def _raced(self, pool: ThreadPoolExecutor, relative: tuple[float, float]) -> tuple[float, float]:
        total, lock, begin = [np.float32(0.0), np.float32(0.0)], Lock(), Barrier(_WORKERS)
        indices = itertools.count()

        def work() -> None:
            begin.wait()
            while (index := next(indices)) < len(self._normals):
                x, y = self._panel(index, relative)
                with lock:
                    total[0] += np.float32(x)
                    total[1] += np.float32(y)

        for future in [pool.submit(work) for _ in range(_WORKERS)]:
            future.result()
        return float(total[0]), float(total[1])
