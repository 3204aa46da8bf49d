"""The simulator: cost of a tick, repeats per second, and what determinism costs, all in one run."""

import math
import tempfile
from pathlib import Path

from bench.tools import best_s, save, show, verdict
from samepath.core.catalogue import actor_type
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.states import Pose, VehicleCommand, WalkerCommand
from samepath.engines import conformance, registry
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import make_plan
from samepath.scenarios.model import load_scenario
from samepath.simulator.physics.engine import Physics, PhysicsSettings
from samepath.simulator.simulation import Simulation
from samepath.simulator.world.world import World

SPEED_AIM, COST_AIM = 500.0, 1.3
STUDY = """
name: test2
design: {simulators: samepath, scenarios: table1-test2, repeats: 1000, log_every: 2}
execution: {isolation: batch, repeats_per_process: 50, processes: 2}
"""


def main() -> bool:
    """Measure; return whether the aims were met."""
    figures: dict[str, object] = {"tick": _ticks()}
    speed = _repeats()
    figures["test2_real_time_factor_two_cores"] = speed
    cost = _cost_of_determinism()
    figures["cost_of_determinism"] = cost
    show(
        "repeats and determinism",
        ["what", "measured", "aim", ""],
        [
            [
                "1000 repeats of Test 2, 50 to a process on two cores, times real time",
                f"{speed:.0f}x",
                f"{SPEED_AIM:.0f}x",
                verdict(met=speed >= SPEED_AIM),
            ],
            [
                "digests and recording against the bare physics loop",
                f"{cost:.2f}x",
                f"{COST_AIM}x",
                verdict(met=cost < COST_AIM),
            ],
        ],
    )
    save("sim", figures)
    return speed >= SPEED_AIM and cost < COST_AIM


def _ticks() -> dict[str, float]:
    """Microseconds per tick of 0.05 s in 5 substeps, vehicles driving in circles and 20 walkers."""
    rows, figures = [], {}
    for vehicles in (2, 40, 200):
        world = crowd(vehicles, 20)
        for _ in range(20):
            world.tick()
        micros = best_s(lambda world=world: [world.tick() for _ in range(40)], 3) / 40 * 1e6
        figures[str(vehicles)] = micros
        rows.append([str(vehicles), "20", f"{micros:.0f} µs", f"{50_000 / micros:.0f}x"])
    show("one tick of 0.05 s, 5 substeps, digest included", ["vehicles", "walkers", "time", "real time"], rows)
    return figures


def crowd(vehicles: int, walkers: int) -> World:
    """A flat world full of moving actors that keep out of each other's way."""
    world = World()
    side = math.ceil(math.sqrt(vehicles + walkers))
    for number in range(vehicles + walkers):
        x_m, y_m = (number % side) * 20.0, (number // side) * 20.0
        if number < vehicles:
            actor = world.spawn("vehicle.tesla.model3", Pose(x_m, y_m, 0.05))
            world.apply(actor, VehicleCommand(throttle=0.2, steer=0.8))
        else:
            actor = world.spawn("walker.pedestrian.0001", Pose(x_m, y_m, 0.9))
            world.apply(actor, WalkerCommand(1.0, 0.0, 0.2))
    return world


def _repeats() -> float:
    """How many times faster than real time 1000 repeats of Test 2 run, 50 to a process on two cores, traces written."""
    plan = make_plan(STUDY, "bench")
    with registry.create("samepath") as simulator:
        simulated_s = conformance.run_once(simulator, "table1-test2").end.tick * 0.05 * plan.repeats
    with tempfile.TemporaryDirectory() as folder:
        start = SYSTEM_CLOCK.monotonic_s()
        run_plan(plan, Path(folder), lambda progress: None)
        return simulated_s / (SYSTEM_CLOCK.monotonic_s() - start)


def _cost_of_determinism() -> float:
    """A recorded, digested run of Test 2 against a loop that only decides and steps physics, alternating."""
    scenario = load_scenario("table1-test2")
    simulator = registry.create("samepath")
    full, bare = [], []
    for _ in range(5):
        full.append(best_s(lambda: conformance.run_once(simulator, "table1-test2"), 1))
        bare.append(best_s(lambda: _bare(scenario), 1))
    return min(full) / min(bare)


def _bare(scenario: object) -> None:
    """The same agents and the same physics, without events, traces or digests of anything."""
    simulation = Simulation(scenario)
    world, physics = simulation.world, simulation.world._physics
    ticks = 348
    for _ in range(ticks):
        for number, command in simulation.decide(simulation.view()).items():
            physics.command(number, command)
        physics.step()
        world._states.advance(physics.states(world._states), world.settings.step_s)
        world.tick_count += 1
        world.time_s += world.settings.step_s


def bare_engine(vehicles: int) -> Physics:
    """Physics alone, for comparison with other engines."""
    physics = Physics(PhysicsSettings())
    physics.add_ground()
    for number in range(1, vehicles + 1):
        physics.add(number, actor_type("vehicle.tesla.model3"), Pose((number % 15) * 20.0, (number // 15) * 20.0, 0.05))
        physics.command(number, VehicleCommand(throttle=0.2, steer=0.8))
    return physics
