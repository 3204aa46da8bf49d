"""Ten thousand hostile messages of many kinds beside an honest client: its calls, the server's memory, and SIGTERM.

Four attackers send messages that are legal MessagePack within every limit of size, made to cost much:
millions of nils, empty arrays, maps and extensions, deep nesting, thousands of calls in one piece,
batches that cannot be read, texts that take four bytes for each of theirs, answers that nobody fetches.

An honest client of another process calls the attacked server and a quiet one in turn. The quiet one shows
what a call takes by itself. Two times are kept of each call: by the wall clock, and the processor time that
the server spent between the call and its answer. The second is what the call would have waited for on
processors of its own, and the aim is held against it: where other work keeps a machine busy, a server that
is attacked waits for a processor, and a quiet one does not.

Messages of legal heavy use (a batch of 20,000 commands is atomic, so a tick waits for it) are sent to
another server; those calls have no aim. Then each kind is sent alone by several clients, and the server
gets SIGTERM in the middle of it. ``SAMEPATH_BENCH_HOSTILE`` says how many messages are sent.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgpack
import numpy as np

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.simulator.carla import blueprints
from tests.support.rpc import RawRpc
from tests.support.serve_processes import ServePool, ServeProcess, serve_pool

MESSAGES = int(os.environ.get("SAMEPATH_BENCH_HOSTILE", "10000"))
ATTACKERS = 4
MEMORY_MIB = 256
ADDED_S_MAX = 0.1
SIGTERM_S_MAX = 5.0
# An attacker keeps so many connections whose answers it does not fetch.
_UNREAD = 20
_ANSWER_S = 60.0
_MIB = 1 << 20


def _array(item: bytes, count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def _map(item: bytes, count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big") + item * count


def _text(content: bytes) -> bytes:
    return b"\xdb" + len(content).to_bytes(4, "big") + content


def _call(name: str, *arguments: bytes, metadata: bytes = b"\x91\xc2") -> bytes:
    return b"\x94\x00\x01" + msgpack.packb(name) + bytes([0x91 + len(arguments)]) + metadata + b"".join(arguments)


_FALSE, _NIL = b"\xc2", b"\xc0"
_CONTROL = msgpack.packb([[2, [7, [0.5, 0.1, 0.0, False, False, False, 0]]]])
_SMALL = msgpack.packb([0, 1, "version", [[False]]])


def _spawns() -> bytes:
    """A batch of spawns, each with as many commands behind it as the limit lets pass."""
    cone = blueprints.find("static.prop.trafficcone01")
    after = [[[1, [4_000_000_000]]]] * 900
    spawn = [[0, [[cone.uid, cone.id, []], [[0.0, 0.0, 9e8], [0.0] * 3], [False], 0, "", after]]]
    return msgpack.packb([spawn] * 22)


# What is sent, by kind, and how often in relation to the others: the largest are rare.
KINDS: Mapping[str, tuple[int, Callable[[], bytes]]] = {
    "30 MB of nils as arguments": (1, lambda: b"\x94\x00\x01\xa7version" + _array(_NIL, 30_000_000)),
    "30 MB of nils as metadata": (1, lambda: _call("version", metadata=_array(_NIL, 30_000_000))),
    "30 MB of nils as ids": (1, lambda: _call("get_actors_by_id", _array(_NIL, 30_000_000))),
    "30 MB of text as a name": (1, lambda: _call("get_required_files", _text(b"x" * 30_000_000))),
    "15 MB of text with one wide character": (
        1,
        lambda: _call("copy_opendrive_to_file", _text(b"<" * 15_000_000 + "😀".encode()), b"\x90"),
    ),
    "30 MB of text of wide characters": (
        1,
        lambda: _call("copy_opendrive_to_file", _text("漢".encode() * 10_000_000), b"\x90"),
    ),
    "2 MB of empty arrays as ids": (10, lambda: _call("get_actors_by_id", _array(b"\x90", 2_000_000))),
    "2 MB of empty maps as ids": (10, lambda: _call("get_actors_by_id", _array(b"\x80", 2_000_000))),
    "2 MB of extensions as ids": (10, lambda: _call("get_actors_by_id", _array(b"\xd4\x01\x01", 690_000))),
    "2 MB of a map as a number": (10, lambda: _call("destroy_actor", _map(b"\x01\x80", 1_000_000))),
    "2 MB of tiny texts as physics": (10, lambda: _call("apply_physics_control", b"\x01", _array(b"\xa1x", 1_000_000))),
    "arrays 900 deep, then 2 MB": (10, lambda: _call("get_actors_by_id", b"\x91" * 900 + _array(b"\x90", 2_000_000))),
    "arrays 100,000 deep": (10, lambda: _call("get_actors_by_id", b"\x91" * 100_000 + _NIL)),
    "a batch of arrays of maps": (5, lambda: _call("apply_batch", _array(b"\xdc\x00\x60" + b"\x80" * 96, 20_000), _FALSE)),
    "a batch of extensions": (
        5,
        lambda: _call("apply_batch", _array(b"\xdc\x00\x20" + b"\xd4\x01\x01" * 32, 20_000), _FALSE),
    ),
    "a description of maps": (
        10,
        lambda: _call("spawn_actor", b"\x93\x01\xa1x" + _array(b"\xdc\x0f\xa0" + b"\x80" * 4_000, 500), _NIL),
    ),
    "15,000 calls in one piece": (3, lambda: _SMALL * 15_000),
    "250,000 nils in one piece": (20, lambda: _NIL * 250_000),
    "a nil, an id that is an array": (100, lambda: b"\x94\x00" + _array(_NIL, 1_000) + b"\xa7version\x90"),
    "a name of 60,000 letters": (100, lambda: b"\x94\x00\x01" + b"\xda\xea\x60" + b"x" * 60_000 + b"\x91\x91\xc2"),
    "more to come than is sent": (100, lambda: b"\x94\x00\x01\xa7version\xdd\xff\xff\xff\xff" + _NIL * 1_000),
    "32 KiB of maps as a number": (100, lambda: _call("destroy_actor", _array(b"\x80", 32_000))),
    "a batch of 300 maps": (100, lambda: _call("apply_batch", _array(b"\x80", 300), _FALSE)),
    "answers that nobody fetches": (40, lambda: msgpack.packb([0, 1, "get_map_data", [[False]]]) * 200),
    "definitions that nobody fetches": (40, lambda: msgpack.packb([0, 1, "get_actor_definitions", [[False]]]) * 200),
}
# Nothing is wrong with these, but they take long to do.
LEGAL: Mapping[str, tuple[int, Callable[[], bytes]]] = {
    "a batch of 20,000 controls of nobody": (1, lambda: _call("apply_batch", _array(_CONTROL, 20_000), _FALSE)),
    "a batch of commands behind commands": (1, lambda: _call("apply_batch", _spawns(), _FALSE)),
    "100,000 ids of nobody": (4, lambda: _call("get_actors_by_id", _array(b"\xce\xff\xff\xff\xf0", 100_000))),
}
LEGAL_MESSAGES = 200
_NOT_FETCHED = frozenset(kind for kind in KINDS if "nobody fetches" in kind)


@cache
def message(kind: str) -> bytes:
    """The bytes of a kind, made once."""
    return {**KINDS, **LEGAL}[kind][1]()


class Attack:
    """Sends messages to a server from several connections until all are sent, or for ever."""

    def __init__(self, port: int, kinds: Iterator[str], attackers: int = ATTACKERS) -> None:
        self.sent: Counter[str] = Counter()
        self.closed = 0  # connections that the server ended
        self.silent = 0  # messages that were neither answered nor ended the connection
        self._port = port
        self._kinds = kinds
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(attackers)]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until everything is sent."""
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """Send no more."""
        self._is_over.set()

    def _next(self) -> str | None:
        with self._lock:
            return None if self._is_over.is_set() else next(self._kinds, None)

    def _run(self) -> None:
        client: socket.socket | None = None
        unread: list[socket.socket] = []
        try:
            while (kind := self._next()) is not None:
                try:
                    if client is None:
                        client = socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_S)
                    client = self._send(client, kind, unread)
                except OSError as error:
                    if client is not None:
                        client.close()
                    client = None
                    self.silent += isinstance(error, TimeoutError)
                    self.closed += not isinstance(error, TimeoutError)
                    if self._is_over.is_set():
                        return
                self.sent[kind] += 1
        finally:
            for one in (*unread, *([client] if client is not None else [])):
                one.close()

    def _send(self, client: socket.socket, kind: str, unread: list[socket.socket]) -> socket.socket | None:
        """Send a message; returns the connection if it can be used again."""
        if kind in _NOT_FETCHED:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(0.05)
            unread.append(client)
            while len(unread) > _UNREAD:
                unread.pop(0).close()
            with suppress(TimeoutError):  # the server reads no further
                client.sendall(message(kind))
            return None
        client.sendall(message(kind))
        if kind == "more to come than is sent":
            client.close()
            return None
        answers = message(kind).count(_SMALL) if kind.endswith("calls in one piece") else 1
        unpacker = msgpack.Unpacker(max_buffer_size=64 * _MIB)
        while answers > 0:
            data = client.recv(1 << 18)
            if not data:
                self.closed += 1
                client.close()
                return None
            unpacker.feed(data)
            answers -= sum(1 for _ in unpacker)
        return client


def mixed(count: int, kinds: Mapping[str, tuple[int, object]] = KINDS, seed: int = 1) -> Iterator[str]:
    """As many kinds as messages, each at least once and in proportion to how often it is sent."""
    chance = stream(seed, "bench", "hostile")
    names = list(kinds)
    weights = np.array([weight for weight, _ in kinds.values()], dtype=float)
    chosen = [*names, *chance.choice(names, max(count - len(names), 0), p=weights / weights.sum()).tolist()][:count]
    chance.shuffle(chosen)
    return iter(chosen)


# Of each call and server the times of all calls: by the wall clock, and the processor time of the server meanwhile.
Times = dict[str, list[list[tuple[float, float]]]]


@contextmanager
def honest_client(*servers: ServeProcess) -> Iterator[Callable[[], Times]]:
    """A client of another process that calls each server in turn; the function ends it and returns its times."""
    command = [sys.executable, "-m", "bench.hostile", *(f"{server.port}:{server.pid}" for server in servers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stdin, stdout = process.stdin, process.stdout

        def finish() -> Times:
            stdin.close()
            found: Times = json.loads(stdout.read())
            return found

        try:
            yield finish
        finally:
            process.kill()


def _be_honest(servers: list[str]) -> None:
    """Make calls until standard input is closed; print how long each took, by call and server (port and process)."""
    numbers = [tuple(map(int, server.split(":"))) for server in servers]
    clients = [RawRpc("127.0.0.1", port, _ANSWER_S) for port, _ in numbers]
    # The kernel's clock of the processor time of another process.
    clocks = [(~pid << 3) | 2 for _, pid in numbers]
    for client in clients:
        settings = client.value("get_episode_settings")
        settings[0], settings[2] = True, [True, 0.05]
        client.value("set_episode_settings", settings)
    calls = {
        "version": (),
        "get_episode_settings": (),
        "get_map_info": (),
        "get_actors_by_id": ([1, 2, 3],),
        "tick_cue": (),
    }
    times: Times = {name: [[] for _ in numbers] for name in calls}
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("ready", flush=True)
    while not over.is_set():
        for name, arguments in calls.items():
            for client, clock, taken in zip(clients, clocks, times[name], strict=True):
                start_s, spent_s = SYSTEM_CLOCK.monotonic_s(), time.clock_gettime(clock)
                client.value(name, *arguments)
                taken.append((SYSTEM_CLOCK.monotonic_s() - start_s, time.clock_gettime(clock) - spent_s))
        SYSTEM_CLOCK.sleep_s(0.005)
    print(json.dumps(times), flush=True)


def peak_memory_mib(pid: int) -> float:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def end_s(server: ServeProcess) -> float:
    """Send SIGTERM; returns how long the server took to end, which it must do by itself."""
    start_s = SYSTEM_CLOCK.monotonic_s()
    server.signal(signal.SIGTERM)
    code = server.wait(_ANSWER_S)
    if code != 0:
        raise SystemExit(f"the server ended with {code}: {server.lines[-5:]}")
    return SYSTEM_CLOCK.monotonic_s() - start_s


def sigterm_s(pool: ServePool, folder: Path, kind: str) -> float:
    """How long a server takes to end while messages of one kind come."""
    with pool.serve(folder, "--memory-mib", MEMORY_MIB, "--map", "town") as server:
        server.ready()

        def forever() -> Iterator[str]:
            while True:
                yield kind

        attack = Attack(server.port, forever())
        with server.client() as client:
            while attack.sent.total() < ATTACKERS:
                client.value("version")
        taken_s = end_s(server)
        attack.end()
        attack.wait()
        return taken_s


def attacked(pool: ServePool, folder: Path, kinds: Mapping[str, tuple[int, object]], messages: int) -> dict[str, object]:
    """Send kinds of messages to one server, beside an honest client of it and of a quiet server."""
    arguments = ("--memory-mib", MEMORY_MIB, "--map", "town")
    with pool.serve(folder, *arguments) as server, pool.serve(folder, *arguments) as quiet:
        server.ready()
        quiet.ready()
        with honest_client(server, quiet) as finish:
            start_s = SYSTEM_CLOCK.monotonic_s()
            attack = Attack(server.port, mixed(messages, kinds))
            attack.wait()
            took_s = SYSTEM_CLOCK.monotonic_s() - start_s
            # Both have started alike and have had the same honest client; the rest is the attack's.
            peak_mib = peak_memory_mib(server.pid) - peak_memory_mib(quiet.pid)
            times = finish()
        return {
            "messages": attack.sent.total(),
            "took_s": took_s,
            "kinds": {kind: attack.sent[kind] for kind in kinds},
            "connections_closed": attack.closed,
            "without_an_answer": attack.silent,
            "calls": {name: _spread(*taken) for name, taken in times.items()},
            "peak_growth_mib": peak_mib,
            "load_average": os.getloadavg()[0],
            "errors_of_ours": sum("error of ours" in line or "Traceback" in line for line in server.lines),
        }


def _spread(attacked: list[tuple[float, float]], quiet: list[tuple[float, float]]) -> dict[str, object]:
    """How long calls took, of both servers by both clocks."""
    found: dict[str, object] = {"count": len(attacked)}
    for server, taken in (("attacked", attacked), ("quiet", quiet)):
        for clock, values in zip(("wall", "processor"), zip(*taken, strict=True), strict=True):
            found[f"{server}_{clock}_s"] = {name: float(np.percentile(values, share)) for name, share in _SHARES.items()}
    return found


_SHARES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


def added_s(spread: dict[str, dict[str, float]]) -> float:
    """The most that the attack adds to a call, at any of the shares."""
    return max(spread["attacked_processor_s"][name] - spread["quiet_processor_s"][name] for name in _SHARES)


def main() -> bool:
    """Attack, measure, end."""
    with serve_pool() as pool, tempfile.TemporaryDirectory() as name:
        hostile = attacked(pool, Path(name), KINDS, MESSAGES)
        legal = attacked(pool, Path(name), LEGAL, LEGAL_MESSAGES)
        ends_s = {kind: sigterm_s(pool, Path(name), kind) for kind in (*KINDS, *LEGAL)}
    figures = {"memory_mib": MEMORY_MIB, "hostile": hostile, "legal": legal, "sigterm_s": ends_s}
    calls: dict[str, dict[str, dict[str, float]]] = hostile["calls"]  # type: ignore[assignment]
    good = {
        "calls": max(map(added_s, calls.values())) <= ADDED_S_MAX,
        "memory": hostile["peak_growth_mib"] <= MEMORY_MIB,  # type: ignore[operator]
        "SIGTERM": max(ends_s.values()) <= SIGTERM_S_MAX,
        "errors": not hostile["errors_of_ours"] and not hostile["without_an_answer"],
    }
    for title, found in (("hostile", hostile), ("legal heavy", legal)):
        rows = [[call, *_row(spread)] for call, spread in found["calls"].items()]  # type: ignore[attr-defined]
        what = f"{found['messages']} {title} messages: calls of an honest client in ms (of a quiet server)"
        show(what, ["call", "calls", *(f"{clock} {share}" for clock in ("wall", "processor") for share in _SHARES)], rows)
    memory = f"{hostile['peak_growth_mib']:.0f} of {MEMORY_MIB} MiB"
    verdicts = ", ".join(f"{name} {verdict(met=bool(met))}" for name, met in good.items())
    show("the server", ["memory", "SIGTERM at most", "aims"], [[memory, f"{max(ends_s.values()):.1f} s", verdicts]])
    save("hostile", figures)
    return all(good.values())


def _row(spread: dict[str, dict[str, float]]) -> list[str]:
    cells = [
        f"{1e3 * spread[f'attacked_{clock}_s'][share]:.1f} ({1e3 * spread[f'quiet_{clock}_s'][share]:.1f})"
        for clock in ("wall", "processor")
        for share in _SHARES
    ]
    return [str(spread["count"]), *cells]


if __name__ == "__main__":
    _be_honest(sys.argv[1:])
