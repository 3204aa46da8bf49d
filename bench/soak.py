"""An hour of coming and going: does a server's memory stay what it was, and do its descriptors and threads?

First a ``samepath serve`` with a journal, then a cluster of a main server and two nodes, half of the time each. Clients come
and go: CARLA's own in processes of their own, and raw ones; with them vehicles, sensors of every kind, listeners, whole maps.
One client reads slowly, some fall silent without closing, some leave in the middle of a message. What the server does is
judged: in the second half of the time memory, descriptors and threads may not grow by more than the bound beside them.

    SAMEPATH_BENCH_SOAK_S=600 python -m bench soak --dirty

Ctrl-C ends it early with a verdict on what there is.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from scipy import stats

from bench.tools import ROOT, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.simulator.carla.codec import stream_of
from samepath.simulator.carla.streams import ACTOR_STATE, SENSOR_TYPES, WORLD_STREAM
from samepath.simulator.maps import load_map
from tests.support.rpc import RawRpc
from tests.support.serving import RawListener, described

SOAK_S = float(os.environ.get("SAMEPATH_BENCH_SOAK_S", "3600"))
SAMPLE_S = min(10.0, max(1.0, SOAK_S / 360.0))
MAP_EVERY_S = 20.0  # every map ends what everybody else was doing, and there must be something to end
MAPS: Final = ("t-junction", "double-mini-roundabout")
PARAMETERS = [2.0, 50.0, 1.0, 0.6, True, True, True]
MOUNT = ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0))
READY_S = 300.0
ENDS_S = 30.0
_STATE = struct.Struct("<QQd6f")
_EPISODE_BYTES = 36
_SMALL = {"image_size_x": 160, "image_size_y": 120}
_FEW = {"points_per_second": 4000}
# Every kind that measures by itself; the others need a library of CARLA's, or a second vehicle to talk to.
KINDS: Final = {
    kind: _SMALL if kind.startswith("sensor.camera.") else _FEW if "lidar" in kind or "radar" in kind else {}
    for kind in SENSOR_TYPES
    if kind not in {"sensor.other.rss", "sensor.other.v2x", "sensor.other.v2x_custom", "sensor.camera.cosmos_visualization"}
}


# -- the verdict -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """How much a quantity may grow over the time that is judged: so much an hour, but not less than its usual jitter."""

    per_hour: float
    at_least: float

    def over(self, span_s: float) -> float:
        """The growth that is allowed in this time."""
        return max(self.at_least, self.per_hour * span_s / 3600.0)


# Memory: an allocator keeps pages, and where in its cycle of maps a server was last asked matters by some MiB.
BOUNDS: Final = {"memory_mib": Bound(24.0, 8.0), "descriptors": Bound(8.0, 8.0), "threads": Bound(2.0, 2.0)}


@dataclass(frozen=True)
class Trend:
    """What the second half of a series does: its growth by the Theil-Sen slope, and the least growth that fits (95 %)."""

    growth: float
    growth_least: float
    allowed: float
    span_s: float

    @property
    def is_flat(self) -> bool:
        """Can the growth be put down to chance and the bound? What is not known to grow is not accused."""
        return self.growth_least <= self.allowed


def trend(times_s: Sequence[float], values: Sequence[float], bound: Bound) -> Trend | None:
    """Judge the second half of a series; None where that is fewer than eight samples.

    The slope is the median of the slopes of all pairs: a few samples that are out by much (a map was being built) do not move
    it, as they would a least-squares line, and a server that takes a step once and stays there has a slope of 0.
    """
    later = len(times_s) // 2
    if len(times_s) - later < 8:
        return None
    span_s = times_s[-1] - times_s[later]
    slope, _, slope_least, _ = stats.theilslopes(values[later:], times_s[later:], alpha=0.95)
    return Trend(float(slope * span_s), float(slope_least * span_s), bound.over(span_s), span_s)


# -- what is watched -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One look at everything. Per process: memory, descriptors, threads."""

    at_s: float
    ticks_per_s: float
    actors: int
    journal_mib: float
    memory_mib: dict[str, float]
    descriptors: dict[str, float]
    threads: dict[str, float]


@dataclass
class Soaked:
    """A server under load: where it is, and which of its processes are judged."""

    name: str
    process: "subprocess.Popen[bytes]"
    port: int
    stream_port: int
    processes: dict[str, psutil.Process]
    journal: Path
    log: Path
    samples: list[Sample] = field(default_factory=list)
    frame: int = 0  # at the last sample
    visits: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)

    def client(self) -> RawRpc:
        """A new connection."""
        return RawRpc("127.0.0.1", self.port)

    def lines(self) -> list[str]:
        """What it has said."""
        return self.log.read_text("utf-8", errors="replace").splitlines()


class Observer:
    """Listens to the world's stream: the last frame, and how many actors it had. Connects again when it is cut off."""

    def __init__(self, soaked: Soaked) -> None:
        self.frame = self.actors = 0
        self._soaked = soaked

    def run(self) -> None:
        """Listen until all is over."""
        while not self._soaked.over.is_set():
            with suppress(OSError, EOFError, AssertionError), RawListener(self._soaked, WORLD_STREAM, 5.0) as listener:
                while not self._soaked.over.is_set():
                    message = listener.message()
                    self.frame = _STATE.unpack_from(message)[1]
                    self.actors = (len(message) - _STATE.size - _EPISODE_BYTES) // ACTOR_STATE.itemsize


def look(soaked: Soaked, observer: Observer, start_s: float) -> None:
    """Take a sample."""
    now_s, frame = SYSTEM_CLOCK.monotonic_s() - start_s, observer.frame
    before = soaked.samples[-1] if soaked.samples else None
    passed_s = now_s - (before.at_s if before else 0.0)
    soaked.samples.append(
        Sample(
            now_s,
            (frame - soaked.frame) / passed_s if before else 0.0,
            observer.actors,
            sum(path.stat().st_size for path in soaked.journal.rglob("*") if path.is_file()) / (1 << 20),
            {name: process.memory_info().rss / (1 << 20) for name, process in soaked.processes.items()},
            {name: float(process.num_fds()) for name, process in soaked.processes.items()},
            {name: float(process.num_threads()) for name, process in soaked.processes.items()},
        )
    )
    soaked.frame = frame


# -- who comes and goes ----------------------------------------------------------------------------------------------


def visitor(soaked: Soaked, chance: np.random.Generator) -> None:
    """A vehicle with sensors of many kinds, each listened to for a few measurements; then all of it goes, or is left."""
    with soaked.client() as client, ExitStack() as stack:
        points = client.value("get_map_info")[1]
        car = client.value("spawn_actor", described("vehicle.tesla.model3"), points[int(chance.integers(len(points)))])[0]
        kinds = chance.permutation(sorted(KINDS))[: 1 + int(chance.integers(len(KINDS)))]
        made = {
            kind: client.value("spawn_actor_with_parent", described(kind, **KINDS[kind]), MOUNT, car, 0, "")
            for kind in map(str, kinds)
        }
        for kind, record in made.items():
            stream_id = stream_of(bytes(record[5]))
            client.value("get_sensor_token", stream_id)
            listener = stack.enter_context(RawListener(soaked, stream_id, 5.0))
            if kind not in {"sensor.other.collision", "sensor.other.lane_invasion", "sensor.other.obstacle"}:
                for _ in range(3):
                    listener.message()
        if chance.random() < 0.8:
            for actor in (*(record[0] for record in made.values()), car):
                client.ask("destroy_actor", actor)


def stepper(soaked: Soaked, chance: np.random.Generator) -> None:
    """The world waits for a client for a while: synchronous mode, some ticks as fast as they go, and back."""
    with soaked.client() as client:
        settings = client.value("get_episode_settings")
        client.ask("set_episode_settings", [True, settings[1], [True, 0.05], *settings[3:]])
        try:
            for _ in range(int(chance.integers(100))):
                client.ask("tick_cue")
        finally:
            client.ask("set_episode_settings", [False, *settings[1:]])
    soaked.over.wait(5.0)


def maps(soaked: Soaked, chance: np.random.Generator) -> None:
    """Another map: one of ours, or one that a client sends."""
    if soaked.over.wait(MAP_EVERY_S):
        return
    name = MAPS[int(chance.integers(len(MAPS)))]
    with soaked.client() as client:
        client.socket.settimeout(120.0)
        if chance.random() < 0.5:
            client.ask("copy_opendrive_to_file", load_map(name).xodr, PARAMETERS)
            name = "OpenDriveMap"
        client.ask("load_new_episode", name, True, 0xFFFF)


def slow_reader(soaked: Soaked, _: np.random.Generator) -> None:
    """A listener that takes a few bytes now and then of pictures that come all the time."""
    with soaked.client() as client, ExitStack() as stack:
        where = client.value("get_map_info")[1][0]
        camera = client.value("spawn_actor", described("sensor.camera.rgb", image_size_x=640, image_size_y=480), where)
        stream_id = stream_of(bytes(camera[5]))
        client.value("get_sensor_token", stream_id)
        listener = stack.enter_context(RawListener(soaked, stream_id, 5.0))
        for _ in range(100):
            if soaked.over.wait(0.2) or not listener.socket.recv(1000):
                break
        client.ask("destroy_actor", camera[0])


def silent(soaked: Soaked, chance: np.random.Generator) -> None:
    """Connections that ask for something and never read or say another word; in the end they are reset."""
    with ExitStack() as stack:
        for _ in range(1 + int(chance.integers(6))):
            client = stack.enter_context(soaked.client())
            client.send("get_actor_definitions")
            stream_ = stack.enter_context(socket.create_connection(("127.0.0.1", soaked.stream_port), timeout=5.0))
            for connection in (client.socket, stream_):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        soaked.over.wait(3.0)


def half_a_message(soaked: Soaked, chance: np.random.Generator) -> None:
    """Somebody promises a message and leaves in the middle of it."""
    with socket.create_connection(("127.0.0.1", soaked.port), timeout=5.0) as connection:
        connection.sendall(b"\x94\x00\x01\xa8get_maps\x92\xc4\x00\xdb\x00\x10\x00\x00" + bytes(int(chance.integers(1 << 18))))
        soaked.over.wait(float(chance.random()))


def official(soaked: Soaked, chance: np.random.Generator) -> None:
    """CARLA's own client for a few seconds, in a process of its own."""
    command = [sys.executable, "-m", "bench.soak", str(soaked.port), str(int(chance.integers(1 << 30)))]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        code = child.wait(120.0)
    finally:
        child.kill()
        child.wait()
    if code != 0:
        raise ConnectionError(f"CARLA's client ended with {code}")


VISITS: Final[tuple[Callable[[Soaked, np.random.Generator], None], ...]] = (
    visitor, visitor, stepper, maps, slow_reader, silent, half_a_message, official,
)  # fmt: skip


def _come_and_go(soaked: Soaked, number: int) -> None:
    """One of :data:`VISITS` again and again. What others took away from under it ends a visit, not the soak."""
    visit = VISITS[number]
    chance = stream(1, "soak", soaked.name, number)
    while not soaked.over.is_set():
        try:
            visit(soaked, chance)
            soaked.visits[visit.__name__] += 1
        except (OSError, EOFError, AssertionError, subprocess.TimeoutExpired):
            soaked.visits[f"{visit.__name__}, broken off"] += 1
            soaked.over.wait(0.2)


def _as_official_client(port: int, seed: int) -> None:
    """In a child: what a script of CARLA's does."""
    import carla

    chance = stream(seed, "official")
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(20.0)
    world = client.get_world()
    library, points = world.get_blueprint_library(), world.get_map().get_spawn_points()
    actors = []
    for point in points[: 1 + int(chance.integers(5))]:
        actor = world.try_spawn_actor(library.find("vehicle.tesla.model3"), point)
        if actor is not None:
            actors.append(actor)
            actor.apply_control(carla.VehicleControl(throttle=0.5, steer=float(chance.uniform(-0.5, 0.5))))
    sensors = []
    for kind in ("sensor.camera.rgb", "sensor.camera.dvs", "sensor.lidar.ray_cast", "sensor.other.imu"):
        blueprint = library.find(kind)
        for name, value in KINDS[kind].items():
            blueprint.set_attribute(name, str(value))
        sensors.append(world.spawn_actor(blueprint, carla.Transform(), attach_to=actors[0] if actors else None))
        sensors[-1].listen(lambda _: None)
    for _ in range(20):
        world.wait_for_tick(5.0)
    for sensor in sensors:
        sensor.stop()
    if chance.random() < 0.7:
        client.apply_batch([carla.command.DestroyActor(actor) for actor in (*sensors, *actors)])


# -- the servers -----------------------------------------------------------------------------------------------------


@contextmanager
def _started(name: str, folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    log = folder / f"{name}.log"
    with log.open("wb") as said:
        process = subprocess.Popen([sys.executable, "-m", "samepath", *arguments], cwd=folder, stderr=said)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def _line(process: "subprocess.Popen[bytes]", log: Path, pattern: str) -> "re.Match[str]":
    """Wait for a line of a log."""
    end_s = SYSTEM_CLOCK.monotonic_s() + READY_S
    while (found := re.search(pattern, log.read_text("utf-8", errors="replace"))) is None:
        if process.poll() is not None or SYSTEM_CLOCK.monotonic_s() > end_s:
            raise RuntimeError(f"{pattern!r} was wanted, but the server said: {log.read_text('utf-8')[-2000:]}")
        SYSTEM_CLOCK.sleep_s(0.05)
    return found


@contextmanager
def single(folder: Path) -> Iterator[Soaked]:
    """One server with a journal."""
    with _started("serve", folder, "serve", "--port", "0", "--journal", "journal") as (process, log):
        found = _line(process, log, r"127\.0\.0\.1:(\d+), streams on (\d+)")
        processes = {"serve": psutil.Process(process.pid)}
        yield Soaked("serve", process, int(found[1]), int(found[2]), processes, folder / "journal", log)


@contextmanager
def cluster(folder: Path) -> Iterator[Soaked]:
    """A main server with a journal and two nodes; clients come to the first node."""
    free = ("--port", "0", "--link-port", "0", "--page-port", "0")
    arguments = ("cluster", "start", "--placement", "processes", "--nodes", "2", *free, "--journal", "journal")
    with _started("cluster", folder, *arguments) as (process, log):
        port = int(_line(process, log, r"node-1 has joined .*127\.0\.0\.1:(\d+)")[1])
        _line(process, log, r"node-2 has joined")
        main = psutil.Process(process.pid)
        nodes = sorted((child for child in main.children(recursive=True) if _is_node(child)), key=lambda child: child.pid)
        processes = {"main": main, **{f"node {number}": node for number, node in enumerate(nodes, start=1)}}
        with RawRpc("127.0.0.1", port) as client:
            stream_port = struct.unpack_from("<IH", bytes(client.value("get_episode_info")[1][0]))[1]
        yield Soaked("cluster", process, port, stream_port, processes, folder / "journal", log)


def _is_node(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "cluster" in " ".join(process.cmdline())
    return False


# -- all of it -------------------------------------------------------------------------------------------------------


def soak(soaked: Soaked, span_s: float) -> bool:
    """Have everybody come and go for so long; False: it was broken off."""
    observer = Observer(soaked)
    works = [lambda number=number: _come_and_go(soaked, number) for number in range(len(VISITS))]
    threads = [threading.Thread(target=work, daemon=True) for work in (observer.run, *works)]
    for thread in threads:
        thread.start()
    start_s, whole = SYSTEM_CLOCK.monotonic_s(), True
    try:
        while (passed_s := SYSTEM_CLOCK.monotonic_s() - start_s) < span_s and soaked.process.poll() is None:
            SYSTEM_CLOCK.sleep_s(min(SAMPLE_S, max(0.0, span_s - passed_s)))
            look(soaked, observer, start_s)
            _progress(soaked, span_s)
    except KeyboardInterrupt:
        whole = False
    except psutil.NoSuchProcess:
        pass  # the verdict will say that it has ended
    soaked.over.set()
    print(file=sys.stderr)
    for thread in threads:
        thread.join(30.0)
    return whole


def _progress(soaked: Soaked, span_s: float) -> None:
    last = soaked.samples[-1]
    memory = ", ".join(f"{name} {mib:.0f} MiB" for name, mib in last.memory_mib.items())
    line = f"{soaked.name}: {last.at_s:.0f} of {span_s:.0f} s, {soaked.visits.total()} visits, "
    line += f"{last.ticks_per_s:.0f} ticks/s, {memory}"
    print(f"\r{line:<120}", end="", file=sys.stderr, flush=True)


def judged(soaked: Soaked) -> tuple[list[list[str]], dict[str, object], bool]:
    """The rows of the table, what is kept, and whether all is well."""
    rows, trends, met = [], {}, True
    times_s = [sample.at_s for sample in soaked.samples]
    for quantity, bound in BOUNDS.items():
        for name in soaked.processes:
            values = [getattr(sample, quantity)[name] for sample in soaked.samples]
            found = trend(times_s, values, bound)
            if found is None:
                rows.append([soaked.name, name, quantity, "", "too short to say", "", ""])
                continue
            met = met and found.is_flat
            trends[f"{name} {quantity}"] = {**asdict(found), "is_flat": found.is_flat}
            quarters = [f"{np.median(part):.0f}" for part in np.array_split(np.array(values), 4)]
            growth = f"{found.growth:+.1f} (at least {found.growth_least:+.1f}) in {found.span_s / 60.0:.0f} min"
            rows.append(
                [soaked.name, name, quantity, " ".join(quarters), growth, f"{found.allowed:.1f}", verdict(met=found.is_flat)]
            )
    return rows, trends, met


def _ended(soaked: Soaked) -> tuple[int | None, list[str]]:
    """Ask the server to end: its exit code (None: it does not), and what it said that it should not have."""
    soaked.process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        soaked.process.wait(ENDS_S)
    wrong = ("error of ours", "Traceback", "the episode has ended", "desynchronised")
    return soaked.process.poll(), [line for line in soaked.lines() if any(words in line for words in wrong)]


def main() -> bool:
    """Soak both; return whether all stayed as it was."""
    rows: list[list[str]] = []
    figures: dict[str, object] = {"soak_s": SOAK_S, "sample_s": SAMPLE_S}
    met = whole = True
    for start in (single, cluster):
        if not whole:
            break
        with tempfile.TemporaryDirectory() as folder, start(Path(folder)) as soaked:
            whole = soak(soaked, SOAK_S / 2.0)
            stayed = soaked.process.poll() is None
            found, trends, flat = judged(soaked)
            code, wrong = _ended(soaked)
        well = stayed and code == 0 and not wrong
        met = met and flat and well
        rows += [*found, [soaked.name, "", "its end", "", _summary(soaked, code, wrong), "code 0, no error", verdict(met=well)]]
        print(*wrong[:5], sep="\n")
        figures[soaked.name] = {
            "trends": trends, "visits": dict(sorted(soaked.visits.items())), "exit_code": code, "errors": wrong[:100],
            "samples": [asdict(sample) for sample in soaked.samples],
        }  # fmt: skip
    figures["partial"] = not whole
    title = f"clients, sensors and maps come and go for {SOAK_S / 60.0:g} minutes" + ("" if whole else " (broken off)")
    columns = ["server", "process", "quantity", "medians of quarters", "growth in the second half", "allowed", ""]
    show(title, columns, rows)
    save("soak", figures)
    return met and whole


def _summary(soaked: Soaked, code: int | None, wrong: list[str]) -> str:
    rates = np.array_split(np.array([sample.ticks_per_s for sample in soaked.samples[1:]]), 4)
    rate = f"{np.median(rates[1]):.0f} then {np.median(rates[3]):.0f} ticks/s, " if len(rates[3]) else ""
    broken = sum(count for name, count in soaked.visits.items() if "broken off" in name)
    return f"{soaked.visits.total()} visits ({broken} broken off), {rate}exit code {code}, {len(wrong)} errors in its log"


if __name__ == "__main__":
    _as_official_client(*map(int, sys.argv[1:3]))
