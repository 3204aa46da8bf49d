"""Reference simulators: the proof that the instrument sees what is there and nothing else.

They are the instrument's positive and negative controls, named ``control-*``: one repeats itself exactly, the others are wrong
by a known amount. A fault is drawn from a stream named by seed, purpose and repeat, so that every repeat's fault can be worked
out beforehand and checked. One of them alone has hidden state: that is its fault.

Their world is two cars that meet and collide, a car that has nothing to do with it, and a pedestrian. It is small on purpose,
and exact on purpose: float64 additions, multiplications, divisions and square roots only, in a fixed order, so that IEEE 754
fixes every bit on every machine.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from samepath import __version__
from samepath.core.channels import POSITION, VELOCITY
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.core.streams import stream
from samepath.engines.interface import (
    DURATION,
    TIME_OVER,
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_request,
    last_tick,
    no_tick,
)
from samepath.instrument.traces.recorder import Recorder

SCENARIO: Final = "crossing"
STEP_S: Final = 0.05
TICKS: Final = 200
CAR_A, CAR_B, BYSTANDER, PEDESTRIAN = 1, 2, 3, 4
TYPES: Final = {CAR_A: "car", CAR_B: "car", BYSTANDER: "car", PEDESTRIAN: "pedestrian"}

_CONTACT_M: Final = 2.4
_RESTITUTION: Final = 0.3
_MASS_KG: Final = 1500.0
_DRAG_PER_S: Final = 0.9
_DRIVE_PER_S: Final = 1.3


# How far from its true place, in x and y, an actor is logged at a tick: (tick, actor) -> metres.
Displacement = Callable[[int, int], tuple[float, float]]


@dataclass
class PointBody:
    """A point that drives towards its target velocity, or slides once it has been hit."""

    x_m: float
    y_m: float
    vx_mps: float
    vy_mps: float
    target_x_mps: float
    target_y_mps: float
    hit: bool = False

    def step(self) -> None:
        """Advance by one tick, semi-implicitly."""
        if self.hit:
            self.vx_mps -= STEP_S * _DRAG_PER_S * self.vx_mps
            self.vy_mps -= STEP_S * _DRAG_PER_S * self.vy_mps
        else:
            self.vx_mps += STEP_S * _DRIVE_PER_S * (self.target_x_mps - self.vx_mps)
            self.vy_mps += STEP_S * _DRIVE_PER_S * (self.target_y_mps - self.vy_mps)
        self.x_m += STEP_S * self.vx_mps
        self.y_m += STEP_S * self.vy_mps


@dataclass(frozen=True)
class PointCollision:
    """Two cars touched; the impulse acts on the second one."""

    tick: int
    actor: int
    other: int
    impulse_ns: tuple[float, float, float]


def simulate() -> Iterator[tuple[int, dict[int, PointBody], PointCollision | None]]:
    """Yield every tick with the bodies after it; the bodies are updated in place."""
    bodies = {
        CAR_A: PointBody(-32.3, 1.7, 0.0, 0.0, 9.7, 0.0),
        CAR_B: PointBody(1.9, -31.1, 0.0, 0.0, 0.0, 9.3),
        BYSTANDER: PointBody(-60.7, 8.9, 0.0, 0.0, 6.1, 0.0),
        PEDESTRIAN: PointBody(12.3, 6.1, 0.0, 0.0, -0.7, 1.1),
    }
    collided = False
    for tick in range(1, TICKS + 1):
        for body in bodies.values():
            body.step()
        collision = None
        if not collided:
            collision = _collide(tick, bodies[CAR_A], bodies[CAR_B])
            collided = collision is not None
        yield tick, bodies, collision


def _collide(tick: int, a: PointBody, b: PointBody) -> PointCollision | None:
    """Exchange momentum along the line between two equal masses when they touch and approach."""
    dx, dy = b.x_m - a.x_m, b.y_m - a.y_m
    distance = math.sqrt(dx * dx + dy * dy)
    if distance >= _CONTACT_M:
        return None
    nx, ny = dx / distance, dy / distance
    approach = (a.vx_mps - b.vx_mps) * nx + (a.vy_mps - b.vy_mps) * ny
    if approach <= 0.0:
        return None
    change = 0.5 * (1.0 + _RESTITUTION) * approach
    a.vx_mps -= change * nx
    a.vy_mps -= change * ny
    b.vx_mps += change * nx
    b.vy_mps += change * ny
    a.hit = b.hit = True
    return PointCollision(tick, CAR_A, CAR_B, (change * _MASS_KG * nx, change * _MASS_KG * ny, 0.0))


class Exact(Simulator):
    """Repeats itself to the bit. The others override one thing each: what is wrong with them."""

    name: ClassVar[str] = "control-exact"
    summary: ClassVar[str] = "repeats itself to the bit"
    settings: ClassVar[dict[str, Scalar]] = {}
    deterministic: ClassVar[bool] = True
    lossless: ClassVar[bool] = True

    def info(self) -> SimulatorInfo:
        return SimulatorInfo(
            name=self.name,
            version=__version__,
            summary=self.summary,
            scenarios=(SCENARIO,),
            step_s=STEP_S,
            channels=(*POSITION, *VELOCITY),
            capabilities=Capabilities(self.deterministic, self.lossless, collisions=True, durations=True),
            settings=self.settings,
        )

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Simulate the crossing and record it, with this simulator's fault."""
        info = self.info()
        settings = check_request(info, request)
        fault = self.fault(request, settings)
        for actor, kind in TYPES.items():
            recorder.actor(actor, kind)
        recorder.inputs(InputLog(list(self.chance(request, settings)), step_s=STEP_S))
        breaks_off, last = self.breaks_off_at(request), last_tick(info, request)
        gone: set[int] = set()
        for tick, bodies, collision in simulate():
            for actor, body in bodies.items():
                if actor not in gone:
                    dx, dy = fault(tick, actor)
                    recorder.state(tick, actor, self.log(body, dx, dy))
            if collision is not None:
                recorder.event(tick, "collision", collision.actor, collision.other, collision.impulse_ns)
            if self.destroys_at(tick):
                recorder.event(tick, "destroy", PEDESTRIAN)
                gone.add(PEDESTRIAN)
            on_tick(tick)
            if tick == breaks_off:
                recorder.end(tick, "simulator stopped answering", completed=False)
                return
            if tick == last:
                recorder.end(tick, DURATION)
                return
        recorder.end(TICKS, TIME_OVER)

    def log(self, body: PointBody, dx_m: float, dy_m: float) -> dict[str, float]:
        """Return what goes into the trace for a body displaced by the fault."""
        return {
            "x_m": body.x_m + dx_m,
            "y_m": body.y_m + dy_m,
            "z_m": 0.0,
            "vx_mps": body.vx_mps,
            "vy_mps": body.vy_mps,
            "vz_mps": 0.0,
        }

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Return the displacement of an actor at a tick in this repeat."""
        return lambda tick, actor: (0.0, 0.0)

    def chance(self, request: RunRequest, settings: dict[str, Scalar]) -> Iterable[Input]:
        """Return what was drawn for the fault: nothing else goes into this world. Faults that no chance makes have none."""
        return ()

    def breaks_off_at(self, request: RunRequest) -> int | None:
        """Return the tick after which the run breaks off, if it does."""
        return None

    def destroys_at(self, tick: int) -> bool:
        """Is the pedestrian destroyed at this tick?"""
        return False


def _drawn(name: str, noise: NDArray[np.float64], from_tick: int) -> Iterator[Input]:
    """The draws of a noise on everybody at every tick: that of a tick goes in before the step that leads to it."""
    for tick in range(max(1, from_tick), TICKS + 1):
        for actor in TYPES:
            yield Input(tick - 1, InputKind.DRAW, name, actor, tuple(noise[tick, actor].tolist()))


class Gaussian(Exact):
    """Independent Gaussian noise of known sigma on x and y of every actor, from a known tick on."""

    name = "control-gaussian"
    summary = "Gaussian noise of sigma_m on x and y from from_tick on"
    settings: ClassVar[dict[str, Scalar]] = {"sigma_m": 0.001, "from_tick": 100}
    deterministic = False

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Draw noise from the stream of this repeat."""
        from_tick, noise = int(settings["from_tick"]), self._noise(request, settings)

        def displacement(tick: int, actor: int) -> tuple[float, float]:
            if tick < from_tick:
                return 0.0, 0.0
            return float(noise[tick, actor, 0]), float(noise[tick, actor, 1])

        return displacement

    def chance(self, request: RunRequest, settings: dict[str, Scalar]) -> Iterable[Input]:
        return _drawn("gaussian", self._noise(request, settings), int(settings["from_tick"]))

    def _noise(self, request: RunRequest, settings: dict[str, Scalar]) -> NDArray[np.float64]:
        shape = (TICKS + 1, len(TYPES) + 1, 2)
        return stream(request.seed, "gaussian", request.repeat).normal(0.0, float(settings["sigma_m"]), shape)


class Rare(Exact):
    """Three repeats in every thousand have one car 10 cm off from tick 60 on; the paper's authors saw just that."""

    name = "control-rare"
    summary = "3 repeats in 1000 are 10 cm off (x of actor 2, from tick 60)"
    deterministic = False
    odd_repeats: ClassVar[frozenset[int]] = frozenset({137, 503, 871})

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Displace actor 2 in the odd repeats."""
        odd = request.repeat % 1000 in self.odd_repeats
        return lambda tick, actor: (0.1, 0.0) if odd and actor == CAR_B and tick >= 60 else (0.0, 0.0)


class TwoOutcomes(Exact):
    """After the collision one car goes one of two ways, bit-identical within each; a fair coin per repeat decides."""

    name = "control-two-outcomes"
    summary = "two outcomes, split at tick 90, up to 2.2 m apart"
    deterministic = False

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Bend the path of actor 2 in half of the repeats."""
        other_way = self._coin(request) < 0.5
        return lambda tick, actor: (0.0, 0.02 * (tick - 90)) if other_way and actor == CAR_B and tick > 90 else (0.0, 0.0)

    def chance(self, request: RunRequest, settings: dict[str, Scalar]) -> Iterable[Input]:
        return (Input(0, InputKind.DRAW, "two-outcomes", CAR_B, (self._coin(request),)),)

    def _coin(self, request: RunRequest) -> float:
        return float(stream(request.seed, "two-outcomes", request.repeat).random())


class LateBystander(Exact):
    """The car that was not involved drifts apart from tick 150 on, long after the collision of the others."""

    name = "control-late-bystander"
    summary = "actor 3, not in the collision, drifts from tick 150 on (sigma 4 cm at the end)"
    deterministic = False

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Give actor 3 a drift of its own in every repeat."""
        drift_m = self._drift_m(request)

        def displacement(tick: int, actor: int) -> tuple[float, float]:
            return (0.0, drift_m * (tick - 150) / 50) if actor == BYSTANDER and tick > 150 else (0.0, 0.0)

        return displacement

    def chance(self, request: RunRequest, settings: dict[str, Scalar]) -> Iterable[Input]:
        return (Input(0, InputKind.DRAW, "late-bystander", BYSTANDER, (self._drift_m(request),)),)

    def _drift_m(self, request: RunRequest) -> float:
        return float(stream(request.seed, "late-bystander", request.repeat).normal(0.0, 0.04))


class EndsEarly(Exact):
    """One repeat in fifty breaks off at tick 150 of 200; until then it is exact."""

    name = "control-ends-early"
    summary = "one repeat in 50 breaks off at tick 150"
    deterministic = False

    def breaks_off_at(self, request: RunRequest) -> int | None:
        """Break off repeats 7, 57, 107, ..."""
        return 150 if request.repeat % 50 == 7 else None


class Destroyed(Exact):
    """The pedestrian is destroyed at tick 120 in every repeat: absent from then on, and the cell still bit-identical."""

    name = "control-destroyed"
    summary = "the pedestrian is destroyed at tick 120, in every repeat"

    def destroys_at(self, tick: int) -> bool:
        """Destroy the pedestrian at tick 120."""
        return tick == 120


class Leaky(Exact):
    """What a run leaves behind in its process, the next one finds: a car ends ``leak_m`` farther off with every run before.

    In a process of its own a run is exact, so that repeats kept apart are bit-identical. Of n repeats in one process, the last
    tick has sigma = leak_m sqrt(n (n + 1) / 12), the sigma of the numbers 0 to n - 1.
    """

    name = "control-leaky"
    summary = "exact in a fresh process; actor 3 ends leak_m farther off with every run before in the same one"
    settings: ClassVar[dict[str, Scalar]] = {"leak_m": 0.001}
    deterministic = False
    runs_before: ClassVar[int] = 0

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Push actor 3 aside by what has been left behind, and leave more."""
        end_m = float(settings["leak_m"]) * Leaky.runs_before
        Leaky.runs_before += 1
        return lambda tick, actor: (0.0, end_m * tick / TICKS if actor == BYSTANDER else 0.0)


class BelowResolution(Exact):
    """Noise of up to 0.4 mm in the simulator, hidden by a log that is rounded to 1 mm."""

    name = "control-below-resolution"
    summary = "noise of up to 0.4 mm that a log rounded to 1 mm cannot show"
    deterministic = False
    lossless = False

    def fault(self, request: RunRequest, settings: dict[str, Scalar]) -> Displacement:
        """Draw noise that stays within the log's rounding."""
        noise = self._noise(request)
        return lambda tick, actor: (float(noise[tick, actor, 0]), float(noise[tick, actor, 1]))

    def chance(self, request: RunRequest, settings: dict[str, Scalar]) -> Iterable[Input]:
        return _drawn("below-resolution", self._noise(request), 1)

    def _noise(self, request: RunRequest) -> NDArray[np.float64]:
        shape = (TICKS + 1, len(TYPES) + 1, 2)
        return stream(request.seed, "below-resolution", request.repeat).uniform(-4e-4, 4e-4, shape)

    def log(self, body: PointBody, dx_m: float, dy_m: float) -> dict[str, float]:
        """Round like a log with three decimals. The noiseless path lies on the grid, so noise below half a step is lost."""
        exact = super().log(body, 0.0, 0.0)
        rounded = {name: round(value, 3) for name, value in exact.items()}
        rounded["x_m"] = round(rounded["x_m"] + dx_m, 3)
        rounded["y_m"] = round(rounded["y_m"] + dy_m, 3)
        return rounded
