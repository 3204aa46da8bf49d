"""Sources of non-determinism, each a real mechanism, to be switched on one by one (Section IV of the paper).

Nothing here adds noise to a result. A source changes how something is computed, in the way engines do by accident: it asks the
wall clock, leaves an order to a scheduler or a hash table, draws without a seed. See :mod:`samepath.simulator.game_loop`.
"""

import itertools
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Barrier, Condition, Lock, Thread
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import VehicleType
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.states import ActorState, Command, Vector
from samepath.core.streams import stream, unseeded
from samepath.core.trig import sincos_deg
from samepath.scenarios.agents import View
from samepath.scenarios.model import ActorSpec
from samepath.simulator.maps import Mesh, load_map
from samepath.simulator.simulation import Simulation, merged
from samepath.simulator.world.world import StaticMesh

# What meddles with the world before each step of physics.


class Disturbance(Protocol):
    """Called before every step of a game loop, in the order in which the loop was given them."""

    def before_step(self, simulation: Simulation) -> None:
        """Push, or change what is stored."""

    def close(self) -> None:
        """Let go of everything."""


# Work that stands for rendering, so that a frame takes wall time (``wall-clock-step``, Sections III and IV-E).
#
# It is computed, not slept: whoever competes for the core makes it longer, as with rendering.

_TRIALS: Final = 50


def frame_work(cost_s: float) -> Callable[[], None]:
    """Return work that takes ``cost_s`` on an idle core: as many passes of :func:`_shade` as fit."""
    passes = round(cost_s / _pass_s()) if cost_s > 0 else 0

    def work() -> None:
        for _ in range(passes):
            _shade()

    return work


_RAYS: Final = np.linspace(0.1, 1.0, 4096)
_PIXELS: Final = np.zeros_like(_RAYS)


def _shade() -> None:
    """Light 4096 pixels: a few dozen microseconds of arithmetic during which other threads may run, as while rendering."""
    np.multiply(_RAYS, _RAYS, out=_PIXELS)
    np.add(_PIXELS, 1.0, out=_PIXELS)
    np.sqrt(_PIXELS, out=_PIXELS)
    np.divide(_RAYS, _PIXELS, out=_PIXELS)


@lru_cache(maxsize=1)
def _pass_s() -> float:
    """Seconds of one pass: the least of many, so that a busy machine gets the same amount of work as an idle one."""
    times_s = []
    for _ in range(_TRIALS):
        start_s = SYSTEM_CLOCK.monotonic_s()
        _shade()
        times_s.append(SYSTEM_CLOCK.monotonic_s() - start_s)
    return max(min(times_s), 1e-7)


# Where agents decide: in the frame itself, or in a thread of their own (``async-controller``, Section IV-B).
#
# In a thread it is the operating system's scheduler that says which view a decision is made from and which frame it
# reaches.

Decide = Callable[[View], dict[int, Command]]


class Decider(Protocol):
    """Runs the agents."""

    def commands(self, view: View) -> dict[int, Command]:
        """Return what holds in the frame that begins with ``view``."""

    def close(self) -> None:
        """Stop."""


class Inline:
    """Agents decide at once, in the first frame of each control period; until the next one their commands hold."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._period = -1
        self._commands: dict[int, Command] = {}

    def commands(self, view: View) -> dict[int, Command]:
        """Ask the agents if a control period has passed."""
        if view.tick > self._period:
            self._period, self._commands = view.tick, self._decide(view)
        return self._commands

    def close(self) -> None:
        """Nothing to stop."""


class Threaded:
    """Agents decide in a thread of their own, as a client beside a game engine does.

    They see the newest view when they are ready for one, and whatever they said last counts.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._changed = Condition()
        self._view: View | None = None
        self._commands: dict[int, Command] = {}
        self._error: BaseException | None = None
        self._stopped = False
        self._thread = Thread(target=self._run, name="controllers", daemon=True)
        self._thread.start()

    def commands(self, view: View) -> dict[int, Command]:
        """Publish the view and return what has arrived so far."""
        with self._changed:
            if self._error is not None:
                raise self._error
            self._view = view
            self._changed.notify()
            return self._commands

    def close(self) -> None:
        """Stop after the decision in hand."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        period = -1
        while True:
            with self._changed:
                while not self._stopped and (self._view is None or self._view.tick <= period):
                    self._changed.wait()
                view = self._view
            if self._stopped or view is None:
                return
            period = view.tick
            try:
                commands = self._decide(view)
            except Exception as error:  # told to the loop, which raises it in the caller's thread
                self._error = error
                return
            with self._changed:
                self._commands = commands


# A single event upset: one bit of one number in memory turns over (``bit-flip``, Section IV-D: memory without ECC).

LOW_BITS: Final = 8
_NUMBERS: Final = ("x_m", "y_m", "x", "y", "z")


class BitFlip:
    """Turns over one of the 8 lowest mantissa bits of one number of one actor's state, once, before a tick drawn in advance.

    Physics holds its state in 32-bit floats, so a bit of such a float is turned. With ``seed`` None the cosmic ray comes from
    the operating system's entropy; with a seed it strikes the same place every time. A flip may be masked: a walker's velocity
    along the ground is set anew in every step, so of walkers only the position is struck.
    """

    def __init__(self, ticks: int, seed: int | None) -> None:
        self._generator = unseeded() if seed is None else stream(seed, "bit-flip")
        self._tick = int(self._generator.integers(1, max(2, ticks)))
        self.struck: str | None = None

    def before_step(self, simulation: Simulation) -> None:
        """Strike, when the tick has come and somebody is there to be struck."""
        world = simulation.world
        if self.struck is not None or world.tick_count < self._tick or not world.actors:
            return
        draw = self._generator
        actor = world.actors[int(draw.integers(len(world.actors)))]
        walks = actor.type.startswith("walker.")
        name = _NUMBERS[int(draw.integers(2 if walks else len(_NUMBERS)))]
        bit = int(draw.integers(LOW_BITS))
        state = world.state(actor.id)
        if name in ("x_m", "y_m"):
            world.set_pose(actor.id, state.pose._replace(**{name: flipped(getattr(state.pose, name), bit)}))
        else:
            velocity = state.velocity_mps
            world.set_velocity(actor.id, velocity._replace(**{name: flipped(getattr(velocity, name), bit)}))
        self.struck = f"bit {bit} of {name} of actor {actor.id} before tick {world.tick_count + 1}"

    def close(self) -> None:
        """Nothing to let go of."""


def flipped(value: float, bit: int) -> float:
    """Return the 32-bit float that differs from ``value`` in this bit of its mantissa."""
    bits = np.array([value], np.float32).view(np.uint32) ^ np.uint32(1 << bit)
    return float(bits.view(np.float32)[0])


# Gusts of wind from a seeded stream, or from none (``unseeded-random``, Section IV-E: control of pseudo-random
# numbers).


class Gusts:
    """Pushes every vehicle sideways, in every step, by a normally distributed force of standard deviation ``size_n``.

    With a seed, the stream is named by vehicle and tick, and repeats. With ``seed`` None it comes from the operating system's
    entropy: the simulation is as it was, but nobody wrote down the seed.
    """

    def __init__(self, size_n: float, seed: int | None) -> None:
        self._size_n = size_n
        self._seed = seed

    def before_step(self, simulation: Simulation) -> None:
        """Blow."""
        world = simulation.world
        for actor in world.actors:
            if isinstance(world.kind(actor.id), VehicleType):
                force_n = self._size_n * float(self._generator(actor.id, world.tick_count).standard_normal())
                sine, cosine = sincos_deg(world.state(actor.id).pose.yaw_deg)
                world.add_force(actor.id, Vector(-force_n * sine, force_n * cosine))

    def close(self) -> None:
        """Nothing to let go of."""

    def _generator(self, actor_id: int, tick: int) -> np.random.Generator:
        return unseeded() if self._seed is None else stream(self._seed, "gust", actor_id, tick)


# Orders that nobody fixed: of a hash table (``hash-order``, Section IV-F) and of completion (``load-order``, IV-E).

LOADERS: Final = 4
ASSET_BYTES: Final = 4 << 20
One = TypeVar("One")
Packed = TypeVar("Packed")


def hash_order(actors: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
    """Return actors as a set of their names gives them out.

    Python salts the hash of a string once per process: within a process the order repeats, in a fresh one it may not, unless
    PYTHONHASHSEED is set. Ids stay as in the scenario; it is the physics engine that meets the bodies in another order.
    """
    named = {f"{actor.type} {actor.id}": actor for actor in actors}
    return [named[name] for name in set(named)]


def loaded_actors(actors: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
    """Return actors in the order in which several threads have unpacked and read them.

    An actor is packed with blanks up to 4 MiB, about the size of a vehicle's meshes and textures.
    """
    packed = [zlib.compress(actor.model_dump_json().encode().ljust(ASSET_BYTES)) for actor in actors]
    return in_order_of_completion(packed, lambda one: ActorSpec.model_validate_json(zlib.decompress(one).rstrip()))


def loaded_statics(map_name: str) -> tuple[StaticMesh, ...]:
    """Return a map's meshes, merged in the order in which several threads have unpacked them."""
    if map_name == "flat":
        return ()
    packed = [(mesh, zlib.compress(mesh.vertices.tobytes())) for mesh in load_map(map_name).meshes]
    return merged(in_order_of_completion(packed, _unpacked))


def _unpacked(one: tuple[Mesh, bytes]) -> Mesh:
    mesh, packed = one
    points = np.frombuffer(zlib.decompress(packed), mesh.vertices.dtype).reshape(mesh.vertices.shape)
    if not np.isfinite(points).all():
        raise ValueError(f"mesh {mesh.name} has a vertex that is no number")
    return mesh


def in_order_of_completion(items: Sequence[Packed], load: Callable[[Packed], One]) -> list[One]:
    """Load with several threads that begin together; return what they loaded, first come, first served."""
    indices, done, errors = itertools.count(), list[One](), list[Exception]()
    begin = Barrier(LOADERS)

    def work() -> None:
        begin.wait()
        try:
            while (index := next(indices)) < len(items):
                done.append(load(items[index]))
        except Exception as error:  # raised again in the caller's thread
            errors.append(error)

    threads = [Thread(target=work, name=f"loader {number}") for number in range(LOADERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if errors:
        raise errors[0]
    return done


# Wind on a vehicle's hull, summed over its panels in order or as threads finish (``parallel-accumulation``, IV-A and
# IV-B).
#
# Addition of floats is not associative: (x + y) + z and x + (y + z) may differ in the last bit. A sum in a fixed
# order repeats that error exactly; a sum in the order in which parallel workers happen to finish does not.

AIR_KGPM3: Final = 1.2
WIND_MPS: Final = (3.0, -4.0)
_WORKERS: Final = 4
_POINTS: Final = 512

Floats = NDArray[np.float64]


class Panels:
    """A steady wind presses on ``count`` panels around every vehicle: f = 1/2 rho A (v_rel . n)^2 n where it meets them.

    The pressure on a panel is the mean over 512 points of it, which is the work that is shared out. ``parallel`` workers add
    what they have as soon as they have it, as atomic additions on a GPU do; otherwise panels are added in order.
    Either way the sum is of 32-bit floats, the precision of the physics engine.
    """

    def __init__(self, count: int, *, parallel: bool) -> None:
        headings = np.arange(count) * (360.0 / count)
        turns = [sincos_deg(float(one)) for one in headings]
        self._normals = [(cosine, sine) for sine, cosine in turns]
        self._area_m2 = 12.0 / count
        self._weights: Floats = np.linspace(0.5, 1.5, _POINTS)
        self._pool = ThreadPoolExecutor(_WORKERS) if parallel else None

    def before_step(self, simulation: Simulation) -> None:
        """Press."""
        world = simulation.world
        for actor in world.actors:
            if isinstance(world.kind(actor.id), VehicleType):
                world.add_force(actor.id, self._force(world.state(actor.id)))

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

        for one in [pool.submit(work) for _ in range(_WORKERS)]:
            one.result()
        return float(total[0]), float(total[1])
