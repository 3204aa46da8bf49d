"""Sessions by hand: recordings made event by event, a proxy in a thread, and a server of which every byte is known."""

import asyncio
import hashlib
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import msgpack
import numpy as np

from samepath.sessions import recording
from samepath.sessions.proxy import ProxySettings, SessionProxy

SCRIPTS = Path(__file__).parent / "session_scripts"


def row(actor, x=0.0, **changes):
    """One actor's state; further changes are bytes by offset, such as b109=7."""
    found = np.zeros(recording.ROW_BYTES, np.uint8)
    found[:4] = np.frombuffer(np.uint32(actor).tobytes(), np.uint8)
    found[4] = 1
    found[5:9] = np.frombuffer(np.float32(x).tobytes(), np.uint8)
    for name, value in changes.items():
        found[int(name[1:])] = value
    return found.tobytes()


def description(kind):
    return [0, kind, []]


def actor(number, kind, port=1):
    box = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], number]
    return [number, 0, description(kind), box, b"", port.to_bytes(24, "little")]


class MadeSession:
    """Writes a recording; frames and calls count by themselves."""

    def __init__(self, path, frame=10, facts=None):
        self.path = path
        self.writer = recording.SessionWriter(path, recording.SessionHeader(recording.VERSION, "test", facts or {}))
        self.frame = frame
        self.calls = 0
        self.rows = recording.SessionRows()

    def connect(self, connection=1):
        self.writer.add(recording.SessionConnection(connection, None, True, 0.0))
        return self

    def call(self, method, *arguments, connection=1, result=(("x",),), answered=True):
        self.calls += 1
        packed = msgpack.packb([[False], *arguments])
        content = recording.SessionContent.of(packed, 1 << 16)
        self.writer.add(recording.SessionCall(self.calls, connection, method, content, self.frame, 0.001 * self.calls))
        if method == "tick_cue" and result == (("x",),):
            result = [[1, self.frame + 1]]
        if answered:
            self.answer(self.calls, result)
        return self

    def answer(self, number, result, refused=False):
        content = recording.SessionContent.of(msgpack.packb(result), 1 << 16)
        self.writer.add(recording.SessionAnswer(number, refused, content, self.frame))
        return self

    def synchronous(self, on=True):
        settings = [on, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]
        return self.call("set_episode_settings", settings, result=[[1, self.frame]])

    def spawn(self, number, kind="vehicle.tesla.model3"):
        result = [[1, actor(number, kind)]]
        return self.call("spawn_actor", description(kind), [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], result=result)

    def state(self, *rows, frame=None, delta_s=0.05):
        self.frame = self.frame + 1 if frame is None else frame
        data = b"".join(rows)
        positions, kept = self.rows.changes(data)
        digest = hashlib.blake2b(data, digest_size=16).digest()
        self.writer.add(recording.SessionState(self.frame, 0.0, delta_s, 1, 0, len(rows), digest, positions, kept))
        return self

    def tick(self, *rows, **changes):
        return self.call("tick_cue").state(*rows, **changes)

    def sensor(self, digest, stream=2):
        self.writer.add(recording.SessionFrame(stream, 4, self.frame, 10, digest * 16))
        return self

    def drive(self, number, throttle):
        return self.call("apply_control_to_vehicle", number, [throttle, 0.0, 0.0, False, False, False, 0], result=[[False]])

    def done(self):
        self.writer.close("the end")
        return recording.read_session(self.path)


@contextmanager
def proxied(server_port, path, **changes):
    """A proxy in a thread of this process; yields it with ``lines``, its log."""
    lines, loop = [], asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    settings = ProxySettings(changes.pop("server_host", "127.0.0.1"), server_port, port=0, **changes)
    proxy = SessionProxy(settings, path, lines.append)
    proxy.lines = lines
    try:
        do(proxy.start())
        try:
            yield proxy
        finally:
            do(proxy.stop("the test ended"))
            do(asyncio.sleep(0.01))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


class KnownServer:
    """Takes one connection, keeps what comes, and sends what it is told to."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.socket = None
        self.received = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.socket is not None:
            self.socket.close()
        self.listener.close()

    def accept(self):
        self.listener.settimeout(60)
        self.socket, _ = self.listener.accept()
        self.socket.settimeout(60)

    def receive(self, size):
        """Wait until so many bytes have come in all."""
        while len(self.received) < size:
            data = self.socket.recv(1 << 16)
            assert data, f"{size} bytes were waited for, but only {len(self.received)} came"
            self.received += data
        return bytes(self.received)


def connected(port):
    return socket.create_connection(("127.0.0.1", port), 20)


def receive(connection, size):
    found = bytearray()
    while len(found) < size:
        data = connection.recv(min(1 << 16, size - len(found)))
        assert data, f"{size} bytes were waited for, but only {len(found)} came"
        found += data
    return bytes(found)
