"""The controls' world: two cars that meet and collide, a car that has nothing to do with it, and a pedestrian.

Small on purpose, and exact on purpose: float64 additions, multiplications, divisions and square roots only, in a fixed order,
so that IEEE 754 fixes every bit on every machine.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STEP_S: Final = 0.05
TICKS: Final = 200
CAR_A, CAR_B, BYSTANDER, PEDESTRIAN = 1, 2, 3, 4
TYPES: Final = {CAR_A: "car", CAR_B: "car", BYSTANDER: "car", PEDESTRIAN: "pedestrian"}

_CONTACT_M: Final = 2.4
_RESTITUTION: Final = 0.3
_MASS_KG: Final = 1500.0
_DRAG_PER_S: Final = 0.9
_DRIVE_PER_S: Final = 1.3


@dataclass
class Body:
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
class Collision:
    """Two cars touched; the impulse acts on the second one."""

    tick: int
    actor: int
    other: int
    impulse_ns: tuple[float, float, float]


def simulate() -> Iterator[tuple[int, dict[int, Body], Collision | None]]:
    """Yield every tick with the bodies after it; the bodies are updated in place."""
    bodies = {
        CAR_A: Body(-32.3, 1.7, 0.0, 0.0, 9.7, 0.0),
        CAR_B: Body(1.9, -31.1, 0.0, 0.0, 0.0, 9.3),
        BYSTANDER: Body(-60.7, 8.9, 0.0, 0.0, 6.1, 0.0),
        PEDESTRIAN: Body(12.3, 6.1, 0.0, 0.0, -0.7, 1.1),
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


def _collide(tick: int, a: Body, b: Body) -> Collision | None:
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
    return Collision(tick, CAR_A, CAR_B, (change * _MASS_KG * nx, change * _MASS_KG * ny, 0.0))
