"""The cluster: what a lockstep tick costs beyond drawing, how it scales, what balance gains, how fast a dead node is made good.

``python -m bench cluster`` does all, ``python -m bench.cluster scaling kills`` some, as with ``SAMEPATH_BENCH_CLUSTER=kills``;
``profile`` says who waits for what (``cluster_profile``), and runs only when it is named.
Nobody fetches the pictures, and vehicles stand still: see ``cluster_rig``.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.cluster_profile import profile
from bench.cluster_rig import Rig, Tick, pin
from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.simulator.maps import load_map
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, SceneView, pack_requests, unpack_requests
from samepath.simulator.server.streams import MAIN_SERVER

CARS = 40
SMALL, TINY, MIDDLE, LARGE = (180, 120), (16, 16), (360, 240), (720, 480)
OVERHEAD_NODES = (1, 2, 4, 8)
OVERHEAD_CAMERAS = 8
OVERHEAD_MAP, OVERHEAD_CARS = "oval", 24  # with cameras and spectator a state of 4 KB
OVERHEAD_AIM_MS, OVERHEAD_AIM_CROWDED_MS = 1.5, 4.0  # with a core for each process, and without
ROUNDS, ROUND_TICKS = 6, 50
SCALING_CAMERAS = 8  # per core
SCALING_AIMS = {8: 0.9, 64: 0.8}  # up to so many nodes
HANDICAPS = (1.0, 1.0, 3.0, 3.0)
BALANCE_CAMERAS = 24
BALANCE_AIM = 1.5
KILL_NODES, KILL_CAMERAS = 4, 24
KILLS, FREEZES = 6, 3
KILL_AIM_TICKS = 3.0
WARM_UP = 70  # beyond the tick after which costs are measured again


def main() -> bool:
    """Measure what is asked for; return whether the aims were met."""
    chosen = [part for part in os.environ.get("SAMEPATH_BENCH_CLUSTER", "").split(",") if part] or list(ALWAYS)
    return run(chosen)


def run(chosen: Sequence[str]) -> bool:
    """Measure these parts."""
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        sys.exit(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    figures: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "cars": CARS}
    met = [PARTS[part](figures) for part in chosen]
    save("cluster" if list(chosen) == list(ALWAYS) else f"cluster-{'-'.join(chosen)}", figures)
    return all(met)


# -- overhead ------------------------------------------------------------------------------------------------------------


def overhead(figures: dict[str, Any]) -> bool:
    """A tick with nodes, less what the slowest of them drew; beside it the same pictures drawn in this process."""
    rows, found = [], []
    for count in OVERHEAD_NODES:
        with Rig([1.0] * count, map_name=OVERHEAD_MAP) as rig:
            cars = rig.fill(OVERHEAD_CARS)
            state_bytes = 0
            for size in (TINY, SMALL):
                rig.cameras(cars[:OVERHEAD_CAMERAS], *size)
                rig.tick(WARM_UP)
                rounds = [rig.tick(ROUND_TICKS) for _ in range(ROUNDS)]
                state_bytes = len(rig.main.shell.last_state)
                measured = _overhead(count, size, rounds) | {"local_ms": _local_ms(rig)}
                found.append(measured)
                rows.append(
                    [
                        _size(size),
                        str(count),
                        *(
                            f"{measured[name]:.2f}"
                            for name in ("local_ms", "work_ms", "slowest_ms", "overhead_ms", "median_ms", "p99_ms")
                        ),
                    ]
                )
                _clear(rig)
    rows.sort(key=lambda row: (row[0], int(row[1])))
    columns = ["cameras", "nodes", "drawn here", "tick", "slowest node", "beyond it, best", "median", "99 %"]
    show(f"a lockstep tick of {OVERHEAD_CAMERAS} cameras, {OVERHEAD_CARS} cars, ms", columns, rows)
    cores = len(os.sched_getaffinity(0))
    # With fewer cores than processes nodes wait for one another: then only pictures that cost nothing show what a tick costs.
    size, aim_ms = (SMALL, OVERHEAD_AIM_MS) if cores > max(OVERHEAD_NODES) else (TINY, OVERHEAD_AIM_CROWDED_MS)
    eight = next(measured for measured in found if measured["nodes"] == max(OVERHEAD_NODES) and measured["size"] == _size(size))
    met = eight["overhead_ms"] < aim_ms
    print(
        f"{eight['nodes']} nodes on {cores} cores, {eight['size']}, a state of {state_bytes} bytes: "
        f"{eight['overhead_ms']:.2f} ms beyond the slowest node's drawing, aim {aim_ms:g}: {verdict(met=met)}"
    )
    figures["overhead"] = {"ticks": found, "aim_ms": aim_ms, "state_bytes": state_bytes, "judged": _size(size)}
    return bool(met)


def _overhead(count: int, size: tuple[int, int], rounds: Sequence[Sequence[Tick]]) -> dict[str, Any]:
    every = sorted(tick.overhead_s for ticks in rounds for tick in ticks)
    best = min(rounds, key=lambda ticks: statistics.fmean(tick.overhead_s for tick in ticks))
    return {
        "nodes": count,
        "size": _size(size),
        "drawing_nodes": max(len(tick.busy_s) for tick in best),
        "work_ms": 1e3 * statistics.fmean(tick.work_s for tick in best),
        "slowest_ms": 1e3 * statistics.fmean(max(tick.busy_s.values()) for tick in best),
        "overhead_ms": 1e3 * statistics.fmean(tick.overhead_s for tick in best),
        "median_ms": 1e3 * statistics.median(every),
        "p99_ms": 1e3 * every[len(every) * 99 // 100],
    }


def _local_ms(rig: Rig) -> float:
    """The same pictures of the same tick, drawn by a single server."""
    if rig.shown is None:
        raise RuntimeError("a tick was wanted")
    view, orders = rig.shown
    renderer = LocalRenderer()
    renderer.prepare(load_map(OVERHEAD_MAP))
    times = [_timed(lambda: renderer.render(view, orders)) for _ in range(30)]
    renderer.close()
    return 1e3 * min(times)


def _undisturbed(values_s: Sequence[float]) -> tuple[float, float]:
    """The tenth that was least disturbed by other work on the machine takes at most the first; and the median."""
    order = sorted(values_s)
    return order[len(order) // 10], statistics.median(order)


def _timed(work: Callable[[], object]) -> float:
    start_s = SYSTEM_CLOCK.monotonic_s()
    work()
    return SYSTEM_CLOCK.monotonic_s() - start_s


def _clear(rig: Rig) -> None:
    """Take all cameras out."""
    if rig.shown is not None:
        for order in rig.shown[1]:
            rig.caller.value("destroy_actor", order.sensor)


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


# -- scaling -------------------------------------------------------------------------------------------------------------


def scaling(figures: dict[str, Any]) -> bool:
    """As many nodes as cores against one node and its main server on one core; beside it processes that only draw."""
    cores = sorted(os.sched_getaffinity(0))
    cameras = SCALING_CAMERAS * len(cores)
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < len(cores)] + [len(cores)]
    rows, shown = [], None
    found: list[dict[str, Any]] = []
    for count in dict.fromkeys(counts):
        with Rig([1.0] * count) as rig:
            cars = rig.fill(CARS)
            rig.cameras([cars[k % len(cars)] for k in range(cameras)], *LARGE)
            rig.pin(set(cores[:count]), [{core} for core in cores[:count]])
            # Beyond the second tick in which costs are measured, and the next one in which sensors may move.
            rig.tick(8 if count == 1 else WARM_UP + 16)
            per_round = max(3, 40 * count // len(cores))
            rounds = [rig.tick(per_round) for _ in range(4)]
            shown = rig.shown
            passed = rig.main.link.counts.passed_bytes
            away = _away(rig)
        pin(os.getpid(), set(cores))
        work_s, median_s = _undisturbed([tick.work_s for ticks in rounds for tick in ticks])
        found.append(
            {
                "nodes": count,
                "work_ms": 1e3 * work_s,
                "work_median_ms": 1e3 * median_s,
                "images_per_s": cameras / work_s,
                "cameras_drawn_elsewhere": away,
                "bytes_from_node_to_node": passed,
            }
        )
    if shown is None:
        raise RuntimeError("a tick was wanted")
    alone = found[0]["images_per_s"]
    drawing = _drawing_alone(shown, cores, [point["nodes"] for point in found])
    for point in found:
        point["efficiency"] = point["images_per_s"] / point["nodes"] / alone
        point["drawing_efficiency"] = drawing[point["nodes"]] / point["nodes"] / drawing[1]
        words = (
            f"{point['work_ms']:.1f}",
            f"{point['images_per_s']:.0f}",
            f"{point['efficiency']:.2f}",
            f"{point['drawing_efficiency']:.2f}",
            str(point["cameras_drawn_elsewhere"]),
        )
        rows.append([str(point["nodes"]), *words])
    columns = ["nodes = cores", "tick, ms", "images/s", "efficiency", "processes that only draw", "cameras drawn elsewhere"]
    show(f"scaling: {cameras} cameras of {_size(LARGE)}, everything on so many cores", columns, rows)
    met = True
    for point in found[1:]:
        aim = next(aim for most, aim in SCALING_AIMS.items() if point["nodes"] <= most)
        met &= point["efficiency"] >= aim
        print(
            f"{point['nodes']} nodes on {point['nodes']} cores: efficiency {point['efficiency']:.2f}, "
            f"aim {aim:g}: {verdict(met=point['efficiency'] >= aim)}; "
            f"processes that only draw reach {point['drawing_efficiency']:.2f} on this machine"
        )
    aims = {str(most): aim for most, aim in SCALING_AIMS.items()}
    figures["scaling"] = {"cameras": cameras, "size": _size(LARGE), "nodes": found, "aims_up_to_nodes": aims}
    return bool(met)


def _away(rig: Rig) -> int:
    """How many cameras are drawn at another node than the one that listens to them."""
    if rig.shown is None:
        return 0
    where, listened = rig.main.shell.state.balance.where, rig.main.episode.connections.subscriptions
    return sum(listened.homes(request.stream) != (where.get(request.sensor),) for request in rig.shown[1])


def _drawing_alone(
    shown: tuple[SceneView, tuple[RenderRequest, ...]], cores: Sequence[int], counts: Sequence[int]
) -> dict[int, float]:
    """Images a second of so many processes that draw the same pictures, each on a core of its own, without any cluster."""
    view, orders = shown
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "view").write_bytes(view.pack())
        Path(folder, "orders").write_bytes(pack_requests(orders[:SCALING_CAMERAS])[0])
        for count in counts:
            command = [sys.executable, "-m", "bench.cluster", "draw", folder]
            workers = [
                subprocess.Popen([*command, str(core)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for core in cores[:count]
            ]
            for worker in workers:
                _line(worker)  # it is ready
            for worker in workers:
                if worker.stdin is not None:
                    worker.stdin.write("go\n")
                    worker.stdin.flush()
            rates[count] = sum(float(_line(worker)) for worker in workers)
            for worker in workers:
                worker.communicate()
    return rates


def _line(worker: "subprocess.Popen[str]") -> str:
    return worker.stdout.readline() if worker.stdout is not None else ""


def _draw(folder: str, core: int) -> None:
    """Draw on one core for two seconds; print images a second in the best quarter of a second."""
    pin(os.getpid(), {core})
    view, orders = SceneView.unpack(Path(folder, "view").read_bytes()), unpack_requests(Path(folder, "orders").read_bytes())
    renderer = LocalRenderer()
    renderer.prepare(load_map("town"))
    for _ in range(3):
        renderer.render(view, orders)
    print("ready", flush=True)
    sys.stdin.readline()
    end_s, times = SYSTEM_CLOCK.monotonic_s() + 3.0, []
    while SYSTEM_CLOCK.monotonic_s() < end_s:
        times.append(_timed(lambda: renderer.render(view, orders)))
    print(len(orders) / _undisturbed(times)[0], flush=True)
    renderer.close()


# -- balance -------------------------------------------------------------------------------------------------------------


def balance(figures: dict[str, Any]) -> bool:
    """Two fast and two slow nodes: sensors shared out by measured cost against by turns."""
    rates: dict[str, dict[str, Any]] = {}
    for policy in ("round-robin", "measured"):
        with Rig(HANDICAPS, policy=policy) as rig:
            cars = rig.fill(CARS)
            rig.cameras(cars[:BALANCE_CAMERAS], *MIDDLE)
            rig.tick(WARM_UP)
            rounds = [rig.tick(25) for _ in range(4)]
            placed = list(rig.main.shell.state.balance.where.values())
            shares = [placed.count(member.number) for member in rig.members()]
        work_s, _ = _undisturbed([tick.work_s for ticks in rounds for tick in ticks])
        rates[policy] = {"images_per_s": BALANCE_CAMERAS / work_s, "work_ms": 1e3 * work_s, "cameras_by_node": shares}
    gain = rates["measured"]["images_per_s"] / rates["round-robin"]["images_per_s"]
    met = gain >= BALANCE_AIM
    rows = [
        [name, f"{measured['work_ms']:.1f}", f"{measured['images_per_s']:.0f}", " ".join(map(str, measured["cameras_by_node"]))]
        for name, measured in rates.items()
    ]
    words = ", ".join(f"{handicap:g}" for handicap in HANDICAPS)
    show(
        f"{BALANCE_CAMERAS} cameras of {_size(MIDDLE)}, four nodes slowed down by {words}",
        ["shared out", "tick, ms", "images/s", "cameras by node"],
        rows,
    )
    print(f"measured against by turns: {gain:.2f} times, aim {BALANCE_AIM:g}: {verdict(met=met)}")
    figures["balance"] = {"handicaps": HANDICAPS, "size": _size(MIDDLE), **rates, "gain": gain, "aim": BALANCE_AIM}
    return bool(met)


# -- kills ---------------------------------------------------------------------------------------------------------------


def kills(figures: dict[str, Any]) -> bool:
    """A node is killed, or frozen, in the middle of a tick: how long until all frames of that tick exist, in ticks."""
    chance = stream(1, "bench", "cluster kills")
    found: dict[str, list[float]] = {"kill -9": [], "SIGSTOP": []}
    tick_ms = []
    with Rig([1.0] * KILL_NODES) as rig:
        cars = rig.fill(CARS)
        rig.cameras(cars[:KILL_CAMERAS], *MIDDLE, homes=(MAIN_SERVER,))  # a node's own clients would go with it
        rig.tick(WARM_UP)
        for number in range(KILLS + FREEZES):
            sign = signal.SIGKILL if number < KILLS else signal.SIGSTOP
            rig.wait_for(KILL_NODES)
            usual_s = statistics.median(tick.work_s for tick in rig.tick(20))
            tick_ms.append(1e3 * usual_s)
            members = rig.members()
            victim = members[number % len(members)]
            took_s = _struck(rig, victim.hello.pid, sign, float(chance.uniform(0.05, 0.6)) * usual_s)
            found["kill -9" if sign == signal.SIGKILL else "SIGSTOP"].append(took_s / usual_s)
            rig.tick(3)
            if sign == signal.SIGSTOP:
                _end(victim.hello.pid)
        numbers = rig.main.counters
        lost = {"reissued": numbers.reissued, "doubled": numbers.duplicates, "desynchronised": numbers.desynchronised}
        all_made = all(tick.end_s > 0.0 for tick in rig.ticks)
    rows = [
        [name, str(len(values)), f"{statistics.median(values):.2f}", f"{max(values):.2f}"] for name, values in found.items()
    ]
    show(
        f"from a blow to all {KILL_CAMERAS} frames of that tick, in usual ticks of {statistics.median(tick_ms):.0f} ms",
        ["blow", "times", "median", "worst"],
        rows,
    )
    worst = max(found["kill -9"])
    met = worst < KILL_AIM_TICKS and all_made
    print(
        f"worst of {KILLS} kills: {worst:.2f} ticks, aim {KILL_AIM_TICKS:g}: {verdict(met=met)}; "
        "a frozen node is found by its deadline"
    )
    figures["kills"] = {"ticks": found, "tick_ms": tick_ms, **lost, "aim_ticks": KILL_AIM_TICKS}
    return bool(met)


def _struck(rig: Rig, pid: int, sign: signal.Signals, after_s: float) -> float:
    """Strike a process so long after a tick's work has begun; returns the time from there to the tick's end."""
    struck: list[float] = []

    def strike() -> None:
        SYSTEM_CLOCK.sleep_s(after_s)
        struck.append(SYSTEM_CLOCK.monotonic_s())
        os.kill(pid, sign)

    def begin() -> None:
        rig.began = lambda: None
        threading.Thread(target=strike, daemon=True).start()

    rig.began = begin
    (tick,) = rig.tick()
    return max(tick.end_s - struck[0], 0.0) if struck else 0.0


def _end(pid: int) -> None:
    """End a frozen process that has not been ended yet."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


PARTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "overhead": overhead,
    "scaling": scaling,
    "balance": balance,
    "kills": kills,
    "profile": profile,
}
ALWAYS = ("overhead", "scaling", "balance", "kills")  # the profile only when it is named

if __name__ == "__main__":
    if sys.argv[1:2] == ["draw"]:
        _draw(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(0 if run(sys.argv[1:] or list(ALWAYS)) else 1)
