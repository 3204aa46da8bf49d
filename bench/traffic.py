"""Traffic of our own: a full town for ten simulated minutes, in fresh processes, idle and under load: one outcome, no jam.

200 cars and 100 walkers in ``town`` by default. The first process is alone, and its processor time per tick says how fast one
core is; the others run beside each other, the last quarter of them while the machine is kept at 95 %. All must give the same
digest after every simulated minute. Then a main server with one node and one with four serve the same town for a minute, with
cameras: again one outcome. On two cores the whole takes about an hour and a half;
``SAMEPATH_BENCH_TRAFFIC_S`` (simulated seconds) and ``SAMEPATH_BENCH_TRAFFIC_RUNS`` (processes) make it shorter, and the result
says which they were. ``SAMEPATH_BENCH_TRAFFIC_KEEP`` names a folder that keeps every process's result: a benchmark that was
interrupted goes on from there, as long as the code is the same. ``python -m bench.traffic picture`` draws the picture of
docs/traffic.md.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.tools import ROOT, code_measured, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.conditions.machine import MachineLoads
from samepath.scenarios.model import build_scenario
from samepath.simulator.simulation import Simulation, SimulationSettings
from samepath.simulator.traffic.traffic import Traffic, TrafficSettings

SECONDS = int(os.environ.get("SAMEPATH_BENCH_TRAFFIC_S", "600"))
RUNS = int(os.environ.get("SAMEPATH_BENCH_TRAFFIC_RUNS", "20"))
VEHICLES, WALKERS, SEED = 200, 100, 1
PICTURE_S = 30
STEP_S = 0.05
LOAD = 0.95
NODES = (1, 4)
NODES_S = min(SECONDS, 60)
CAMERAS = 4
# Somebody who has not moved for so long is stuck; a light shows red for at most 50 s, and may be reached more than once.
STUCK_S = 300.0
MOVING_MPS = 0.5


@dataclass
class TrafficRun:
    """What one process saw."""

    digests: list[str] = field(default_factory=list)
    """After every simulated minute, and at the end."""
    touched: int = 0
    off_road: int = 0
    mean_mps: list[float] = field(default_factory=list)
    """Of all cars, over every simulated minute."""
    stood_s: float = 0.0
    """The longest that anybody, car or walker, stood in one place."""
    driven_km: float = 0.0
    junctions: int = 0
    """How often a car got leave to pass a gate."""
    process_s: float = 0.0
    wall_s: float = 0.0


def town(seconds: int, vehicles: int, walkers: int, seed: int) -> tuple[Simulation, Traffic]:
    """A town with so much traffic, before its first tick."""
    traffic = {"vehicles": vehicles, "walkers": walkers}
    data = {"name": "bench", "map": "town", "duration": float(seconds), "end": "duration", "traffic": traffic}
    simulation = Simulation(build_scenario(data, "bench"), SimulationSettings(seed=seed))
    if simulation.traffic is None:
        raise RuntimeError("there is no traffic")
    return simulation, simulation.traffic


def play(seconds: int, vehicles: int, walkers: int, seed: int) -> TrafficRun:
    """Play it, in this process."""
    simulation, traffic = town(seconds, vehicles, walkers, seed)
    drivers, found, minute_m = traffic.drivers, TrafficRun(), 0.0
    seen: dict[int, tuple[float, float, int]] = {}
    leaves: dict[int, int] = {}
    start_s, wall_s = os.times(), SYSTEM_CLOCK.monotonic_s()
    for tick in range(1, round(seconds / STEP_S) + 1):
        found.touched += len(simulation.step().collisions)
        for car in drivers.cars.values():
            minute_m += abs(car.speed_mps) * STEP_S
            found.junctions += car.gate >= 0 and leaves.get(car.id, -1) != car.gate
            leaves[car.id] = car.gate
        if tick % 20 == 0:
            for number, state in simulation.world.states().items():
                x_m, y_m, since = seen.get(number, (1e9, 1e9, tick))
                if abs(state.pose.x_m - x_m) + abs(state.pose.y_m - y_m) > MOVING_MPS:
                    seen[number] = (state.pose.x_m, state.pose.y_m, tick)
                else:
                    found.stood_s = max(found.stood_s, (tick - since) * STEP_S)
        if tick % 1200 == 0 or tick == round(seconds / STEP_S):
            found.digests.append(simulation.world.digest)
            found.mean_mps.append(minute_m / vehicles / ((tick - 1) % 1200 + 1) / STEP_S)
            found.driven_km += minute_m / 1000.0
            minute_m = 0.0
            found.off_road += sum(not drivers.net.lanes_at(car.x_m, car.y_m, 2.5) for car in drivers.cars.values())
            print(json.dumps({"minute": len(found.digests), "touched": found.touched}), file=sys.stderr, flush=True)
    end_s = os.times()
    found.process_s = end_s.user + end_s.system - start_s.user - start_s.system
    found.wall_s = SYSTEM_CLOCK.monotonic_s() - wall_s
    return found


def on_nodes(nodes: int) -> dict[str, Any]:
    """Serve it with so many nodes; what the world came to, and how many of the nodes' digests of a state differed."""
    from bench.cluster_rig import Rig

    wanted = TrafficSettings(vehicles=VEHICLES, walkers=WALKERS, seed=SEED)
    with Rig([1.0] * nodes, traffic=wanted) as rig:
        rig.tick()  # the traffic comes with it
        episode = rig.main.episode
        cars = [actor.id for actor in episode.world.actors if actor.type.startswith("vehicle.")]
        rig.cameras(cars[:CAMERAS], 180, 120)
        rig.tick(round(NODES_S / STEP_S))
        status = rig.main.look()
        return {
            "nodes": nodes,
            "actors": len(episode.world.actors),
            "digest": episode.world.digest,
            "compared": status.compared,
            "desynchronised": status.desynchronised,
            "frames": status.frames,
        }


def fresh(number: int) -> TrafficRun:
    """The same in a process of its own, under another hash seed each."""
    return TrafficRun(**_asked(f"run-{number}-{SECONDS}", ["one"], str(number)))


def _asked(name: str, words: list[str], hash_seed: str = "random") -> dict[str, Any]:
    """What a fresh process says, or has said before."""
    folder = os.environ.get("SAMEPATH_BENCH_TRAFFIC_KEEP")
    kept = Path(folder) / f"{name}-{code_measured()['digest']}.json" if folder else None
    if kept is not None and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return found
    command = [sys.executable, "-m", "bench.traffic", *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def main() -> bool:
    """Run all of them and compare."""
    alone = fresh(0)
    loaded = RUNS // 4
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        beside = list(pool.map(fresh, range(1, RUNS - loaded)))
    busy: list[TrafficRun] = []
    measured = 0.0
    if loaded:
        with MachineLoads() as loads:
            loads.hold({"cpu_load": LOAD})
            loads.mark()
            busy = [fresh(number) for number in range(RUNS - loaded, RUNS)]
            measured = float(loads.measured()["cpu_load"])
    runs = [alone, *beside, *busy]
    served = [_asked(f"nodes-{nodes}-{NODES_S}", ["nodes", str(nodes)]) for nodes in NODES]
    ticks = round(SECONDS / STEP_S)
    same = len({run["digest"] for run in served}) == 1 and all(run["desynchronised"] == 0 < run["compared"] for run in served)
    outcomes = len({tuple(run.digests) for run in runs})
    ratio = SECONDS / alone.process_s
    aims = [
        ("no two touch", str(max(run.touched for run in runs)), all(run.touched == 0 for run in runs)),
        ("nobody is off the road", str(max(run.off_road for run in runs)), all(run.off_road == 0 for run in runs)),
        (f"nobody stands for {STUCK_S:g} s", f"{alone.stood_s:g} s at most", alone.stood_s < STUCK_S),
        ("one outcome", f"{outcomes} of {len(runs)} processes", outcomes == 1),
        (f"{' and '.join(map(str, NODES))} nodes: one outcome", f"{NODES_S} simulated s", same),
        ("faster than real time on one core", f"{ratio:.2f} x", ratio > 1.0),
    ]
    title = f"{VEHICLES} cars, {WALKERS} walkers, {SECONDS} simulated s, {len(runs)} fresh processes"
    show(title, ["aim", "measured", ""], [[name, value, verdict(met=met)] for name, value, met in aims])
    speeds = " ".join(f"{speed:.2f}" for speed in alone.mean_mps)
    print(f"mean speed of all cars, minute by minute (m/s): {speeds}")
    print(f"{alone.driven_km:.1f} km, {alone.junctions} passages, {1000 * alone.process_s / ticks:.1f} ms of one core a tick")
    figures: dict[str, object] = {
        "vehicles": VEHICLES,
        "walkers": WALKERS,
        "seconds": SECONDS,
        "processes": len(runs),
        "under_load": loaded,
        "cpu_load": measured,
        "outcomes": outcomes,
        "real_time_ratio": ratio,
        "ms_per_tick": 1000 * alone.process_s / ticks,
        "alone": asdict(alone),
        "process_s": [run.process_s for run in runs],
        "served": served,
    }
    save("traffic", figures)
    return all(met for _, _, met in aims)


def picture() -> None:
    """Draw docs/traffic.png: the middle of the town from above, after half a minute."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Polygon, Rectangle

    from samepath.simulator.maps import load_map

    simulation, traffic = town(PICTURE_S, VEHICLES, WALKERS, SEED)
    for _ in range(round(PICTURE_S / STEP_S)):
        simulation.step()
    road_map, states = load_map("town"), simulation.world.states()
    figure, axes = plt.subplots(figsize=(9.0, 10.6), dpi=110)
    for rings, colour in (
        (road_map.walkable, "#d9d5cc"), (road_map.drivable, "#6f747b"), (road_map.crosswalks, "#c9c9c4"),
    ):  # fmt: skip
        for ring in rings:
            axes.add_patch(Polygon(ring.vertices[:, :2], closed=True, facecolor=colour, edgecolor="none"))
    speeds = mpl.colormaps["RdYlGn"]
    for car in traffic.drivers.cars.values():
        long_m, wide_m, yaw_deg = car.kind.length_m, car.kind.width_m, states[car.id].pose.yaw_deg
        box = Rectangle(
            (car.x_m - long_m / 2, car.y_m - wide_m / 2), long_m, wide_m, angle=yaw_deg, rotation_point="center",
            facecolor=speeds(min(1.0, car.speed_mps / 10.0)), edgecolor="black", linewidth=0.4, zorder=3,
        )  # fmt: skip
        axes.add_patch(box)
    people = [states[number].pose for number in traffic.pedestrians.people]
    axes.scatter([p.x_m for p in people], [p.y_m for p in people], s=7, c="#1f4fbf", edgecolors="none", zorder=4)
    shown = simulation.signals.shown() if simulation.signals is not None else ()
    colours = {0: "red", 1: "gold", 2: "limegreen"}
    for light, state in zip(traffic.net.plan.lights, shown, strict=True):
        for stop in light.stops:
            axes.plot(
                [stop.x_m - stop.half_width_m * stop.forward_y, stop.x_m + stop.half_width_m * stop.forward_y],
                [stop.y_m + stop.half_width_m * stop.forward_x, stop.y_m - stop.half_width_m * stop.forward_x],
                color=colours.get(int(state), "grey"), linewidth=2.2, zorder=3,
            )  # fmt: skip
    west, north, east, south = road_map.bounds_m
    axes.set(xlim=(west + 25, east - 25), ylim=(south - 25, north + 25), aspect="equal")
    axes.axis("off")
    figure.savefig(ROOT / "docs" / "traffic.png", bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    if sys.argv[1:] == ["picture"]:
        picture()
    elif sys.argv[1:2] == ["nodes"]:
        print(json.dumps(on_nodes(int(sys.argv[2]))))
    elif sys.argv[1:] == ["one"]:
        print(json.dumps(asdict(play(SECONDS, VEHICLES, WALKERS, SEED))))
    else:
        sys.exit(0 if main() else 1)
