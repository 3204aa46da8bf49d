"""``samepath serve`` under CARLA's own client: round trips, ticks and batches per second, the server on one core."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from bench.tools import best_s, save, show, verdict

TICK_AIMS = {10: 1000.0, 100: 150.0}
VEHICLES = (0, 10, 100, 300)
# CARLA's own figures (its documentation: physics and traffic manager on, no rendering, GTX 1080 Ti), frames per second.
CARLA_TICKS = {10: 98.0, 100: 15.0}
STEP_M = 20.0


@contextmanager
def serving(map_name: str = "oval", *, apart: bool = True) -> Iterator[int]:
    """Run a server on one core and this process on another, where there are two, unless told otherwise; yields the port."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--map", map_name, "--data", folder]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        own, cores = psutil.Process(), psutil.Process().cpu_affinity()
        try:
            found = re.search(r":(\d+), streams", server.stderr.readline() if server.stderr else "")
            if found is None:
                raise RuntimeError("the server did not start")
            if apart:
                psutil.Process(server.pid).cpu_affinity(cores[:1])
                own.cpu_affinity(cores[1:] or cores)
            yield int(found[1])
        finally:
            own.cpu_affinity(cores)
            server.terminate()
            server.wait(20)
            if server.stderr:
                server.stderr.close()


def main() -> bool:
    """Measure; return whether the aims were met."""
    os.environ.setdefault("CARLA_CACHE_DIR", tempfile.mkdtemp())
    try:
        import carla
    except ImportError:
        print("server: CARLA's client is not installed; nothing was measured")
        return True
    figures: dict[str, Any] = {}
    rows = []
    with serving() as port:
        client = carla.Client("127.0.0.1", port)
        client.set_timeout(60.0)
        world = client.get_world()
        _synchronous(world)
        figures["round_trips_per_s"] = per_s(client.get_server_version, 2000)
        rows.append(["round trips (version)", f"{figures['round_trips_per_s']:,.0f}", "", ""])
        figures["ticks_per_s"] = {}
        ids: list[int] = []
        for count in VEHICLES:
            ids = _fill(carla, client, count)
            world = client.get_world()
            for _ in range(20):
                world.tick()
            rate = per_s(world.tick, 200 if count < 300 else 60)
            figures["ticks_per_s"][str(count)] = rate
            aim = TICK_AIMS.get(count)
            shown = f"{aim:,.0f}" if aim else ""
            rows.append([f"ticks of 0.05 s, {count} vehicles", f"{rate:,.0f}", shown, verdict(met=rate >= aim) if aim else ""])
        batch = [carla.command.ApplyVehicleControl(one, carla.VehicleControl(throttle=0.2, steer=0.8)) for one in ids]
        figures["batch_300_and_tick_per_s"] = per_s(lambda: client.apply_batch_sync(batch, True), 60)
        rows.append(["300 controls in a batch, and a tick", f"{figures['batch_300_and_tick_per_s']:,.0f}", "", ""])
    show("samepath serve and CARLA's client, per second", ["what", "measured", "aim", ""], rows)
    save("server", figures | {"carla_ticks_per_s_for_orientation": CARLA_TICKS})
    return all(figures["ticks_per_s"][str(count)] >= aim for count, aim in TICK_AIMS.items())


def per_s(work: Callable[[], object], count: int) -> float:
    """How often a second, in the best of five rounds."""
    return count / best_s(lambda: [work() for _ in range(count)])


def _synchronous(world: Any) -> None:  # noqa: ANN401 - CARLA's world
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)


def _fill(carla: Any, client: Any, count: int) -> list[int]:  # noqa: ANN401 - CARLA's own objects
    """Put so many vehicles on a grid and let them drive in circles that do not meet."""
    world = client.reload_world(False)
    if not count:
        return []
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    command, control = carla.command, carla.VehicleControl(throttle=0.2, steer=0.8)
    places = [carla.Location(x * STEP_M, y * STEP_M, 0.3) for x in range(-2, 11) for y in range(-17, 17)]
    ids: list[int] = []
    for place in places:
        spawn = command.SpawnActor(blueprint, carla.Transform(place))
        (answer,) = client.apply_batch_sync([spawn.then(command.ApplyVehicleControl(command.FutureActor, control))])
        if not answer.error:
            ids.append(answer.actor_id)
        if len(ids) == count:
            return ids
    raise RuntimeError(f"only {len(ids)} of {count} vehicles found a place")


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
