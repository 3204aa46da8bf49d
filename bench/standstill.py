"""Fresh CARLA clients, against several servers at once on a busy machine: how many of them stand still, and where.

``python -m bench standstill``. Each client is a process of its own, as an evaluation starts them. Two kinds take turns:

- ``drive``: one client per server loads a map, begins a traffic manager and some sensors with callbacks, ticks, spawns with
  batches that tick, loads the map anew in between, and leaves. Another one looks at the world beside it.
- ``load``: four clients at once load a map, look at it, load it anew and leave, in real time.

A client stands still if it makes no step for ``STILL_S`` in which neither it nor the server ran or waited for a processor, or
for ``SPIN_S`` in which the server did not: some calls of CARLA's client spin. It is ended, and its last step goes to the
result. With SAMEPATH_BENCH_STANDSTILL_STACKS=FOLDER the stacks of the client (``gdb``) and of the server (``py-spy``), and the
sockets of both, are written there first, where those tools are installed.

SAMEPATH_BENCH_STANDSTILL_CLIENTS says how many clients, _JOBS how many servers run at once, _LOADS how many busy loops beside
them, and _EVERY after how many clients a server gives way to a fresh one.
"""

import importlib.util
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.processes import die_with_parent

CLIENTS = int(os.environ.get("SAMEPATH_BENCH_STANDSTILL_CLIENTS", "100"))
JOBS = int(os.environ.get("SAMEPATH_BENCH_STANDSTILL_JOBS", "3"))
LOADS = int(os.environ.get("SAMEPATH_BENCH_STANDSTILL_LOADS", "2"))
EVERY = int(os.environ.get("SAMEPATH_BENCH_STANDSTILL_EVERY", "5"))
STACKS = os.environ.get("SAMEPATH_BENCH_STANDSTILL_STACKS")
MAPS: Final = ("oval", "t-junction")
AT_ONCE: Final = 4
# A client is found to stand still before its own time-out ends it, so that its stacks show where.
STILL_S: Final = 20.0
SPIN_S: Final = 60.0
TIMEOUT_S: Final = 300.0
LOOK_S: Final = 0.1
SENSORS: Final = ("sensor.camera.rgb", "sensor.lidar.ray_cast", "sensor.other.imu", "sensor.other.gnss")
TICKS: Final = 40
VEHICLES: Final = 8
BATCH_EVERY: Final = 8
START_S: Final = 180.0


@dataclass(frozen=True)
class Outcome:
    """How a client ended: ``well``, ``stood still``, ``timed out`` or ``failed``, and its last step."""

    how: str
    step: str
    words: str = ""


def main() -> bool:
    """Run the clients; return whether none stood still or timed out."""
    if importlib.util.find_spec("carla") is None:
        print("standstill: CARLA's client is not installed; nothing was measured")
        return True
    numbers, lock = iter(range(CLIENTS)), threading.Lock()

    def take() -> int | None:
        with lock:
            return next(numbers, None)

    with _busy_loops(LOADS), ThreadPoolExecutor(JOBS) as pool:
        outcomes = [outcome for part in [pool.submit(_serve_clients, take) for _ in range(JOBS)] for outcome in part.result()]
    ends = Counter(outcome.how for outcome in outcomes)
    bad = [outcome for outcome in outcomes if outcome.how in ("stood still", "timed out")]
    rows = [[how, str(count)] for how, count in sorted(ends.items())]
    show(f"{len(outcomes)} fresh clients, {LOADS} busy loops, {JOBS} servers at once", ["ended", "clients"], rows)
    for outcome in outcomes:
        if outcome.how != "well":
            print(f"{outcome.how} in {outcome.step!r}: {outcome.words}")
    print("no client stood still:", verdict(met=not bad))
    figures = {how.replace(" ", "_"): count for how, count in sorted(ends.items())}
    where = dict(sorted(Counter(f"{outcome.how}: {outcome.step}" for outcome in outcomes if outcome.how != "well").items()))
    save("standstill", {"clients": len(outcomes), "servers_at_once": JOBS, "busy_loops": LOADS, **figures, "where": where})
    return not bad


@contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _serve_clients(take: Callable[[], int | None]) -> list[Outcome]:
    """Run clients until none is left to run, with a fresh server after every few of them."""
    found: list[Outcome] = []
    for session in count():
        kind, at_once = ("drive", 1) if session % 2 == 0 else ("load", AT_ONCE)
        with ExitStack() as stack:
            server, port = stack.enter_context(_server())
            if kind == "drive":
                stack.enter_context(_client(port, "look", 0))
            pool = stack.enter_context(ThreadPoolExecutor(at_once))

            def run_some(server: "subprocess.Popen[str]" = server, port: int = port, kind: str = kind) -> list[Outcome]:
                outcomes: list[Outcome] = []
                for _ in range(EVERY):
                    # What a client that did not end well has left behind is not the next one's.
                    if (outcomes and outcomes[-1].how != "well") or (number := take()) is None:
                        break
                    outcomes.append(_watch(server, port, kind, number))
                    print(f"client {number}: {outcomes[-1]}", flush=True)
                return outcomes

            some = [outcome for part in [pool.submit(run_some) for _ in range(at_once)] for outcome in part.result()]
        found += some
        if not some:
            return found
    return found


@contextmanager
def _server() -> Iterator[tuple["subprocess.Popen[str]", int]]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--map", MAPS[0], "--data", folder]
        with log.open("w") as file:
            server = subprocess.Popen(command, stderr=file, text=True)
        try:
            end_s = SYSTEM_CLOCK.monotonic_s() + START_S
            while "serving map" not in (text := log.read_text(errors="replace")):
                if server.poll() is not None or SYSTEM_CLOCK.monotonic_s() > end_s:
                    raise SystemExit(f"the server did not start: {text.strip()}")
                SYSTEM_CLOCK.sleep_s(LOOK_S)
            yield server, int(text.split("serving map")[1].split(", streams")[0].rsplit(":", 1)[1])
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def _client(port: int, what: str, number: int, steps: Path = Path(os.devnull)) -> Iterator["subprocess.Popen[str]"]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.standstill", what, str(port), str(number), str(steps), str(os.getpid())]
        environment = {**os.environ, "CARLA_CACHE_DIR": folder}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _watch(server: "subprocess.Popen[str]", port: int, kind: str, number: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        steps = Path(folder) / "steps"
        steps.touch()
        with _client(port, kind, number, steps) as process:
            server_busy, both_busy = _BusyTime(server.pid), _BusyTime(server.pid, process.pid)
            last, since = "", (SYSTEM_CLOCK.monotonic_s(), 0.0, 0.0)
            while process.poll() is None:
                SYSTEM_CLOCK.sleep_s(LOOK_S)
                now, times = steps.read_text(), (SYSTEM_CLOCK.monotonic_s(), server_busy.seconds(), both_busy.seconds())
                passed_s, server_s, both_s = (time_s - since_s for time_s, since_s in zip(times, since, strict=True))
                if now != last:
                    last, since = now, times
                elif passed_s - both_s > STILL_S or passed_s - server_s > SPIN_S:
                    _write_stacks(number, process.pid, server.pid)
                    return Outcome("stood still", _last(last))
            step = _last(steps.read_text())
            words = process.stderr.read() if process.stderr is not None else ""
        if step == "end":
            return Outcome("well", step)
        line = next((line for line in reversed(words.splitlines()) if line.strip() and "WARNING" not in line), "")
        return Outcome("timed out" if "time-out" in words else "failed", step, f"exit {process.returncode}: {line[:200]}")


class _BusyTime:
    """How long the threads of some processes have run, or have been ready to run and waited for a processor.

    Threads end, and their times with them: so this has to be asked again and again.
    """

    def __init__(self, *processes: int) -> None:
        self._processes = processes
        self._seen: dict[str, int] = {}

    def seconds(self) -> float:
        for process in self._processes:
            for path in Path(f"/proc/{process}/task").glob("*/schedstat"):
                with suppress(OSError):
                    ran_ns, waited_ns, _ = path.read_text().split()
                    self._seen[str(path)] = int(ran_ns) + int(waited_ns)
        return sum(self._seen.values()) / 1e9


def _last(steps: str) -> str:
    return steps.splitlines()[-1] if steps.strip() else "nothing"


def _write_stacks(number: int, client: int, server: int) -> None:
    if STACKS is None:
        return
    place = Path(STACKS) / f"client-{number}"
    place.mkdir(parents=True, exist_ok=True)
    commands = {
        "client.txt": ["gdb", "-p", str(client), "-batch", "-ex", "thread apply all bt 20"],
        "client-python.txt": ["py-spy", "dump", "--pid", str(client)],
        "server.txt": ["py-spy", "dump", "--pid", str(server)],
        "sockets.txt": ["ss", "-tnpoai"],
    }
    for name, command in commands.items():
        if shutil.which(command[0]):
            with (place / name).open("w") as file, suppress(subprocess.TimeoutExpired):
                subprocess.run(command, check=False, stdout=file, stderr=subprocess.STDOUT, timeout=60)


class _Steps:
    """Where a client writes down each step before it makes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.part = ""

    def __call__(self, words: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{self.part}{words}\n")


def drive(port: int, number: int, step: _Steps) -> None:
    """Do what an evaluation does."""
    import carla

    step("connect")
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(TIMEOUT_S)
    step("load_world")
    world = client.load_world(MAPS[number % len(MAPS)])
    step("get_trafficmanager")
    # A port of its own for each client: one of before may still hold its port for a moment.
    manager_port = 10000 + (port + number) % 20000
    manager = client.get_trafficmanager(manager_port)
    for step.part in ("first: ", "second: "):
        step("apply_settings")
        _synchronous(world, manager, on=True)
        step("tick")
        world.tick()
        cars = _spawn_cars(world, manager_port, step)
        heard: queue.Queue[int] = queue.Queue()
        sensors = _spawn_sensors(world, cars[0], heard, step)
        for tick in range(TICKS):
            if tick % BATCH_EVERY == 0:
                step(f"batch that ticks {tick}")
                _spawn_and_destroy(client, world)
            step(f"tick {tick}")
            frame = world.tick()
            step(f"sensors {tick}")
            for _ in sensors:
                while heard.get(timeout=TIMEOUT_S) < frame:
                    pass
        step("get_world")
        world = client.get_world()
        step("stop sensors")
        for sensor in sensors:
            sensor.stop()
            sensor.destroy()
        if step.part == "first: ":
            step("reload_world")
            if number % 3 == 0:
                # As the Leaderboard does before it loads the next route.
                _synchronous(world, manager, on=False)
            world = client.reload_world(number % 2 == 0)
    step("leave")
    _synchronous(world, manager, on=False)
    client.apply_batch_sync([carla.command.DestroyActor(car.id) for car in cars])


def _synchronous(world: Any, manager: Any, *, on: bool) -> None:  # noqa: ANN401 - CARLA's
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = on, 0.05 if on else None
    world.apply_settings(settings)
    manager.set_synchronous_mode(on)


def _spawn_cars(world: Any, manager_port: int, step: _Steps) -> list[Any]:  # noqa: ANN401 - CARLA's
    found: list[Any] = []
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    for place in world.get_map().get_spawn_points()[:VEHICLES]:
        step(f"car {len(found)}")
        car = world.try_spawn_actor(blueprint, place)
        if car is not None:
            step(f"autopilot {len(found)}")
            car.set_autopilot(True, manager_port)
            found.append(car)
    return found


def _spawn_and_destroy(client: Any, world: Any) -> None:  # noqa: ANN401 - CARLA's
    import carla

    blueprint = world.get_blueprint_library().find("vehicle.audi.tt")
    (made,) = client.apply_batch_sync([carla.command.SpawnActor(blueprint, world.get_map().get_spawn_points()[-1])], True)
    if not made.error:
        client.apply_batch_sync([carla.command.DestroyActor(made.actor_id)], True)


def _spawn_sensors(world: Any, car: Any, heard: "queue.Queue[int]", step: _Steps) -> list[Any]:  # noqa: ANN401 - CARLA's
    import carla

    found: list[Any] = []
    for name in SENSORS:
        blueprint = world.get_blueprint_library().find(name)
        if name == "sensor.camera.rgb":
            blueprint.set_attribute("image_size_x", "64")
            blueprint.set_attribute("image_size_y", "48")
        step(f"spawn {name}")
        sensor = world.spawn_actor(blueprint, carla.Transform(carla.Location(z=2.0)), attach_to=car)
        step(f"listen {name}")
        sensor.listen(lambda data: heard.put(data.frame))
        found.append(sensor)
    return found


def load(port: int, number: int, step: _Steps) -> None:
    """Load maps while others do, too."""
    import carla

    step("connect")
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(TIMEOUT_S)
    step("load_world")
    world = client.load_world(MAPS[number % len(MAPS)])
    step("get_map")
    world.get_map()
    step("get_world")
    client.get_world().get_actors()
    step("reload_world")
    client.reload_world()


def look(port: int) -> NoReturn:
    """Connect anew again and again, and look at the world: a client beside the one that drives."""
    import carla

    while True:
        with suppress(RuntimeError):
            client = carla.Client("127.0.0.1", port)
            client.set_timeout(TIMEOUT_S)
            client.get_world().get_actors()
        SYSTEM_CLOCK.sleep_s(1.0)


if __name__ == "__main__":
    kind, port_number, client_number, written, watcher = (
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
        sys.argv[5],
    )
    die_with_parent(int(watcher))
    if kind == "look":
        look(port_number)
    steps = _Steps(Path(written))
    (drive if kind == "drive" else load)(port_number, client_number, steps)
    steps.part = ""
    steps("end")
    # Ending in good order is not what is measured.
    os._exit(0)
