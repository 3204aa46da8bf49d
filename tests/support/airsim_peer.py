"""A stand-in for AirSim in car mode: MessagePack-RPC as its server speaks it, the calls and records of its documentation.

Written from AirSim's documentation and sources, not recorded from the program. It packs floats in 32 bits and time stamps in
nanoseconds, pauses at the end of a frame, and tells places relative to where settings.json put a car, as the program does.
"""

# Methods and arguments are named as they are on the wire.
# ruff: noqa: N802

import json
import math
import struct
import threading
import time

import msgpack

from tests.support.peer_cars import Car, Exchange, Fault, Server, advance, hang

HOMES = {"Car1": (4.0, -1.5), "Car2": (-4.0, 2.0)}
SETTINGS = {
    "SettingsVersion": 1.2,
    "SimMode": "Car",
    "ClockType": "SteppableClock",
    "ClockSpeed": 1.0,
    "Vehicles": {name: {"VehicleType": "PhysXCar", "X": x, "Y": y, "Z": 0} for name, (x, y) in HOMES.items()},
}
CONTROLS = {"throttle", "steering", "brake", "handbrake", "is_manual_gear", "manual_gear", "gear_immediate"}
_EPOCH_NS = 1_700_000_000_123_456_789


class AirSimPeer:
    """``frame_s`` is how long a frame takes in simulated time; with ``exchange``, answers are read instead of worked out."""

    def __init__(self, *, settings=None, frame_s=0.025, fault=None, exchange=None, version=1):
        self._settings = {**SETTINGS, **(settings or {})}
        self._frame_s, self._fault, self._version = frame_s, fault or Fault(), version
        self._cars = {name: Car(*place) for name, place in HOMES.items()}
        self._told = dict.fromkeys(HOMES, ("", 0))
        self._paused, self._asked, self._now_ns, self._behind = False, True, _EPOCH_NS, 0.0
        self._last_s = time.perf_counter()
        self._lock, self._over = threading.Lock(), threading.Event()
        self.exchange = Exchange(exchange) if exchange else None
        self.log = []
        self._server = Server(self._serve)
        self.port = self._server.port

    def end(self):
        self._over.set()
        self._server.end()

    def touch(self, name, other):
        """Let a car touch something now."""
        self._told[name] = (other, self._now_ns)

    def _serve(self, wire):
        reader = msgpack.Unpacker()
        packer = msgpack.Packer(use_single_float=True)
        while True:
            data = wire.recv(65536)
            if not data:
                return None
            reader.feed(data)
            for kind, number, method, params in reader:
                assert kind == 0
                match self._fault.due(method):
                    case "hang":
                        return hang(self._over)
                    case "drop":
                        return None
                    case "gone":
                        self._server.server_close()
                        return None
                    case "garbage":
                        wire.sendall(b"\xc1HTTP/1.1 400 Bad Request\r\n\r\n")
                        continue
                    case "nonsense":
                        wire.sendall(packer.pack([1, number, None, "nonsense"]))
                        continue
                    case "error":
                        wire.sendall(packer.pack([1, number, f"rpclib: function '{method}' threw an exception\n", None]))
                        continue
                with self._lock:
                    result = self._answer(method, params)
                    self.log.append([[method, params], result])
                wire.sendall(packer.pack([1, number, None, result]))

    def _answer(self, method, params):
        if self.exchange is not None:
            return self.exchange.answer([method, params])
        self._go_on()
        return getattr(self, f"on_{method}")(*params)

    def _go_on(self):
        """Make the frames that are due by the wall clock, where the program runs by itself."""
        now_s = time.perf_counter()
        if not self._paused:
            self._behind += (now_s - self._last_s) * self._settings["ClockSpeed"]
            while self._behind >= self._frame_s:
                self._frame()
                self._behind -= self._frame_s
        self._last_s = now_s

    def _frame(self):
        self._now_ns += int(self._frame_s * 1e9 + 1e-3)
        for a, b in advance(self._cars, self._frame_s):
            self._told[a], self._told[b] = (b, self._now_ns), (a, self._now_ns)

    def on_ping(self):
        return True

    def on_getMinRequiredClientVersion(self):
        return self._version

    def on_getSettingsString(self):
        return json.dumps(self._settings)

    def on_simLoadLevel(self, level):
        return level == "Blocks"

    def on_simPause(self, paused):
        self._paused = paused

    def on_simIsPaused(self):
        """The first answer after going on is no: a frame takes its time."""
        self._asked, before = True, self._asked
        return self._paused and before

    def on_simContinueForTime(self, seconds):
        until_ns = self._now_ns + round(seconds * self._settings["ClockSpeed"] * 1e9)
        while self._now_ns < until_ns:
            self._frame()
        self._asked = False

    def on_simContinueForFrames(self, frames):
        for _ in range(frames):
            self._frame()
        self._asked = False

    def on_reset(self):
        for name, place in HOMES.items():
            self._cars[name].put(*place, 0.0)
        self._told = dict.fromkeys(HOMES, ("", 0))

    def on_enableApiControl(self, enabled, name):
        assert name in HOMES
        assert isinstance(enabled, bool)

    def on_simGetVehiclePose(self, name):
        return {"position": self._place(name), "orientation": self._turn(name)}

    def on_simSetVehiclePose(self, pose, ignore_collision, name):
        assert ignore_collision is True
        place, turn = pose["position"], pose["orientation"]
        assert (turn["x_val"], turn["y_val"]) == (0.0, 0.0)
        north, east = HOMES[name]
        self._cars[name].put(north + place["x_val"], east + place["y_val"], 2 * math.atan2(turn["z_val"], turn["w_val"]))

    def on_setCarControls(self, controls, name):
        assert set(controls) == CONTROLS
        car = self._cars[name]
        car.throttle, car.steer = controls["throttle"], controls["steering"]
        car.brake = 1.0 if controls["handbrake"] else controls["brake"]

    def on_getCarState(self, name):
        car = self._cars[name]
        zero = _vector(0, 0, 0)
        kinematics = {
            "position": self._place(name),
            "orientation": self._turn(name),
            "linear_velocity": _vector(car.speed * math.cos(car.yaw), car.speed * math.sin(car.yaw), 0),
            "angular_velocity": zero,
            "linear_acceleration": zero,
            "angular_acceleration": zero,
        }
        rest = {"speed": _single(car.speed), "gear": 1, "rpm": 0.0, "maxrpm": 6000.0, "handbrake": False}
        return {**rest, "kinematics_estimated": kinematics, "timestamp": self._now_ns}

    def on_simGetCollisionInfo(self, name):
        other, stamp_ns = self._told[name]
        self._told[name] = ("", stamp_ns)
        zero = _vector(0, 0, 0)
        words = {"has_collided": bool(other), "penetration_depth": 0.0, "time_stamp": stamp_ns}
        places = {"normal": zero, "impact_point": zero, "position": zero}
        return {**words, **places, "object_name": other, "object_id": -1}

    def _place(self, name):
        car, (north, east) = self._cars[name], HOMES[name]
        return _vector(car.x_m - north, car.y_m - east, -0.65)

    def _turn(self, name):
        half = self._cars[name].yaw / 2
        return {"w_val": _single(math.cos(half)), **_vector(0, 0, math.sin(half))}


def _vector(x, y, z):
    return {"x_val": _single(x), "y_val": _single(y), "z_val": _single(z)}


def _single(value):
    """What the wire makes of a number, so that an exchange file has it as it was sent."""
    return struct.unpack("<f", struct.pack("<f", value))[0]
