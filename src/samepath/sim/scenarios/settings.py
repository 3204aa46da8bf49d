"""A study's plain values, checked and turned into settings: what is no number, or none that makes sense, goes no further."""

import math
from collections.abc import Mapping

from samepath.base.errors import InputError
from samepath.sim.scenarios.simulation import SimulationSettings

Values = Mapping[str, str | float | int | bool]


def number(values: Values, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a value that must be a finite number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name}: a number{_range(least, most)} was wanted, but {value!r} came")
    return float(value)


def whole(values: Values, name: str, least: int, most: int) -> int:
    """Return a value that must be a whole number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not least <= value <= most or value != int(value):
        raise InputError(f"{name}: a whole number{_range(least, most)} was wanted, but {value!r} came")
    return int(value)


def settings_from(values: Values, seed: int, duration_s: float | None = None) -> SimulationSettings:
    """Build the simulation's settings; 0 substeps stands for the scenario's own."""
    return SimulationSettings(
        step_s=number(values, "step_s", 1e-5, 1.0),
        substeps=whole(values, "substeps", 0, 100) or None,
        solver_iterations=whole(values, "solver_iterations", 1, 1000),
        physics_threads=whole(values, "physics_threads", 0, 1024),
        grid_m=number(values, "grid_m", 0.01, 10.0),
        queue=str(values["queue"]),
        seed=seed,
        duration_s=duration_s,
    )


def _range(least: float, most: float) -> str:
    if math.isfinite(least) and math.isfinite(most):
        return f" from {least:g} to {most:g}"
    return f" of at least {least:g}" if math.isfinite(least) else ""
