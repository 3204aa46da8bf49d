"""Fault injection: a cluster is started, drives a scene while nodes are killed, frozen, drained and added, and everything its
sensors sent is named by a digest. The digests of a run with faults must be those of a run without.
"""

import asyncio
import hashlib
import os
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from samepath.cluster.coordinator import by_name
from samepath.cluster.main import MainServer
from samepath.cluster.monitor.status import ClusterStatus
from samepath.cluster.placement.processes import ProcessPlacement
from samepath.cluster.placement.records import NodeSpec
from samepath.cluster.settings import MainSettings, Timeouts
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.digests import link
from samepath.core.errors import ClusterError
from samepath.core.states import Vector
from samepath.core.streams import stream
from samepath.simulator.carla.client import TicketClient, connect
from samepath.simulator.carla.records import Rotation, Settings, Transform, VehicleControl
from samepath.simulator.server.server import ServerSettings

_HEAD_BYTES: Final = 48
_READ_BYTES: Final = 1 << 20
_POLL_S: Final = 0.2


@dataclass
class StreamRecord:
    """What came over one stream: for each frame, in the order of arrival, its number and the digest of its content."""

    frames: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)

    def add(self, frame: int, content: bytes) -> None:
        """Note a message. Its number comes last: another thread waits for so many of them, and then reads the digests."""
        self.digests.append(hashlib.blake2b(content, digest_size=16).digest())
        self.frames.append(frame)


class _Stream:
    def __init__(self, key: int, host: str, port: int, stream: int) -> None:
        self.key = key
        self.heard = StreamRecord()
        self._data = bytearray()
        self.socket = socket.create_connection((host, port), timeout=30.0)
        self.socket.sendall(stream.to_bytes(4, "little"))
        self.socket.setblocking(False)

    def read(self) -> bool:
        """Take what has come; False: the other side has closed."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._data += data
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "little")
            if len(self._data) < 4 + size:
                break
            message = bytes(self._data[4 : 4 + size])
            del self._data[: 4 + size]
            self.heard.add(int.from_bytes(message[8:16], "little"), message[_HEAD_BYTES:])
        return bool(data)


class StreamListener:
    """Listens to many streams in a thread of its own, and names everything that comes by a digest."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._streams: dict[int, _Stream] = {}
        self._lock = threading.Lock()
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="samepath listener", daemon=True)
        self._thread.start()

    def listen(self, key: int, host: str, port: int, stream: int) -> None:
        """Listen to one more stream, under a key of one's own."""
        line = _Stream(key, host, port, stream)
        with self._lock:
            self._streams[key] = line
            self._selector.register(line.socket, selectors.EVENT_READ, line)

    def _run(self) -> None:
        while not self._over:
            for found, _ in self._selector.select(_POLL_S):
                line: _Stream = found.data
                if not line.read():
                    self._selector.unregister(line.socket)
                    line.socket.close()
            with self._changed:
                self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> None:
        """Wait until every stream has brought so many messages."""
        end_s = SYSTEM_CLOCK.monotonic_s() + timeout_s
        while True:
            behind = [key for key, line in self._streams.items() if len(line.heard.frames) < count]
            if not behind:
                return
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                have = len(self._streams[behind[0]].heard.frames)
                raise ClusterError(f"{count} frames of sensor {behind[0]} were wanted, but {have} came within {timeout_s:g} s")
            with self._changed:
                self._changed.wait(_POLL_S)

    def heard(self) -> dict[int, StreamRecord]:
        """Everything so far, by key."""
        return {key: line.heard for key, line in sorted(self._streams.items())}

    def close(self) -> None:
        """Stop listening."""
        self._over = True
        self._thread.join()
        for line in self._streams.values():
            line.socket.close()
        self._selector.close()


# Faults on purpose: which node is killed, frozen, drained or added before which tick. Drawn from a named stream.

Kind = Literal["kill", "freeze", "add", "drain"]
_KINDS: Final[tuple[Kind, ...]] = ("kill", "kill", "freeze", "add", "drain")


@dataclass(frozen=True)
class Fault:
    """Something that happens ``after_s`` after the command to tick; ``pick`` chooses the node among those there are."""

    tick: int
    kind: Kind
    after_s: float
    pick: float

    def __str__(self) -> str:
        return f"{self.kind} at tick {self.tick}"


def schedule(seed: int, ticks: int, count: int, tick_s: float = 0.02) -> tuple[Fault, ...]:
    """Faults at random, by tick; they fall anywhere within a tick of about ``tick_s``."""
    chance = stream(seed, "faults")
    made = [
        Fault(
            int(chance.integers(2, max(ticks - 5, 3))),
            _KINDS[int(chance.integers(0, len(_KINDS)))],
            float(chance.uniform(0.0, tick_s)),
            float(chance.uniform()),
        )
        for _ in range(count)
    ]
    return tuple(sorted(made, key=lambda fault: (fault.tick, fault.after_s)))


# The scene: cars that drive about a town, each with a camera, and other sensors on some of them.

CAMERAS: Final = (
    "sensor.camera.rgb",
    "sensor.camera.depth",
    "sensor.camera.semantic_segmentation",
    "sensor.camera.instance_segmentation",
    "sensor.camera.normals",
    "sensor.camera.optical_flow",
)
_OTHERS: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("sensor.lidar.ray_cast", {"points_per_second": 40000}),
    ("sensor.lidar.ray_cast_semantic", {"points_per_second": 40000}),
    ("sensor.other.radar", {}),
    ("sensor.other.imu", {"noise_accel_stddev_x": 0.1}),
    ("sensor.other.gnss", {"noise_alt_stddev": 0.5}),
)
_EVERY: Final = 8
"""One car in so many has the other sensors too."""
STEP_S: Final = 0.05
_DRIVE_TICKS: Final = 400
"""After so many ticks they roll out: nobody is to leave the map."""


@dataclass(frozen=True)
class SceneSettings:
    """How large the scenario is."""

    map_name: str = "town"
    cameras: int = 40
    width: int = 180
    height: int = 120
    others: bool = True


@dataclass(frozen=True)
class Scene:
    """The scenario as it was put up: the cars, and the sensors with their streams, in the order in which they were made."""

    cars: tuple[int, ...]
    sensors: tuple[tuple[int, int], ...]


def build_scene(world: TicketClient, settings: SceneSettings) -> Scene:
    """Load the map anew and put everything up; the same calls in the same order every time."""
    world.load(settings.map_name).result(120.0)
    world.apply_settings(Settings(synchronous_mode=True, fixed_delta_seconds=STEP_S)).result(30.0)
    points = world.spawn_points().result(30.0)
    cars = [
        world.spawn("vehicle.tesla.model3" if number % 3 else "vehicle.volkswagen.t2", points[number * 5 % len(points)])
        for number in range(settings.cameras)
    ]
    ids = [car.result(30.0).id for car in cars]
    made = []
    ahead = Transform(Vector(1.6, 0.0, 1.7), Rotation())
    for number, car in enumerate(ids):
        kind = CAMERAS[number % len(CAMERAS)]
        made.append(world.spawn(kind, ahead, car, image_size_x=settings.width, image_size_y=settings.height))
        if settings.others and number % _EVERY == 0:
            made += [world.spawn(name, ahead, car, **attributes) for name, attributes in _OTHERS]
    records = [sensor.result(60.0) for sensor in made]
    return Scene(tuple(ids), tuple((record.id, int.from_bytes(record.stream_token[:4], "little")) for record in records))


def drive(world: TicketClient, scene: Scene, tick: int) -> None:
    """Command all cars for a tick: each goes round in circles at its own pace. Depends on the tick's number alone."""
    for number, car in enumerate(scene.cars):
        if tick % 10 == number % 10:
            side = 1.0 if (tick // 100 + number) % 2 else -1.0
            throttle = 0.25 + 0.01 * (number % 7) if tick < _DRIVE_TICKS else 0.0
            world.control(car, VehicleControl(throttle=throttle, steer=(0.5 + 0.02 * (tick // 10 % 5)) * side))


_JOIN_S: Final = 300.0
_FRAME_S: Final = 120.0
_SPARED: Final = "node-1"
"""Clients listen through this node too, so no fault is for it."""


@dataclass(frozen=True)
class FaultRunSettings:
    """A run: how many nodes, for how long, which faults, and through how many of them clients listen.

    ``policy`` is how sensors are shared out; ``random`` draws a node for every sensor anew in every tick. ``renderers`` are
    those of the first node, the second and so on, in turn.
    """

    nodes: int = 2
    renderers: tuple[str, ...] = ("software",)
    ticks: int = 100
    scene: SceneSettings = field(default_factory=SceneSettings)
    faults: tuple[Fault, ...] = ()
    policy: str = "measured"
    shared_memory: bool = True
    listen_at_node: bool = False
    timeouts: Timeouts = field(default_factory=lambda: Timeouts(reissue_s=0.3, fence_s=1.5))


@dataclass(frozen=True)
class Outcome:
    """What came of a run. ``digests``: for every sensor one digest over everything it sent, tick by tick."""

    digests: Mapping[int, bytes]
    frames: int
    irregular: tuple[str, ...]
    status: ClusterStatus
    faults: tuple[str, ...]
    tick_s: tuple[float, ...]
    neighbour_bytes: int = 0  # that went from node to node where they lay

    @property
    def digest(self) -> str:
        """One digest over all."""
        return link(b"", b"".join(self.digests.values())).hex()


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="samepath faults", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def run_with_faults(settings: FaultRunSettings, log: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run from start to end; nothing of it is left when this returns."""
    run = _FaultRun(settings, log)
    try:
        return run.run()
    finally:
        run.close()


class _FaultRun:
    def __init__(self, settings: FaultRunSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self._loop = _Loop()
        self._listener = StreamListener()
        self._injected: list[str] = []
        self._stopped: list[str] = []
        self._frozen: list[int] = []
        self._timers: list[threading.Timer] = []
        server = ServerSettings(port=0, map_name=settings.scene.map_name)
        main = MainSettings(
            server=server, policy=settings.policy, shared_memory=settings.shared_memory, timeouts=settings.timeouts
        )
        self._main = MainServer(main, log, ProcessPlacement(log), failed=self._stopped.append)
        asyncio.run_coroutine_threadsafe(self._main.start(), self._loop.loop).result(60.0)

    def run(self) -> Outcome:
        settings, main = self._settings, self._main
        for number in range(1, settings.nodes + 1):
            main.place(self._spec(number))
        self._await_nodes(settings.nodes)
        with connect(f"127.0.0.1:{main.port}") as world:
            scene = build_scene(world, settings.scene)
            first = self._listen(world, scene)
            times = [self._tick(world, scene, tick) for tick in range(settings.ticks)]
        for timer in self._timers:
            timer.join()
        self._await_fences()
        heard = self._listener.heard()
        return Outcome(
            digests={sensor: link(b"", b"".join(record.digests)) for sensor, record in heard.items()},
            frames=sum(len(record.frames) for record in heard.values()),
            irregular=tuple(_irregular(heard, first, settings.ticks)),
            status=main.look(),
            faults=tuple(self._injected),
            tick_s=tuple(times),
            neighbour_bytes=main.link.counts.passed_bytes,
        )

    def _spec(self, number: int) -> NodeSpec:
        renderer = self._settings.renderers[(number - 1) % len(self._settings.renderers)]
        shared = self._settings.shared_memory
        return NodeSpec(f"node-{number}", number, self._main.link.endpoint, shared_memory=shared, renderer=renderer)

    def _await_nodes(self, count: int) -> None:
        end_s = SYSTEM_CLOCK.monotonic_s() + _JOIN_S
        while sum(member.state == "working" for member in self._main.shell.members()) < count:
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                raise ClusterError(f"{count} nodes were wanted, but only some joined within {_JOIN_S:g} s")
            SYSTEM_CLOCK.sleep_s(0.02)

    def _await_fences(self) -> None:
        """Wait until nodes that stand still are no longer counted on, which may be later than the last tick."""
        end_s = SYSTEM_CLOCK.monotonic_s() + _JOIN_S
        while any(member.hello.pid in self._frozen for member in self._main.shell.members()):
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                raise ClusterError(f"a node that stood still was still there {_JOIN_S:g} s later")
            SYSTEM_CLOCK.sleep_s(0.02)

    def _listen(self, world: TicketClient, scene: Scene) -> int:
        """Listen to all sensors; every second one through a node, if clients are to be there too. Returns the first frame."""
        main = self._main
        spared = by_name(main.shell.state, _SPARED)
        through = None
        if self._settings.listen_at_node and spared is not None:
            through = connect(spared.address)
        for number, (sensor, stream_id) in enumerate(scene.sensors):
            if through is not None and spared is not None and number % 2:
                through.call("get_sensor_token", stream_id).result(30.0)
                self._listener.listen(sensor, "127.0.0.1", spared.hello.stream_port, stream_id)
            else:
                world.call("get_sensor_token", stream_id).result(30.0)
                self._listener.listen(sensor, "127.0.0.1", main.stream_port, stream_id)
        if through is not None:
            through.close()
        return self._main.look().frame + 1

    def _tick(self, world: TicketClient, scene: Scene, tick: int) -> float:
        """One tick, and everything that is due of it; the time from the cue to the last byte."""
        if self._stopped:
            raise ClusterError(self._stopped[0])
        drive(world, scene, tick)
        due = [fault for fault in self._settings.faults if fault.tick == tick]
        for fault in due:
            timer = threading.Timer(fault.after_s, self._inject, (fault,))
            timer.daemon = True
            self._timers.append(timer)
            timer.start()
        start_s = SYSTEM_CLOCK.monotonic_s()
        world.tick().result(_FRAME_S)
        self._listener.wait(tick + 1, _FRAME_S)
        return SYSTEM_CLOCK.monotonic_s() - start_s

    # -- faults ------------------------------------------------------------------------------------------------------

    def _inject(self, fault: Fault) -> None:
        """Let something go wrong with a node of ours."""
        spare = (_SPARED,) if self._settings.listen_at_node else ()
        if fault.kind == "add":
            number = max(member.number for member in self._main.shell.members()) + 1 if self._main.shell.members() else 1
            if number <= 2 * self._settings.nodes + 2:
                self._main.place(self._spec(number))
                self._injected.append(str(fault))
            return
        # One that stands still is left alone, to be found out.
        there = [
            member
            for member in self._main.shell.members()
            if member.state == "working" and member.name not in spare and member.hello.pid not in self._frozen
        ]
        if not there:
            return
        member = there[int(fault.pick * len(there))]
        if fault.kind == "drain":
            if len(there) > 1:
                self._main.drain(member.name)
                self._injected.append(f"{fault} ({member.name})")
            return
        with suppress(ProcessLookupError):
            os.kill(member.hello.pid, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
            if fault.kind == "freeze":
                self._frozen.append(member.hello.pid)
            self._injected.append(f"{fault} ({member.name})")

    def close(self) -> None:
        """End everything."""
        for timer in self._timers:
            timer.cancel()
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._listener.close()
        asyncio.run_coroutine_threadsafe(self._main.stop(), self._loop.loop).result(60.0)
        self._loop.close()


def _irregular(heard: Mapping[int, StreamRecord], first: int, ticks: int) -> list[str]:
    """What is lost, doubled or out of order: every sensor sends exactly one message a tick."""
    wanted = list(range(first, first + ticks))
    return [
        f"sensor {sensor}: frames {record.frames[:3]} ... ({len(record.frames)}), not {first} to {first + ticks - 1}"
        for sensor, record in heard.items()
        if record.frames != wanted
    ]
