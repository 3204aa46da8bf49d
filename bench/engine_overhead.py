"""What an adapter costs: a step of an engine through samepath, recorded, against the same engine driven directly.

Both make the same steps under the same drivers; direct reads where everybody is after each tick and keeps it, and no more.
Starting and ending cancel out: each way is timed over a short run and a long one, and the difference is divided by the steps
between them. Time is that of processors, all processes of a run counted: on a machine with others the wall clock tells more of
these. They still slow a processor down, so that direct and adapter take turns, in an order that turns round each time, and each
round is a pair: told is the median of the pairs' ratios, with the interval that holds the true median in 95 of 100 cases,
whatever the noise is distributed like.
"""

import gc
import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.tools import save, show, verdict
from samepath.engines.conformance import run_request
from samepath.engines.in_process import InProcessSimulator
from samepath.engines.interface import RunRequest, Simulator
from samepath.scenarios.scripts import Script

AIM = 0.10
SCENARIO = "table1-test2"
SHORT_S, LONG_S = 1.0, 16.0
ROUNDS = 25
# In 95 of 100 cases the true median of 25 lies between the 8th and the 18th of them.
LOW, HIGH = 7, 17


@dataclass(frozen=True)
class Ways:
    """Two ways to run an engine for so many simulated seconds; ``steps_per_s`` is the engine's own.

    Where a run is short, ``times`` of them are one measurement.
    """

    direct: Callable[[float], object]
    adapter: Callable[[float], object]
    steps_per_s: float
    times: int = 1


@dataclass(frozen=True)
class Cost:
    """A step's time each way, medians, and what the adapter adds: the median of all rounds and where it truly is."""

    direct_us: float
    adapter_us: float
    share: float
    between: tuple[float, float]


def main() -> bool:
    """Measure every engine that is installed; an adapter's step may take 10 % more than the engine's own."""
    rows, figures, met = [], {}, True
    for name, ways_of in ENGINES.items():
        try:
            ways = ways_of()
        except LookupError as error:
            rows.append([name, str(error.args[0]), "", "", ""])
            continue
        cost = _cost(ways)
        met &= cost.share < AIM
        figures[name] = {
            "direct_us": cost.direct_us,
            "adapter_us": cost.adapter_us,
            "overhead_ratio": cost.share,
            "overhead_ratio_between": cost.between,
        }
        between = " to ".join(f"{ratio:+.1%}" for ratio in cost.between)
        share = f"{cost.share:+.1%} ({between})"
        rows.append([name, f"{cost.direct_us:.1f} µs", f"{cost.adapter_us:.1f} µs", share, verdict(met=cost.share < AIM)])
    show(f"{SCENARIO}, one step of the engine", ["engine", "direct", "adapter", "overhead", f"aim: {AIM:.0%}"], rows)
    save("engine_overhead", figures)
    return met


def _cost(ways: Ways) -> Cost:
    """Measure both ways in turn."""
    runs = {"direct": ways.direct, "adapter": ways.adapter}
    taken_s: dict[tuple[str, float], list[float]] = {}
    for number in range(ROUNDS + 1):
        for way in sorted(runs, reverse=number % 2 == 0):
            for duration_s in (SHORT_S, LONG_S):
                seconds = _processor_s(lambda way=way, duration_s=duration_s: runs[way](duration_s), ways.times)
                if number > 0:  # the first of all loads what later ones find
                    taken_s.setdefault((way, duration_s), []).append(seconds)
    steps = (LONG_S - SHORT_S) * ways.steps_per_s * ways.times
    step_us = {
        way: [(seconds - median(taken_s[way, SHORT_S])) / steps * 1e6 for seconds in taken_s[way, LONG_S]] for way in runs
    }
    shares = sorted(adapter / direct - 1 for direct, adapter in zip(step_us["direct"], step_us["adapter"], strict=True))
    return Cost(median(step_us["direct"]), median(step_us["adapter"]), median(shares), (shares[LOW], shares[HIGH]))


def _processor_s(work: Callable[[], object], times: int) -> float:
    """Return the processor time of this process and of those that it has started and seen end."""

    def used_s() -> float:
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    gc.collect()
    before_s = used_s()
    for _ in range(times):
        work()
    return used_s() - before_s


def _project(
    simulator: Simulator,
    told: Callable[[Script, int], str],
    command: Callable[[Path], list[str]],
    environment: Callable[[Path], Mapping[str, str]],
    steps_per_s: float,
) -> Ways:
    """A project of ours inside an engine, in synchronous mode: started, its lines read and kept, and through the adapter.

    A step takes so little that ten times as many are needed: the scenario goes on when everybody has arrived.
    """
    from samepath.scenarios.model import built_in_scenarios
    from samepath.scenarios.scripts import read_script

    scratch = tempfile.TemporaryDirectory(prefix="samepath-bench-")
    run, scenario, times = Path(scratch.name) / "run.json", Path(scratch.name) / "long.yaml", 10
    text = built_in_scenarios()[SCENARIO].replace("end: last-waypoint", "end: duration")
    scenario.write_text(text.replace("duration: 20 s", f"duration: {2 * times * LONG_S} s"), "utf-8")
    script = read_script(str(scenario))
    tick_s = simulator.info().step_s

    def direct(duration_s: float) -> list[bytes]:
        assert scratch.name  # lives as long as this function
        run.write_text(told(script, round(times * duration_s / tick_s)), "utf-8")
        around = {**os.environ, **environment(run)}
        return subprocess.run(command(run), env=around, capture_output=True, check=True).stdout.splitlines()

    def adapter(duration_s: float) -> None:
        made = run_request(simulator, RunRequest(str(scenario), 0, duration_s=times * duration_s)).end.tick
        assert made == round(times * duration_s / tick_s)  # as many as direct

    return Ways(direct, adapter, times * steps_per_s)


def _installed(simulator: Simulator) -> Simulator:
    reason = simulator.unavailable({})
    if reason:
        raise LookupError(reason)
    return simulator


def _godot() -> Ways:
    from samepath.engines.godot import Godot
    from samepath.engines.godot.engine import arguments, environment, find_godot, run_json
    from samepath.engines.godot.simulator import SETTINGS, STEPS_PER_S, read_settings

    simulator, settings = _installed(Godot()), read_settings(SETTINGS)
    command = arguments(find_godot(""), settings)
    return _project(
        simulator, lambda script, ticks: run_json(script, settings, ticks), lambda run: command, environment, STEPS_PER_S
    )


def _babylon() -> Ways:
    from samepath.engines.babylon import Babylon
    from samepath.engines.babylon.engine import ENVIRONMENT, arguments, run_json
    from samepath.engines.babylon.simulator import SETTINGS, STEPS_PER_S, read_settings

    simulator, settings = _installed(Babylon()), read_settings(SETTINGS)
    return _project(
        simulator,
        lambda script, ticks: run_json(script, settings, ticks),
        lambda run: arguments(settings, run),
        lambda run: ENVIRONMENT,
        STEPS_PER_S,
    )


def _metadrive() -> Ways:
    from samepath.engines.metadrive import MetaDrive
    from samepath.engines.metadrive.engine import ENVIRONMENT, arguments, run_json
    from samepath.engines.metadrive.simulator import SETTINGS, STEP_S, read_settings

    simulator, settings = _installed(MetaDrive()), read_settings(SETTINGS)
    return _project(
        simulator,
        lambda script, ticks: run_json(script, settings, ticks),
        lambda run: arguments(settings, run),
        lambda run: ENVIRONMENT,
        1 / STEP_S,
    )


def _torcs() -> Ways:
    """TORCS alone, of which nothing is read, and through the adapter: a race of one lap, and one of eight."""
    from samepath.engines.torcs import Torcs
    from samepath.engines.torcs.engine import installation, prepare
    from samepath.engines.torcs.simulator import SETTINGS, STEP_S, read_settings

    simulator, parts = _installed(Torcs()), installation("")
    drivers, laps = "inferno 1, tita 2", {SHORT_S: 1, LONG_S: 8}  # who do not touch each other for so long

    def direct(duration_s: float) -> None:
        with tempfile.TemporaryDirectory(prefix="samepath-bench-") as folder:
            scratch = Path(folder)
            command = prepare(scratch, parts, read_settings({**SETTINGS, "laps": laps[duration_s], "drivers": drivers}))
            race = scratch / "own" / "config" / "raceengine.xml"
            race.write_bytes(race.read_bytes().replace(b'"telling"', b'"simuv2"'))  # without our module
            (scratch / "libraries" / "modules" / "simu" / "simuv2.so").symlink_to(parts.physics)
            around = {**os.environ, "HOME": folder, "LD_LIBRARY_PATH": str(parts.libraries / "lib")}
            subprocess.run(command, cwd=parts.data, env=around, capture_output=True, check=True)

    def adapter(duration_s: float) -> float:
        asked = RunRequest("two-car-race", 0, settings={"laps": laps[duration_s], "drivers": drivers})
        return run_request(simulator, asked).end.tick * simulator.info().step_s

    steps = (adapter(LONG_S) - adapter(SHORT_S)) / STEP_S
    return Ways(direct, adapter, steps / (LONG_S - SHORT_S))


def _played(simulator: InProcessSimulator, log_of: Callable[[Any], Callable[[], object]]) -> Ways:
    """An engine in this process: the same scene and drivers, stepped and read with the engine's own words, and the adapter.

    ``log_of`` takes a scene and returns what makes the steps of a tick and reads where the cars are.
    """
    from samepath.engines.in_process import SETTLE_TICKS, TICK_S, read_settings
    from samepath.engines.interface import SYNCHRONOUS
    from samepath.scenarios.scripts import STANDING, controller_of, read_script, scripted_chassis

    reason = simulator.unavailable({})
    if reason:
        raise LookupError(reason)
    values = simulator.info().settings
    settings, script = read_settings(values, (SYNCHRONOUS,)), read_script(SCENARIO)

    def direct(duration_s: float) -> list[object]:
        world = simulator.world(script, settings, values)
        go_on = log_of(world)
        minds = [(role.number, controller_of(role, scripted_chassis, TICK_S)) for role in script.roles]
        for role in script.roles:
            world.command(role.number, STANDING)
        for _ in range(SETTLE_TICKS):
            go_on()
        log = []
        for tick in range(round(duration_s / TICK_S)):
            for number, mind in minds:
                world.command(number, mind.decide(world.observe(number), tick * TICK_S))
            log.append(go_on())
        return log

    def adapter(duration_s: float) -> None:
        made = run_request(simulator, RunRequest(SCENARIO, 0, duration_s=duration_s)).end.tick
        assert made == round(duration_s / TICK_S)  # as many as direct

    return Ways(direct, adapter, settings.substeps / TICK_S, times=3)


def _panda3d() -> Ways:
    """Panda3D: no callbacks, and nodes instead of wheels are read; transforms are swept up, as in every game."""
    from samepath.engines.panda3d import Panda3D

    def log_of(world: Any) -> Callable[[], object]:  # noqa: ANN401 - its engine has no types
        from panda3d.core import TransformState

        world.close()
        bullet_world, nodes, step_s, count = world._world, [car._node for car in world._cars.values()], 1 / 120, 6

        def go_on() -> object:
            for _ in range(count):
                bullet_world.doPhysics(step_s, 1, step_s)
            TransformState.garbageCollect()
            return [(node.getPos(), node.getHpr(), node.node().getLinearVelocity()) for node in nodes]

        return go_on

    return _played(Panda3D(), log_of)


def _pymunk() -> Ways:
    """pymunk: no callbacks; a car's forces are part of driving it."""
    from samepath.engines.pymunk import Pymunk

    def log_of(world: Any) -> Callable[[], object]:  # noqa: ANN401
        space, cars, step_s, count = world._space, list(world._cars.values()), 1 / 120, 6
        space.on_collision(1, 1)
        bodies = [car.body for car in cars]

        def go_on() -> object:
            for _ in range(count):
                for car in cars:
                    car.act()
                space.step(step_s)
            return [(body.position, body.angle, body.velocity) for body in bodies]

        return go_on

    return _played(Pymunk(), log_of)


def _mujoco() -> Ways:
    """MuJoCo: nobody looks for contacts."""
    from samepath.engines.mujoco import MuJoCo

    def log_of(world: Any) -> Callable[[], object]:  # noqa: ANN401
        from mujoco import mj_step

        model, data, count = world._model, world._data, 10

        def go_on() -> object:
            for _ in range(count):
                mj_step(model, data)
            return data.qpos.copy(), data.qvel.copy()

        return go_on

    return _played(MuJoCo(), log_of)


def _sumo() -> Ways:
    """SUMO: nobody asks for collisions; telling speeds is part of driving it."""
    from samepath.engines.sumo import Sumo

    def log_of(world: Any) -> Callable[[], object]:  # noqa: ANN401
        import libsumo

        cars, step_s = list(world._cars.values()), 1 / 20

        def go_on() -> object:
            for car in cars:
                car.act(step_s)
            libsumo.simulationStep()
            world._seen.clear()
            return [world.observe(number) for number in world._cars]  # which its driver need not read again

        return go_on

    # There everybody has arrived after 15.9 s.
    ways, most_s = _played(Sumo(), log_of), LONG_S - 1
    return replace(
        ways,
        direct=lambda duration_s: ways.direct(min(duration_s, most_s)),
        adapter=lambda duration_s: ways.adapter(min(duration_s, most_s)),
        steps_per_s=ways.steps_per_s * (most_s - SHORT_S) / (LONG_S - SHORT_S),
    )


def _gymnasium() -> Ways:
    """highway-env: the same vehicles on the same road."""
    from samepath.engines.gymnasium import Gymnasium

    def log_of(world: Any) -> Callable[[], object]:  # noqa: ANN401
        cars, road, step_s = list(world._cars.values()), world._road, 1 / 20

        def go_on() -> object:
            for car in cars:
                car.obey(step_s)
            road.step(step_s)
            return [(car.position.copy(), car.heading, car.velocity) for car in cars]

        return go_on

    return _played(Gymnasium(), log_of)


ENGINES: Mapping[str, Callable[[], Ways]] = {
    "babylon": _babylon,
    "godot": _godot,
    "panda3d": _panda3d,
    "pymunk": _pymunk,
    "mujoco": _mujoco,
    "sumo": _sumo,
    "gymnasium": _gymnasium,
    "metadrive": _metadrive,
    "torcs": _torcs,
}
