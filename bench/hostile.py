"""Ten thousand hostile messages of many kinds beside an honest client: its calls, the server's memory, and SIGTERM.

Four attackers send messages that are legal MessagePack within every limit of size, made to cost much:
millions of nils, empty arrays, maps and extensions, deep nesting, thousands of calls in one piece,
batches that cannot be read, texts that take four bytes for each of theirs, answers that nobody fetches.

An honest client of another process calls the attacked server and a quiet one in turn. The quiet one shows
what a call takes by itself on this machine at this time, so the difference is what the attack adds. Then
each kind is sent alone, several times at once, and the server gets SIGTERM in the middle of it.
``SAMEPATH_BENCH_HOSTILE`` says how many messages are sent.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
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
    "a batch of 20,000 controls of nobody": (5, lambda: _call("apply_batch", _array(_CONTROL, 20_000), _FALSE)),
    "a batch of commands behind commands": (5, lambda: _call("apply_batch", _spawns(), _FALSE)),
    "a description of maps": (
        10,
        lambda: _call("spawn_actor", b"\x93\x01\xa1x" + _array(b"\xdc\x0f\xa0" + b"\x80" * 4_000, 500), _NIL),
    ),
    "100,000 ids of nobody": (20, lambda: _call("get_actors_by_id", _array(b"\xce\xff\xff\xff\xf0", 100_000))),
    "15,000 calls in one piece": (20, lambda: _SMALL * 15_000),
    "250,000 nils in one piece": (20, lambda: _NIL * 250_000),
    "a nil, an id that is an array": (100, lambda: b"\x94\x00" + _array(_NIL, 1_000) + b"\xa7version\x90"),
    "a name of 60,000 letters": (100, lambda: b"\x94\x00\x01" + b"\xda\xea\x60" + b"x" * 60_000 + b"\x91\x91\xc2"),
    "more to come than is sent": (100, lambda: b"\x94\x00\x01\xa7version\xdd\xff\xff\xff\xff" + _NIL * 1_000),
    "32 KiB of maps as a number": (100, lambda: _call("destroy_actor", _array(b"\x80", 32_000))),
    "a batch of 300 maps": (100, lambda: _call("apply_batch", _array(b"\x80", 300), _FALSE)),
    "answers that nobody fetches": (40, lambda: msgpack.packb([0, 1, "get_map_data", [[False]]]) * 200),
    "definitions that nobody fetches": (40, lambda: msgpack.packb([0, 1, "get_actor_definitions", [[False]]]) * 200),
}
_NOT_FETCHED = frozenset(kind for kind in KINDS if "nobody fetches" in kind)


@cache
def message(kind: str) -> bytes:
    """The bytes of a kind, made once."""
    return KINDS[kind][1]()


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
                except TimeoutError:
                    self.silent += 1
                    client = None
                except OSError:
                    self.closed += 1
                    client = None
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
                return None
            unpacker.feed(data)
            answers -= sum(1 for _ in unpacker)
        return client


def mixed(count: int, seed: int = 1) -> Iterator[str]:
    """As many kinds as messages, each at least once and in proportion to how often it is sent."""
    chance = stream(seed, "bench", "hostile")
    names = list(KINDS)
    weights = np.array([weight for weight, _ in KINDS.values()], dtype=float)
    chosen = [*names, *chance.choice(names, max(count - len(names), 0), p=weights / weights.sum()).tolist()][:count]
    chance.shuffle(chosen)
    return iter(chosen)


@contextmanager
def honest_client(*ports: int) -> Iterator[Callable[[], dict[str, list[list[float]]]]]:
    """A client of another process that calls each server in turn; the function ends it and returns its times by call."""
    command = [sys.executable, "-m", "bench.hostile", *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stdin, stdout = process.stdin, process.stdout

        def finish() -> dict[str, list[list[float]]]:
            stdin.close()
            found: dict[str, list[list[float]]] = json.loads(stdout.read())
            return found

        try:
            yield finish
        finally:
            process.kill()


def _be_honest(ports: list[int]) -> None:
    """Make calls until standard input is closed; print how long each took, by call and server."""
    clients = [RawRpc("127.0.0.1", port, _ANSWER_S) for port in ports]
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
    times: dict[str, list[list[float]]] = {name: [[] for _ in ports] for name in calls}
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("ready", flush=True)
    while not over.is_set():
        for name, arguments in calls.items():
            for client, taken in zip(clients, times[name], strict=True):
                start_s = SYSTEM_CLOCK.monotonic_s()
                client.value(name, *arguments)
                taken.append(SYSTEM_CLOCK.monotonic_s() - start_s)
        SYSTEM_CLOCK.sleep_s(0.005)
    print(json.dumps(times), flush=True)


def memory_mib(pid: int, name: str) -> float:
    """A line of a process's memory: ``VmRSS`` now, ``VmHWM`` at most."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


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


def attacked(pool: ServePool, folder: Path, messages: int) -> dict[str, object]:
    """Send all kinds to one server, beside an honest client of it and of a quiet server."""
    arguments = ("--memory-mib", MEMORY_MIB, "--map", "town")
    with pool.serve(folder, *arguments) as server, pool.serve(folder, *arguments) as quiet:
        server.ready()
        quiet.ready()
        with honest_client(server.port, quiet.port) as finish:
            with server.client() as client:
                client.value("get_map_data")
            before_mib = memory_mib(server.pid, "VmRSS")
            attack = Attack(server.port, mixed(messages))
            attack.wait()
            peak_mib = memory_mib(server.pid, "VmHWM") - before_mib
            times = finish()
        last = Attack(server.port, mixed(messages, seed=2))
        SYSTEM_CLOCK.sleep_s(0.5)
        ended_s = end_s(server)
        last.end()
        last.wait()
    calls = {}
    for name, (taken, alone) in times.items():
        shares = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
        calls[name] = {"calls": len(taken)} | {
            word: {"attacked_s": float(np.percentile(taken, share)), "quiet_s": float(np.percentile(alone, share))}
            for word, share in shares.items()
        }
    return {
        "messages": attack.sent.total(),
        "kinds": dict(attack.sent),
        "connections_closed": attack.closed,
        "without_an_answer": attack.silent,
        "calls": calls,
        "memory_mib": MEMORY_MIB,
        "peak_growth_mib": peak_mib,
        "sigterm_s": ended_s,
        "errors_of_ours": sum("error of ours" in line or "Traceback" in line for line in server.lines),
    }


def main() -> bool:
    """Attack, measure, end."""
    with serve_pool() as pool, tempfile.TemporaryDirectory() as name:
        figures = attacked(pool, Path(name), MESSAGES)
        ends_s = {kind: sigterm_s(pool, Path(name), kind) for kind in KINDS}
    figures["sigterm_by_kind_s"] = ends_s
    calls = figures["calls"]
    assert isinstance(calls, dict)
    words = ("p50", "p99", "p99.9", "max")
    added_s = {name: max(found[word]["attacked_s"] - found[word]["quiet_s"] for word in words) for name, found in calls.items()}
    figures["added_s"] = added_s
    slowest_s = max(*ends_s.values(), figures["sigterm_s"])
    good = {
        "calls": max(added_s.values()) <= ADDED_S_MAX,
        "memory": figures["peak_growth_mib"] <= MEMORY_MIB,
        "SIGTERM": slowest_s <= SIGTERM_S_MAX,
        "errors": not figures["errors_of_ours"] and not figures["without_an_answer"],
    }
    rows = [
        [name, str(found["calls"])]
        + [f"{1e3 * found[word]['attacked_s']:.1f} ({1e3 * found[word]['quiet_s']:.1f})" for word in words]
        for name, found in calls.items()
    ]
    show("an honest client's calls in ms, and those of a quiet server", ["call", "calls", *words], rows)
    show(
        f"{figures['messages']} hostile messages of {len(KINDS)} kinds",
        ["memory", "SIGTERM at most", "closed", "aims"],
        [
            [
                f"{figures['peak_growth_mib']:.0f} of {MEMORY_MIB} MiB",
                f"{slowest_s:.1f} s",
                str(figures["connections_closed"]),
                ", ".join(f"{name} {verdict(met=met)}" for name, met in good.items()),
            ]
        ],
    )
    save("hostile", figures)
    return all(good.values())


if __name__ == "__main__":
    _be_honest([int(port) for port in sys.argv[1:]])
