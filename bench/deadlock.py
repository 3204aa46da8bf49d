"""Ticks with a synchronous traffic manager of CARLA's client, which can lose a wake-up of its own and then waits for ever.

A process ticks, this one watches: no tick for ``HUNG_S`` is a hang; that process is ended, and a new one goes on with what is
left. After a tick that took longer than ``WOKEN_S`` the server had to wake the traffic manager. SAMEPATH_BENCH_DEADLOCK_TICKS
says how many ticks, SAMEPATH_BENCH_DEADLOCK_VEHICLES (such as ``0,10``) with how many vehicles on autopilot.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.server import serving
from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK

TICKS = int(os.environ.get("SAMEPATH_BENCH_DEADLOCK_TICKS", "20000"))
VEHICLES = tuple(map(int, os.environ.get("SAMEPATH_BENCH_DEADLOCK_VEHICLES", "0,1,10,100").split(",")))
HUNG_S = 30.0
WOKEN_S = 2.0
LOOK_S = 0.25


def main() -> bool:
    """Tick; return whether nothing hung."""
    if importlib.util.find_spec("carla") is None:
        print("deadlock: CARLA's client is not installed; nothing was measured")
        return True
    figures, rows = {}, []
    for count in VEHICLES:
        found = figures[str(count)] = _soak(count)
        shown = ", ".join(f"{ticks:,}" for ticks in found["ticks_until_hang"])
        whole = not found["ticks_until_hang"]
        rates = [f"{found['ticks']:,}", f"{found['ticks_per_s']:,.0f}", str(found["woken"])]
        rows.append([str(count), *rates, shown, verdict(met=whole)])
        columns = ["vehicles", "ticks", "per s", "woken", "hung after", "aim: never"]
        show("ticks with a synchronous traffic manager", columns, rows)
        save("deadlock", figures)
    return not any(found["ticks_until_hang"] for found in figures.values())


def _soak(vehicles: int) -> dict[str, object]:
    """Tick with so many vehicles, after a hang with a new client and a new server."""
    done, hangs, woken, busy_s = 0, [], 0, 0.0
    while done < TICKS:
        with serving("town", apart=False) as port:
            ticks, late, took_s = _watch(port, vehicles, TICKS - done)
        done, woken, busy_s = done + ticks, woken + late, busy_s + took_s
        if done < TICKS:
            hangs.append(ticks)
            print(f"{vehicles} vehicles: hung after {ticks:,} ticks", flush=True)
    return {"ticks": done, "ticks_per_s": done / busy_s, "woken": woken, "ticks_until_hang": hangs}


def _watch(port: int, vehicles: int, ticks: int) -> tuple[int, int, float]:
    """Let a process tick; gives its ticks until the end or a hang, those that were late, and the seconds they took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ticks"
        np.zeros(2, np.int64).tofile(path)
        made = np.memmap(path, np.int64, "r")
        command = [sys.executable, "-m", "bench.deadlock", str(port), str(vehicles), str(ticks), str(path)]
        process = subprocess.Popen(command, env={**os.environ, "CARLA_CACHE_DIR": folder}, stderr=subprocess.DEVNULL)
        last, last_s, first, first_s = 0, SYSTEM_CLOCK.monotonic_s(), 0, 0.0
        try:
            while process.poll() is None:
                SYSTEM_CLOCK.sleep_s(LOOK_S)
                now, now_s = int(made[0]), SYSTEM_CLOCK.monotonic_s()
                if now != last:
                    if not last:
                        first, first_s = now, now_s
                    last, last_s = now, now_s
                # Before the first tick it may still be building the traffic manager's map.
                elif now_s - last_s > HUNG_S * (1 if last else 10):
                    break
        finally:
            process.kill()
            process.wait()
        last = int(made[0])
        if process.returncode > 0 or not last:
            raise SystemExit(f"the client ended with {process.returncode} after {last} ticks")
        return last, int(made[1]), (last_s - first_s) * last / max(last - first, 1)


def tick(port: int, vehicles: int, ticks: int, path: str) -> None:
    """Tick, and write down how often."""
    import carla

    made = np.memmap(path, np.int64, "r+")
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(60.0)
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        manager_port = free.getsockname()[1]
    manager = client.get_trafficmanager(manager_port)
    manager.set_random_device_seed(1)
    manager.set_synchronous_mode(True)
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    for place in world.get_map().get_spawn_points()[:vehicles]:
        world.spawn_actor(blueprint, place).set_autopilot(True, manager_port)
    for number in range(1, ticks + 1):
        start_s = SYSTEM_CLOCK.monotonic_s()
        world.tick()
        made[0] = number
        made[1] += SYSTEM_CLOCK.monotonic_s() - start_s > WOKEN_S
    # Ending in good order is not what is measured, and a traffic manager may take its time about it.
    os._exit(0)


if __name__ == "__main__":
    tick(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
