"""Malformed, mangled and merely odd messages for the server: a million of them, and nothing may happen. Then maps.

Four kinds of messages in turn: noise, calls of every method with odd arguments, real calls with bytes changed, and heads that
promise more than comes. After each the connection must be closed or still work; now and then another client is asked whether it
noticed anything, and memory is weighed.

Maps come from a grammar of OpenDRIVE (``tests/support/grammars``). Each is refused in one line, or all that a server makes of a
map is made: lanes, surfaces, spawn points, the mesh for walkers, a world that ticks. Anything else is a failure, and so is
taking longer or more memory than any real town: batches run in processes of their own, whose limits the kernel enforces.
``python -m bench.fuzz SEED FIRST COUNT`` tries some maps again; SAMEPATH_BENCH_MAPS says how many there are in all.

Recordings and tables (CSV, Parquet) come from grammars, too. Each is described, imported, analysed and played, or refused in
one line, in processes with limits. SAMEPATH_BENCH_FILES says how many there are of each. SAMEPATH_BENCH_FUZZ names the parts
that are wanted (``messages``, ``node-messages``, ``numbers``, ``files``, ``maps``; all if it is not set): each part
writes a separate result.

Numbers: every number of every method and of every blueprint is replaced by extreme ones that a client may send. A number
that is accepted must leave a world that ticks and whose snapshot goes on in the same way (``tests/support/extremes.py``).
"""

import asyncio
import json
import math
import os
import resource
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgpack
import numpy as np
import psutil

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.core.processes import describe_exit
from samepath.core.streams import stream
from samepath.simulator.carla import blueprints, codec
from samepath.simulator.carla import records as commands
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.commands import apply
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.maps import SENT, MapLibrary, ServedMap, served_map
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Call, Connection, RpcServer
from tests.support import ROOT
from tests.support.confined import confined
from tests.support.extremes import Trial, all_attributes, all_calls
from tests.support.fuzzed_main import FuzzedMain
from tests.support.grammars.node_messages import message_of_node
from tests.support.grammars.opendrive import opendrive_document
from tests.support.serving import call, described, episode

INPUTS = 1_000_000
MAPS = int(os.environ.get("SAMEPATH_BENCH_MAPS", "100000"))
MAPS_PER_PROCESS = 1000
NODE_MESSAGES = 200_000
FILES = int(os.environ.get("SAMEPATH_BENCH_FILES", "20000"))  # of each kind
FILES_PER_PROCESS = 500
# Of a whole batch, the interpreter apart; a single file takes some 15 ms.
FILES_CPU_S = 60
FILES_MIB = 800
# Of one message of a node, besides a hundred times its own bytes and a call for each: joining anew, for one that was taken out.
NODE_MESSAGE_BYTES = 4 << 20
NODE_MESSAGE_CALLS = 20_000
MAP_PROCESS = (sys.executable, "-m", "bench.fuzz")
# Of one map. Town04, the largest of CARLA's, takes 9 s and 140 MiB, and the server's own limits are 60 s and 1 GiB: a map that
# comes near them with a few thousand bytes of text has found something that the estimate of work does not count.
MAP_CPU_S = 10
MAP_BYTES = 512 << 20
_LINE_MOST = 4000
GROWTH_AIM_MIB = 64.0
# Small bounds, so that going beyond them costs little.
LIMITS = ServerLimits(
    message_bytes=1 << 16,
    structured_bytes=1 << 12,
    message_aside_bytes=1 << 17,  # all are read at once: the order of what happens must not depend on threads
    actors=60,
    opendrive_bytes=1 << 14,
    batch_commands=50,
)
ODD_NUMBERS = (
    0,
    1,
    -1,
    0.0,
    -0.0,
    1e-300,
    0.5,
    90.0,
    1e9,
    -1e9,
    1e10,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    2**31,
    2**32,
    2**63,
)
ODD_TEXTS = (
    "",
    "a",
    "../../etc/passwd",
    "/etc/passwd",
    "Nav",
    "\0",
    "é" * 50,
    "x" * 5000,
    "Town03",
    "sensor.other.gnss",
    "a\nb",
)
_HEADS = (
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\x7f\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\x00\xff\xff\xff",
    b"\x91" * 600,
    b"\xc9\xff\xff\xff\xff\x01",
)
_MAPS = (
    "",
    "<OpenDRIVE/>",
    "<a>" * 3000,
    '<OpenDRIVE><header revMajor="1" revMinor="4"/><road id="1" length="1e300"/></OpenDRIVE>',
)


class Fuzzer:
    """Makes inputs; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._chance = stream(seed, "fuzz")
        self._methods = list(methods().values())
        self.ids: list[int] = [1, 2, 3]  # of actors that may be there
        self._slow = {"load_new_episode", "replay_file", "start_recorder"}
        self._samples = {
            codec.u8: self._small, codec.u16: self._small, codec.u32: self._id, codec.u64: self._small, codec.i32: self._small,
            codec.number: self._number, codec.large: self._number, codec.flag: self._flag, codec.text: self._text,
            codec.long_text: self._text, r.vector: lambda: self._numbers(3), r.large_vector: lambda: self._numbers(3),
            r.rotation: lambda: self._numbers(3), r.transform: lambda: [self._numbers(3), self._numbers(3)],
            r.description: self._description, r.actor_ids: lambda: [self._id() for _ in range(self._pick(4))],
            r.object_ids: lambda: [self._small()], r.weather: lambda: self._numbers(14), commands.batch: self._batch,
            r.vehicle_control: lambda: [*self._numbers(3), *(self._flag() for _ in range(3)), self._small()],
            r.walker_control: lambda: [self._numbers(3), self._number(), self._flag()],
            r.ackermann_control: lambda: self._numbers(5), r.ackermann_settings: lambda: self._numbers(6),
            r.settings: self._settings,
        }  # fmt: skip

    def _pick(self, below: int) -> int:
        return int(self._chance.integers(below))

    def _flag(self) -> bool:
        return bool(self._pick(2))

    def _small(self) -> object:
        return self._pick(8) if self._pick(10) else ODD_NUMBERS[self._pick(len(ODD_NUMBERS))]

    def _id(self) -> object:
        return self.ids[self._pick(len(self.ids))] if self._pick(10) else self._any(1)

    def _number(self) -> object:
        if self._pick(4):
            return float(self._chance.normal(0.0, 30.0))
        return ODD_NUMBERS[self._pick(len(ODD_NUMBERS))]

    def _numbers(self, count: int) -> list[object]:
        return [self._number() for _ in range(count)]

    def _text(self) -> str:
        return ODD_TEXTS[self._pick(len(ODD_TEXTS))]

    def _description(self) -> list[object]:
        library = blueprints.library()
        blueprint = library[self._pick(len(library))]
        attributes = [
            [a.id, int(a.type), self._text() if self._pick(3) == 0 else a.value] for a in blueprint.attributes[: self._pick(6)]
        ]
        return [blueprint.uid, blueprint.id, attributes]

    def _batch(self) -> list[object]:
        return [[[self._pick(24), self._any(2) if self._pick(2) else [self._id(), self._any(1)]]] for _ in range(self._pick(5))]

    def _settings(self) -> list[object]:
        return [
            True,
            self._flag(),
            [True, self._number()],
            self._flag(),
            self._number(),
            self._small(),
            0.0,
            True,
            1.0,
            1.0,
            True,
        ]

    def _physics(self) -> list[object]:
        curve = [[0.0, 400.0], [5000.0, self._number()]]
        wheels = [[*self._few(9), self._few(3)] for _ in range(4)]
        gears = [self._few(3) for _ in range(1 + self._pick(3))]
        return [
            curve,
            *self._few(5),
            self._flag(),
            *self._few(3),
            gears,
            *self._few(2),
            self._few(3),
            curve,
            wheels,
            self._flag(),
        ]

    def _few(self, count: int) -> list[object]:
        """Mostly plain numbers: where all must be right, one odd one is enough."""
        return [self._number() if self._pick(40) == 0 else 1.0 + self._pick(30) for _ in range(count)]

    def _shape(self) -> list[object]:
        a, b = self._numbers(3), self._numbers(3)
        box = [[a, b, self._numbers(3), 0], self._numbers(3), 0.1]
        kinds = ([a, 0.1], [a, b, 0.1], [[a, b, 0.1], 0.1], box, [a, self._text(), True])
        kind = self._pick(9)
        return [[kind, kinds[kind % 5]], [1, 2, 3], self._number(), self._flag()]

    def _special(self, name: str) -> list[object] | None:
        """Arguments of methods whose shapes are their own."""
        found = {
            "apply_physics_control": lambda: [self._id(), self._physics()],
            "add_traffic_manager_running": lambda: [[self._text(), self._small()]],
            "set_vehicle_light_state": lambda: [self._id(), [self._pick(2048)]],
            "draw_debug_shape": lambda: [self._shape()],
            "copy_opendrive_to_file": lambda: [_MAPS[self._pick(len(_MAPS))], [2.0, 50.0, 1.0, 0.6, True, True, True]],
            "start_recorder": lambda: [self._text(), self._flag()],
            "replay_file": lambda: [self._text(), *self._numbers(2), 0, self._flag(), [self._numbers(3), self._numbers(3)]],
            "update_lights_state": lambda: ["a", [[self._small(), self._numbers(3), 1.0, 2, [1, 2, 3], True]], self._flag()],
        }.get(name)
        return None if found is None else found()

    def _any(self, depth: int) -> object:
        makers = (
            lambda: None,
            self._number,
            self._text,
            self._flag,
            lambda: self._chance.bytes(self._pick(30)),
            lambda: {self._text(): self._any(depth - 1)},
            lambda: [self._any(depth - 1) for _ in range(self._pick(5))],
        )
        return makers[self._pick(len(makers) if depth else 5)]()

    def call(self) -> bytes:
        """A call of some method; most arguments have the right shape."""
        method = self._methods[self._pick(len(self._methods))]
        if (method.name in self._slow and self._pick(10)) or self._pick(15) == 0:
            method = methods()["spawn_actor"]
        arguments = self._special(method.name)
        if arguments is None:
            arguments = [self._samples.get(reader, lambda: self._any(2))() for reader in method.readers]
        if self._pick(8) == 0:
            arguments = arguments[: self._pick(len(arguments) + 1)] + [self._any(2)] * self._pick(3)
        if self._pick(8) == 0 and arguments:
            arguments[self._pick(len(arguments))] = self._any(3)
        packed: bytes = msgpack.packb([0, self._pick(1 << 20), method.name, [[self._flag()], *arguments]])
        return packed

    def mangled(self) -> bytes:
        """A call with bytes changed, left out or doubled."""
        data = bytearray(self.call())
        for _ in range(1 + self._pick(3)):
            at = self._pick(len(data) or 1)
            deed = self._pick(4)
            if deed == 0 and data:
                data[at] = self._pick(256)
            elif deed == 1:
                del data[at : at + 1 + self._pick(8)]
            elif deed == 2:
                data[at:at] = data[at : at + self._pick(16)]
            else:
                data[at:at] = _HEADS[self._pick(len(_HEADS))]
        return bytes(data)

    def inputs(self) -> Iterator[bytes]:
        """All kinds in turn, for ever."""
        while True:
            yield self._chance.bytes(1 + self._pick(60))
            yield self.call()
            yield self.mangled()
            yield self.call()
            yield struct.pack("B", self._pick(256)) + _HEADS[self._pick(len(_HEADS))] + self._chance.bytes(self._pick(40))
            yield self.call()


class Line:
    """Stands for a socket: keeps what is written, until it is closed."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False


def _transport() -> type:
    import asyncio

    class Transport(asyncio.Transport):
        """A transport to nowhere."""

        def __init__(self) -> None:
            super().__init__()
            self.line = Line()

        def get_extra_info(self, name: str, default: object = None) -> object:
            return ("127.0.0.1", 1) if name == "peername" else default

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

        def get_write_buffer_size(self) -> int:
            return 0

        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes) -> None:
            self.line.written += data

        def abort(self) -> None:
            self.line.closed = True

        def pause_reading(self) -> None:
            pass

        def resume_reading(self) -> None:
            pass

    return Transport


class Nowhere:
    """An outbox that forgets."""

    def publish(self, stream_id: int, payload: bytes) -> None:
        """Forget a message."""

    def prepare(self, payload: bytes) -> None:
        """Forget a state."""

    def expect(self, stream_id: int, home: int) -> None:
        """Forget a listener."""

    def forget(self, stream_id: int) -> None:
        """Forget a stream."""


class Target:
    """A server without sockets: what a connection would get is given to it, and its calls are made at once."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        self._transport = _transport()
        log = self.lines.append
        place = EpisodeContext(MapLibrary({}, log, LIMITS), Nowhere(), folder, 2001, LIMITS, log)
        self.episode = Episode(place, "t-junction")
        self.episode.settings = self.episode.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
        self.rpc = RpcServer(methods(), self._do, self._run, self._do, lambda _: None, log, LIMITS)
        self.witness = self.connect()
        self.closed = 0

    def _run(self, call: Call) -> bytes:
        return apply(self.episode, call)

    def _do(self, call: Call) -> None:
        call.caller.answer(call.id, self._run(call))

    def connect(self) -> Connection:
        """A new connection."""
        caller = Connection(self.rpc)
        caller.connection_made(self._transport())
        return caller

    def ask(self, caller: Connection, name: str) -> object:
        """Make a call and return its result."""
        line = caller._transport.line
        line.written.clear()
        caller.data_received(msgpack.packb([0, 99, name, [[False]]]))
        answer = msgpack.unpackb(bytes(line.written))
        line.written.clear()
        return answer[3]

    def take(self, data: bytes) -> None:
        """Give one input to a fresh connection: it must be closed, waiting for more, or work."""
        caller = self.connect()
        line = caller._transport.line
        caller.data_received(data)
        if line.closed:
            self.closed += 1
        for _ in msgpack.Unpacker(_reader(bytes(line.written)), strict_map_key=False):
            pass  # every answer is MessagePack
        caller.connection_lost(None)

    def check(self) -> None:
        """Is the other client's world as it should be?"""
        assert self.ask(self.witness, "version") == [[1, "0.9.16"]]
        self.episode.settings = self.episode.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
        before = self.episode.frame
        assert self.ask(self.witness, "tick_cue") == [[1, before + 1]]
        assert np.isfinite(self.episode.actors.states.rows["motion"]).all()

    def renew(self) -> None:
        """Begin again with an empty world."""
        self.episode.load("t-junction", reset_settings=False, layers=0xFFFF)


def _reader(data: bytes) -> object:
    import io

    return io.BytesIO(data)


def run(count: int, seed: int, folder: Path, *, renew_every: int = 3000, check_every: int = 200) -> dict[str, float]:
    """Feed ``count`` inputs; return figures. Whatever goes wrong is an exception or a line in the log."""
    return asyncio.run(_feed(count, seed, folder, renew_every, check_every))  # connections live in an event loop


async def _feed(count: int, seed: int, folder: Path, renew_every: int, check_every: int) -> dict[str, float]:
    target, process, fuzzer = Target(folder), psutil.Process(), Fuzzer(seed)
    start, first_mib, most_mib = SYSTEM_CLOCK.monotonic_s(), 0.0, 0.0
    for number, data in enumerate(fuzzer.inputs(), start=1):
        target.take(data)
        if number % check_every == 0:
            await asyncio.sleep(0)  # let timers run that inputs have set
            target.check()
            fuzzer.ids = [entry.id for entry in target.episode.actors][-20:]
            ours = [line for line in target.lines if "error of ours" in line]
            assert not ours, ours[0]
            target.lines.clear()
        if number % renew_every == 0:
            target.renew()
        if number % 5000 == 0:
            mib = process.memory_info().rss / (1 << 20)
            first_mib = mib if number <= count // 10 or not first_mib else first_mib
            most_mib = max(most_mib, mib)
        if number >= count:
            break
    target.check()
    seconds = SYSTEM_CLOCK.monotonic_s() - start
    return {
        "inputs": count,
        "per_s": count / seconds,
        "closed": target.closed,
        "growth_mib": max(most_mib - first_mib, 0.0),
        "clients_left": len(target.rpc.connections) - 1,
    }


@dataclass(frozen=True)
class MapFigures:
    """What became of maps; a failure names its document."""

    taken: int = 0
    refused: int = 0
    failures: tuple[str, ...] = ()
    slowest_s: float = 0.0

    def __add__(self, other: "MapFigures") -> "MapFigures":
        failures = self.failures + other.failures
        return MapFigures(
            self.taken + other.taken, self.refused + other.refused, failures, max(self.slowest_s, other.slowest_s)
        )


def run_maps(count: int, seed: int, *, processes: int = 1, child: Sequence[str] = MAP_PROCESS) -> MapFigures:
    """Try so many maps in processes with limits, each started with the command ``child``."""
    batches = [(first, min(MAPS_PER_PROCESS, count - first)) for first in range(0, count, MAPS_PER_PROCESS)]
    with ThreadPoolExecutor(processes) as pool:
        return sum(pool.map(lambda batch: _try_batch(child, seed, *batch), batches), MapFigures())


def _try_batch(child_command: Sequence[str], seed: int, first: int, count: int) -> MapFigures:
    """Try maps one after the other; where one ends the process that tries it, another process goes on behind it."""
    figures, end = MapFigures(), first + count
    while first < end:
        command = [*child_command, str(seed), str(first), str(end - first)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as child:
            last_words = ""
            for line in child.stdout or ():
                last_words = line.strip()
                if not line.startswith("["):
                    continue
                number, what, words, cpu_s = json.loads(line)
                first = number + 1
                bad = (f"map {number} of seed {seed}: {words}",) if what == "failed" else ()
                figures += MapFigures(what == "taken", what == "refused", bad, cpu_s)
        if child.returncode != 0:
            ended = f"map {first} of seed {seed}: the process {describe_exit(child.returncode)}: {last_words[:300]}"
            figures = replace(figures, failures=(*figures.failures, ended))
            first += 1
    return figures


def _try_maps(seed: int, first: int, count: int) -> None:
    """In the child: try maps, one line each; the kernel ends this process where a map takes too much."""
    host = episode()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MAP_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, first + count):
        document = opendrive_document(seed, number)
        start_s = _cpu_s()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(start_s) + MAP_CPU_S, resource.RLIM_INFINITY))
        what, words = _tried(host, document)
        print(json.dumps([number, what, words, _cpu_s() - start_s]), flush=True)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _tried(host: Episode, xodr: str) -> tuple[str, str]:
    """What becomes of one map, and in which words."""
    try:
        library = host.context.maps
        library.keep(library.read(xodr, tried=True))
        scene = served_map(SENT, library.open(SENT)[1])
        _ = scene.navigation
    except SamepathError as error:
        words = str(error)
        good = "\n" not in words and 0 < len(words) <= _LINE_MOST
        return ("refused", words) if good else ("failed", f"one line was wanted, but this came: {words[:300]!r}")
    except Exception as error:  # what the server would have said is one line, too, but nobody thought of this map
        return "failed", f"{type(error).__name__}: {error}"
    try:
        _use(host, scene)
    except Exception as error:  # it was taken: from now on nothing may be wrong with it
        return "failed", f"it was taken, but then: {type(error).__name__}: {error}"
    return "taken", ""


def _use(host: Episode, scene: ServedMap) -> None:
    """All that clients can have of a map: the world on it, the calls that describe it, ways along its lanes."""
    call(host, "load_new_episode", SENT, True, 0xFFFF)
    host.settings = host.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
    for _ in range(2):
        call(host, "tick_cue")
    for name, *arguments in (
        ("get_map_info",),
        ("get_map_data",),
        ("get_all_level_BBs", 255),
        ("get_environment_objects", 255),
    ):
        call(host, name, *arguments)
    for point in scene.spawn_points[:1]:
        with suppress(CallError):  # a pole may stand there
            call(host, "spawn_actor", described("vehicle.tesla.model3"), point)
        call(host, "tick_cue")
    if not np.isfinite(host.actors.states.rows["motion"]).all():
        raise ValueError("an actor is nowhere")
    road_map = scene.road_map
    _ = road_map.digest, road_map.topology(), road_map.crosswalks
    if any(line.kind == "driving" for line in road_map.lanes):
        here = road_map.waypoint(3.0, 4.0)
        _ = road_map.next(here, 0.5), road_map.previous(here, 0.5), road_map.left_lane(here), road_map.right_lane(here)


@dataclass(frozen=True)
class NodeMessageFigures:
    """What came of messages of a node: it stayed, or was taken out; its frames that were delivered, and what one cost at most.

    ``failures`` names the messages after which something happened that must not, or that cost too much.
    """

    taken: int
    refused: int
    delivered: int
    most_bytes: int
    most_calls: int
    failures: tuple[str, ...]


def run_node_messages(count: int, seed: int, folder: Path) -> NodeMessageFigures:
    """Let a node of a cluster say what a grammar makes; counted are its main server's memory and calls of functions."""
    target = FuzzedMain(folder)
    taken = most_bytes = most_calls = calls = 0
    failures: list[str] = []

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    target.hear(*message_of_node(seed, 0))  # imports and first uses are nobody's cost
    tracemalloc.start()
    try:
        for number in range(count):
            content, bulk = message_of_node(seed, number)
            size_bytes = len(content) + sum(map(len, bulk))
            before_bytes, calls = tracemalloc.get_traced_memory()[0], 0
            tracemalloc.reset_peak()
            sys.setprofile(note)
            try:
                taken += target.hear(content, bulk)
            except Exception as error:
                failures.append(f"message {number} of seed {seed}: {type(error).__name__}: {error}")
            finally:
                sys.setprofile(None)
            spent_bytes = tracemalloc.get_traced_memory()[1] - before_bytes
            most_bytes, most_calls = max(most_bytes, spent_bytes), max(most_calls, calls)
            if spent_bytes > NODE_MESSAGE_BYTES + 100 * size_bytes or calls > NODE_MESSAGE_CALLS + size_bytes:
                failures.append(
                    f"message {number} of seed {seed}: {size_bytes} bytes cost {spent_bytes} bytes and {calls} calls"
                )
    finally:
        tracemalloc.stop()
    return NodeMessageFigures(taken, count - taken, target.delivered, most_bytes, most_calls, tuple(failures))


def _node_messages() -> bool:
    start_s = SYSTEM_CLOCK.monotonic_s()
    with tempfile.TemporaryDirectory() as folder:
        found = run_node_messages(NODE_MESSAGES, 1, Path(folder))
    per_s = NODE_MESSAGES / (SYSTEM_CLOCK.monotonic_s() - start_s)
    met = not found.failures and found.taken > 0
    show(
        "messages of a node, from a grammar",
        ["messages", "per second", "taken", "refused", "failures", "most memory and calls of one", ""],
        [
            [
                f"{NODE_MESSAGES:,}",
                f"{per_s:,.0f}",
                f"{found.taken:,}",
                f"{found.refused:,}",
                f"{len(found.failures):,}",
                f"{found.most_bytes:,} bytes, {found.most_calls:,}",
                verdict(met=met),
            ]
        ],
    )
    for line in found.failures[:20]:
        print(line)
    save("fuzz_node_messages", {"messages": NODE_MESSAGES, "per_s": per_s, **asdict(found)})
    return met


def _numbers() -> bool:
    """Extreme numbers in every place."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        for name, arguments in all_calls(trial.scene):
            trial.call(name, arguments)
        for blueprint, name, text in all_attributes():
            trial.attribute(blueprint, name, text)
        trial.close()
    found = trial.figures
    met = not found.failures and 0 < found.refused < found.tried
    row = [f"{found.tried:,}", f"{found.refused:,}", f"{len(found.failures):,}", verdict(met=met)]
    show("extreme numbers", ["tried", "refused in a line", "failures", ""], [row])
    for line in found.failures[:20]:
        print(line)
    save("fuzz_numbers", asdict(found))
    return met


def main() -> bool:
    """Feed a million inputs, a hundred thousand maps and messages of nodes; return whether nothing happened."""
    parts = {"messages": _messages, "node-messages": _node_messages, "numbers": _numbers, "files": _files, "maps": _maps}
    asked = os.environ.get("SAMEPATH_BENCH_FUZZ", ",".join(parts)).split(",")
    unknown = [name for name in asked if name not in parts]
    if unknown:
        raise SystemExit(f"SAMEPATH_BENCH_FUZZ: some of {', '.join(parts)} were wanted, but {unknown[0]!r} came")
    found = [parts[name]() for name in parts if name in asked]  # also those behind one that failed
    return all(found)


def _files() -> bool:
    """Recordings and tables from grammars, in processes with limits; what fails names its file."""
    batches = [(kind, first) for kind in ("recordings", "tables") for first in range(0, FILES, FILES_PER_PROCESS)]

    def read(batch: tuple[str, int]) -> tuple[Counter[str], list[str]]:
        kind, first = batch
        try:
            found = confined(
                f"tests.support.reading:read_{kind}", 1, first, FILES_PER_PROCESS, memory_mib=FILES_MIB, cpu_s=FILES_CPU_S
            )
        except AssertionError as error:
            return Counter(), [f"{kind} from {first}: {error}"]
        return Counter({f"{kind}_{what}": count for what, count in found.items()}), []

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = list(pool.map(read, batches))
    counts = sum((count for count, _ in done), Counter[str]())
    failures = [line for _, lines in done for line in lines]
    kinds = ("recordings", "tables")
    failed = {kind: sum(line.startswith(kind) for line in failures) for kind in kinds}
    good = {kind: not failed[kind] and counts[f"{kind}_read"] and counts[f"{kind}_refused"] for kind in kinds}
    show(
        "recordings and tables from grammars",
        ["files", "read", "refused in a line", "failures", "aim", ""],
        [
            [
                f"{FILES:,} {kind}",
                f"{counts[f'{kind}_read']:,}",
                f"{counts[f'{kind}_refused']:,}",
                f"{failed[kind]:,}",
                f"no failure, {FILES_PER_PROCESS} in {FILES_CPU_S} s and {FILES_MIB} MiB",
                verdict(met=bool(good[kind])),
            ]
            for kind in kinds
        ],
    )
    for line in failures[:20]:
        print(line)
    save("fuzz_files", {"files": FILES, **counts, "failures": failures})
    return all(good.values())


def _maps() -> bool:
    start_s = SYSTEM_CLOCK.monotonic_s()
    found = run_maps(MAPS, 1, processes=len(os.sched_getaffinity(0)))
    per_s = MAPS / (SYSTEM_CLOCK.monotonic_s() - start_s)
    met = not found.failures and found.taken > 0
    show(
        "maps from a grammar of OpenDRIVE",
        ["maps", "per second", "taken", "refused in a line", "failures", "most processor time of one", "aim", ""],
        [
            [
                f"{MAPS:,}",
                f"{per_s:,.0f}",
                f"{found.taken:,}",
                f"{found.refused:,}",
                f"{len(found.failures):,}",
                f"{found.slowest_s:.1f} s",
                f"no failure, {MAP_CPU_S} s, {MAP_BYTES >> 20} MiB",
                verdict(met=met),
            ]
        ],
    )
    for line in found.failures[:20]:
        print(line)
    save("fuzz_maps", {"maps": MAPS, "per_s": per_s, **asdict(found)})
    return met


def _messages() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        figures = run(INPUTS, 1, Path(folder))
        outside = list(Path(folder).parent.glob("etc/*"))
    met = figures["growth_mib"] <= GROWTH_AIM_MIB and figures["clients_left"] == 0 and not outside
    show(
        "malformed and odd messages",
        ["inputs", "per second", "connections closed", "memory grown", "aim", ""],
        [
            [
                f"{figures['inputs']:,}",
                f"{figures['per_s']:,.0f}",
                f"{figures['closed']:,}",
                f"{figures['growth_mib']:.1f} MiB",
                f"{GROWTH_AIM_MIB:g} MiB, no error",
                verdict(met=met),
            ]
        ],
    )
    save("fuzz", dict(figures))
    return met


if __name__ == "__main__":
    _try_maps(*map(int, sys.argv[1:4]))
