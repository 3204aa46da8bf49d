"""What the stand-ins for AirSim and BeamNG.tech have in common: cars that obey pedals, wires that can be cut, exchanges.

These cars are kinematic: a bicycle that speeds up, slows down and turns, and stops where it meets another. That is enough to
close the loop of a driver. It says nothing about the programs that the stand-ins stand in for.
"""

import json
import math
import socketserver
import threading
import time
from contextlib import contextmanager, suppress

from tests.support import ROOT

EXCHANGES = ROOT / "tests" / "engines" / "exchanges"
_WHEEL_BASE_M, _MAX_STEER = 2.9, math.radians(60)


class Car:
    """A car in our frame: x, y, yaw to the right in radians; z up."""

    def __init__(self, x_m=0.0, y_m=0.0, yaw=0.0):
        self.x_m, self.y_m, self.yaw, self.speed = x_m, y_m, yaw, 0.0
        self.throttle = self.steer = self.brake = 0.0
        self.hit, self.damage = "", 0.0

    def put(self, x_m, y_m, yaw):
        self.x_m, self.y_m, self.yaw, self.speed = x_m, y_m, yaw, 0.0
        self.hit, self.damage = "", 0.0

    def advance(self, step_s):
        change = (3.0 * self.throttle - 6.0 * self.brake) * step_s
        self.speed = 0.0 if self.hit else max(0.0, self.speed + change)
        self.yaw += self.speed / _WHEEL_BASE_M * math.tan(self.steer * _MAX_STEER) * step_s
        self.x_m += self.speed * math.cos(self.yaw) * step_s
        self.y_m += self.speed * math.sin(self.yaw) * step_s


def advance(cars, step_s):
    """Move everybody; return those who met now, by name."""
    for car in cars.values():
        car.advance(step_s)
    met = []
    for a, striker in cars.items():
        for b, other in cars.items():
            if a < b and not striker.hit and math.dist((striker.x_m, striker.y_m), (other.x_m, other.y_m)) < 2.5:
                striker.hit, other.hit = b, a
                striker.damage = other.damage = 100.0 + striker.speed + other.speed
                met.append((a, b))
    return met


class Fault:
    """What goes wrong at request number ``at``, of those called ``request`` if it is given."""

    def __init__(self, kind="", at=0, request=""):
        self.kind, self.at, self.request, self.count = kind, at, request, 0

    def due(self, request):
        if not self.kind or (self.request and request != self.request):
            return ""
        self.count += 1
        return self.kind if self.count >= self.at else ""


class Server(socketserver.ThreadingTCPServer):
    """Listens on a free port of this machine and hands each connection to ``serve``."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, serve, port=0):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with suppress(OSError, EOFError):
                    serve(self.request)

        super().__init__(("127.0.0.1", port), Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


def receive(wire, count):
    data = b""
    while len(data) < count:
        part = wire.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def hang(over):
    """Answer nothing until the test is over."""
    while not over.is_set():
        time.sleep(0.01)


class Exchange:
    """Requests and answers of an exchange file, to be asked for in its order and in no other."""

    def __init__(self, name):
        self._pairs = json.loads((EXCHANGES / name).read_text("utf-8"))["exchange"]
        self._next = 0
        self.wrong = []

    def answer(self, request):
        """Return the answer to a request if it is the next one; what is not is remembered."""
        request = json.loads(json.dumps(request))
        if self._next >= len(self._pairs):
            self.wrong.append(f"{request} came after the end")
            return None
        wanted, answer = self._pairs[self._next]
        self._next += 1
        if not alike(wanted, request):
            self.wrong.append(f"number {self._next}: {wanted} was wanted, but {request} came")
        return answer

    @property
    def left(self):
        return len(self._pairs) - self._next


def alike(wanted, came):
    """Are two the same? Numbers may differ by what another machine's sines and cosines make of them."""
    if isinstance(wanted, dict) and isinstance(came, dict):
        return list(wanted) == list(came) and all(alike(wanted[name], came[name]) for name in wanted)
    if isinstance(wanted, list) and isinstance(came, list):
        return len(wanted) == len(came) and all(map(alike, wanted, came))
    if isinstance(wanted, float) and isinstance(came, float):
        return math.isclose(wanted, came, rel_tol=1e-9, abs_tol=1e-9)
    return type(wanted) is type(came) and wanted == came


def write_exchange(name, about, pairs):
    """Write an exchange file, one pair a line."""
    lines = ",\n".join(json.dumps(pair) for pair in pairs)
    (EXCHANGES / name).write_text(f'{{"about": {json.dumps(about)},\n"exchange": [\n{lines}\n]}}\n', "utf-8")


@contextmanager
def listening(peer):
    try:
        yield peer
    finally:
        peer.end()
