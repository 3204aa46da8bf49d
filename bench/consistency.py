"""An hour of traffic, walkers, sensors and map loads against ``samepath serve --check``.

The server compares, after every tick, everything it reports about where actors are. CARLA's own
client drives it: sessions of 200 ticks with a traffic manager, AI walkers, every kind of sensor and
a recording; between ticks it reads actors in random order, teleports, destroys and spawns some. The
client compares too: what ``get_transform()``, the snapshot, bones and bounding boxes say.

    SAMEPATH_BENCH_CONSISTENCY_S=120 python -m bench consistency --dirty
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.soak import KINDS
from bench.tools import ROOT, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK

TOTAL_S: Final = float(os.environ.get("SAMEPATH_BENCH_CONSISTENCY_S", "3600"))
MAPS: Final = ("town", "oval", "town", "t-junction", "double-mini-roundabout")
TICKS: Final = 200
VEHICLES: Final = 24
WALKERS: Final = 8
READY_S: Final = 300.0
SESSION_S: Final = 900.0


def main() -> bool:
    """Run sessions until the time is up; return True if no difference was found."""
    sessions: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "serve.log"
        command = [sys.executable, "-m", "samepath", "serve", "--check", "--port", "0"]
        command += ["--map", "town", "--data", str(Path(folder) / "data")]
        with log.open("wb") as lines:
            server = subprocess.Popen(command, cwd=folder, stderr=lines, stdout=lines)
        try:
            port = _port(server, log)
            start_s = SYSTEM_CLOCK.monotonic_s()
            while SYSTEM_CLOCK.monotonic_s() - start_s < TOTAL_S and server.poll() is None:
                sessions.append(_session(port, len(sessions)))
                _progress(sessions, SYSTEM_CLOCK.monotonic_s() - start_s)
            alive = server.poll() is None
            server.send_signal(signal.SIGINT)
            code = server.wait(60.0)
        finally:
            server.kill()
            server.wait()
        text = log.read_text("utf-8", errors="replace")
    summary = next((line for line in text.splitlines() if "without a difference" in line), "")
    wrong = [line for line in text.splitlines() if "contradicts itself" in line]
    errors = [text for session in sessions for text in session["errors"]]
    met = alive and code == 0 and bool(summary) and not wrong and not errors
    rows = [
        ["sessions", str(len(sessions)), ""],
        ["ticks of sessions", str(sum(session["ticks"] for session in sessions)), ""],
        ["client's comparisons", str(sum(session["compared"] for session in sessions)), ""],
        ["server", summary or f"ended with {code}: {' '.join(wrong)[:400]}", verdict(met=met)],
        ["differences the client saw", str(len(errors)), verdict(met=not errors)],
    ]
    show("what the server reports about actors, compared after every tick", ["", "", ""], rows)
    figures = {"sessions": sessions, "summary": summary, "exit_code": code, "wrong": wrong}
    save("consistency", {**figures, "seconds": TOTAL_S})
    return met


def _port(server: "subprocess.Popen[bytes]", log: Path) -> int:
    end_s = SYSTEM_CLOCK.monotonic_s() + READY_S
    while (found := re.search(r"127\.0\.0\.1:(\d+), streams", log.read_text("utf-8"))) is None:
        if server.poll() is not None or SYSTEM_CLOCK.monotonic_s() > end_s:
            raise RuntimeError(f"expected a serving line, got: {log.read_text('utf-8')[-2000:]}")
        SYSTEM_CLOCK.sleep_s(0.05)
    return int(found[1])


def _session(port: int, number: int) -> dict[str, Any]:
    """Run one client in a process of its own, as users do."""
    command = [sys.executable, "-m", "bench.consistency", str(port), str(number)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SESSION_S, check=False)
    last = child.stdout.strip().splitlines()[-1:] or ["{}"]
    report: dict[str, Any] = {"map": "", "ticks": 0, "compared": 0, "errors": []}
    report |= json.loads(last[0])
    if child.returncode != 0:
        report["errors"].append(f"the client ended with {child.returncode}: {child.stderr[-500:]}")
    return report


def _progress(sessions: list[dict[str, Any]], passed_s: float) -> None:
    last = sessions[-1]
    print(
        f"{passed_s:6.0f} s: session {len(sessions)} on {last['map']}, {last['ticks']} ticks, "
        f"{last['compared']} comparisons, {len(last['errors'])} differences",
        file=sys.stderr,
        flush=True,
    )


class Session:
    """What one client does in its session."""

    def __init__(self, port: int, number: int) -> None:
        import carla

        self.carla: Any = carla
        self.chance = random.Random(number)
        self.client: Any = carla.Client("127.0.0.1", port)
        self.client.set_timeout(120.0)
        self.map_name = MAPS[number % len(MAPS)]
        self.world: Any = self.client.load_world(self.map_name)
        settings = self.world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        self.world.apply_settings(settings)
        self.library = self.world.get_blueprint_library()
        self.points = self.world.get_map().get_spawn_points()
        self.chance.shuffle(self.points)
        self.manager: Any = self.client.get_trafficmanager(port + 6000 if port < 59000 else 8000)
        self.manager.set_synchronous_mode(True)
        self.manager.set_random_device_seed(number)
        self.cars: list[Any] = []
        self.walkers: list[Any] = []
        self.others: list[Any] = []
        self.compared = 0
        self.ticks = 0
        self.errors: list[str] = []

    def run(self) -> None:
        """Drive, look and change the world for some ticks; take everything out in the end."""
        self.client.start_recorder(f"session-{self.chance.randrange(4)}.log", True)
        self._populate()
        for tick in range(TICKS):
            self.world.tick(60.0)
            self.ticks += 1
            snapshot = self.world.get_snapshot()
            # The server removes actors that fall off the map, the traffic manager vehicles that are stuck.
            self.cars = [car for car in self.cars if snapshot.find(car.id) and car.is_alive]
            self.walkers = [walker for walker in self.walkers if snapshot.find(walker.id)]
            # Before anything is changed: a teleport shows in bones immediately, in transforms after a tick.
            if tick % 5 == 0:
                self._compare()
            self._disturb()
        self.world.tick(60.0)  # the traffic manager learns here which vehicles are gone
        self.client.stop_recorder()
        if self.chance.random() < 0.5:
            for sensor in self.others:
                if sensor.type_id.startswith("sensor."):
                    sensor.stop()
            actors = [*self.others, *self.walkers, *self.cars]
            batch = [self.carla.command.DestroyActor(actor) for actor in actors]
            self.client.apply_batch_sync(batch, False)
            self.world.tick(60.0)
        settings = self.world.get_settings()
        settings.synchronous_mode = False
        self.manager.set_synchronous_mode(False)
        self.world.apply_settings(settings)

    def _populate(self) -> None:
        for point in self.points[:VEHICLES]:
            self._add_car(point)
        self.world.tick(60.0)
        for _ in range(WALKERS):
            place = self.world.get_random_location_from_navigation()
            blueprint = self.library.find("walker.pedestrian.0001")
            if place is None:
                break
            walker = self.world.try_spawn_actor(blueprint, self.carla.Transform(place))
            if walker is not None:
                self.walkers.append(walker)
                control = self.library.find("controller.ai.walker")
                controller = self.world.spawn_actor(control, self.carla.Transform(), walker)
                self.others.append(controller)
                self.world.tick(60.0)
                controller.start()
                goal = self.world.get_random_location_from_navigation()
                if goal is not None:
                    controller.go_to_location(goal)
        ego = self.cars[0]
        mount = self.carla.Transform(self.carla.Location(x=1.5, z=2.0))
        for kind, attributes in KINDS.items():
            blueprint = self.library.find(kind)
            for name, value in attributes.items():
                blueprint.set_attribute(name, str(value))
            sensor = self.world.spawn_actor(blueprint, mount, attach_to=ego)
            sensor.listen(lambda _: None)
            self.others.append(sensor)

    def _add_car(self, point: Any) -> None:  # noqa: ANN401 - CARLA's client has no types
        blueprint = self.chance.choice(self.library.filter("vehicle.*"))
        car = self.world.try_spawn_actor(blueprint, point)
        if car is not None:
            car.set_autopilot(True, self.manager.get_port())
            self.cars.append(car)

    def _disturb(self) -> None:
        """Do something that changes or reads the tables behind the world."""
        action = self.chance.randrange(12)
        if action == 0 and len(self.cars) > 4:
            self.cars.pop(self.chance.randrange(1, len(self.cars))).destroy()
        elif action == 1 and len(self.cars) < VEHICLES:
            self._add_car(self.chance.choice(self.points))
        elif action == 2 and len(self.cars) > 1:
            place = self.chance.choice(self.points)
            place.location.z += 4.0
            self.chance.choice(self.cars[1:]).set_transform(place)
        elif action == 3:
            for car in self.chance.sample(self.cars, len(self.cars)):
                car.get_physics_control()
        elif action == 4:
            for actor in self.chance.sample([*self.cars, *self.walkers], 3):
                actor.get_bones() if hasattr(actor, "get_bones") else actor.bounding_box

    def _compare(self) -> None:
        """Compare what the client's own ways to ask give, for every vehicle."""
        snapshot = self.world.get_snapshot()
        for car in self.cars:
            row = snapshot.find(car.id)
            if row is None:
                self.errors.append(f"tick {self.ticks}: vehicle {car.id} is not in the snapshot")
                continue
            place = car.get_transform().location
            bone = car.get_bone_world_transforms()[0].location
            self.compared += 1
            off_m = row.get_transform().location.distance(place)
            bone_m = bone.distance(place)
            if off_m > 0.0 or bone_m > 0.01:
                self.errors.append(
                    f"tick {self.ticks}: vehicle {car.id}: get_transform() is {off_m:.3f} m from the "
                    f"snapshot, its base bone {bone_m:.3f} m"
                )


if __name__ == "__main__":
    session = Session(int(sys.argv[1]), int(sys.argv[2]))
    try:
        session.run()
    finally:
        report = {"map": session.map_name, "ticks": session.ticks}
        print(json.dumps({**report, "compared": session.compared, "errors": session.errors}))
        sys.stdout.flush()
