"""A stand-in for BeamNG.tech: length-prefixed MessagePack over TCP, a connection for the program and one for each vehicle.

Written from what BeamNGpy sends and takes, not recorded from the program. Places are right-handed with z up, a car is told by
a reference node ahead of its middle; which way an unturned car looks can be chosen, because it is not documented.

``beamng_peer.py -tport PORT`` is the stand-in as a program of its own.
"""

# Methods and arguments are named as they are on the wire.
# ruff: noqa: N802, N803

import json
import math
import os
import re
import struct
import sys
import threading
import time

import msgpack

from tests.support.peer_cars import Car, Exchange, Fault, Server, advance, hang, receive

PROTOCOL = "v1.27"
NODE_AHEAD_M = 0.4
PORT = "a port"  # in exchange files
_CLOCK_S = 12.34  # what the program's clock shows when it is first asked


class BeamNGPeer:
    """``unturned`` is where an unturned car looks, in degrees against the clock from x; ``sense`` 1 or -1, how angles count.

    Running by itself it is ``pace`` times as fast as the wall clock; its own clock shows ``clock`` times what has passed.
    """

    def __init__(self, *, port=0, fault=None, exchange=None, unturned=-90.0, sense=1, protocol=PROTOCOL, clock=1.0, pace=1.0):
        self._fault, self._protocol, self._clock, self._pace = fault or Fault(), protocol, clock, pace
        self._unturned, self._sense = math.radians(unturned), sense
        self._cars, self._paused, self._rate_hz, self._frames, self._behind = {}, False, 60, 0, 0.0
        self._last_s = time.perf_counter()
        self._lock, self._over, self._servers = threading.Lock(), threading.Event(), []
        self.exchange = Exchange(exchange) if exchange else None
        self.log = []
        self.port = self._listen("program", port)

    def _listen(self, who, port=0):
        server = Server(lambda wire: self._serve(wire, who), port)
        self._servers.append(server)
        return server.port

    def end(self):
        self._over.set()
        for server in self._servers:
            server.end()

    def dent(self, vid):
        """Damage a car, whatever by."""
        self._cars[vid].damage += 1.0

    def _serve(self, wire, who):
        while True:
            request = msgpack.unpackb(receive(wire, struct.unpack("!I", receive(wire, 4))[0]))
            fault = self._fault.due(request["type"])
            if fault == "hang":
                return hang(self._over)
            if fault == "drop":
                return None
            if fault == "garbage":
                wire.sendall(struct.pack("!I", 24) + b"\xc1HTTP/1.1 400 Bad Request")
                continue
            if fault == "crash":
                sys.stderr.write("Lua stack overflow\n")
                sys.stderr.flush()
                os._exit(3)
            with self._lock:
                answer = self._answer(who, request) if fault != "error" else {"bngError": "no such\nvehicle"}
                if fault == "nonsense":
                    answer = {"type": answer["type"], "data": {"state": {"state": {"pos": "here"}}, "damage": {}}}
                self.log.append([[who, request], self._written(answer)])
            packed = msgpack.packb({**answer, "_id": request["_id"]})
            wire.sendall(struct.pack("!I", len(packed)) + packed)

    def _written(self, answer):
        return {**answer, "result": PORT} if answer.get("type") == "StartVehicleConnection" else answer

    def _answer(self, who, request):
        if self.exchange is not None:
            answer = self.exchange.answer([who, request]) or {"bngError": "that is not in the exchange"}
            return {**answer, "result": self._listen(answer["vid"])} if answer.get("result") == PORT else answer
        self._go_on()
        given = {name: value for name, value in request.items() if name not in ("type", "_id")}
        if who == "program" or request["type"] == "Hello":
            return getattr(self, f"on_{request['type']}")(**given)
        return getattr(self, f"car_{request['type']}")(self._cars[who], **given)

    def _go_on(self):
        now_s = time.perf_counter()
        if not self._paused:
            self._behind += (now_s - self._last_s) * self._pace
            while self._behind >= 1 / self._rate_hz:
                self._frame()
                self._behind -= 1 / self._rate_hz
        self._last_s = now_s

    def _frame(self):
        self._frames += 1
        advance(self._cars, 1 / self._rate_hz)

    def on_Hello(self, protocolVersion):
        assert protocolVersion == PROTOCOL
        return {"type": "Hello", "protocolVersion": self._protocol}

    def on_GetSystemInfo(self, **_what):
        return {"type": "GetSystemInfo", "os": {"type": "linux"}, "tech": True}

    def on_GetEnvironmentPaths(self):
        return {"type": "GetEnvironmentPaths", "home": "/opt/beamng", "user": "/home/user/beamng/0.36"}

    def on_SetPhysicsDeterministic(self, speedFactor):
        assert speedFactor is None
        return {"type": "SetPhysicsDeterministic"}

    def on_SetPhysicsNonDeterministic(self):
        return {"type": "SetPhysicsNonDeterministic"}

    def on_FPSLimit(self, fps):
        self._rate_hz = fps
        return {"type": "SetFPSLimit"}

    def on_CreateScenario(self, level, name, prefab, info, **_how):
        assert level == "smallgrid"
        assert info["prefabs"] == [f"levels/{level}/scenarios/{name}/{name}.prefab.json"]
        decoder, place = json.JSONDecoder(), 0
        self._cars = {}
        while match := re.compile(r"\s*(?=\{)").match(prefab, place):
            entry, place = decoder.raw_decode(prefab, match.end())
            if entry.get("class") == "BeamNGVehicle":
                x, y, _ = entry["position"]
                self._cars[entry["name"]] = Car(x, -y, 0.0)
        return {"type": "CreateScenario", "result": f"/levels/{level}/scenarios/{name}/{name}.json"}

    def on_LoadScenario(self, path, precompileShaders):
        assert path.endswith("samepath.json")
        return {"type": "MapLoaded"}

    def on_GetPlayerVehicleID(self):
        return {"type": "getPlayerVehicleID", "id": 7, "vid": next(iter(self._cars))}

    def on_StartScenario(self, restrict_actions):
        return {"type": "ScenarioStarted"}

    def on_StopScenario(self):
        return {"type": "ScenarioStopped"}

    def on_Pause(self):
        self._paused = True
        return {"type": "Paused"}

    def on_Resume(self):
        self._paused = False
        return {"type": "Resumed"}

    def on_StartVehicleConnection(self, vid):
        return {"type": "StartVehicleConnection", "vid": vid, "result": self._listen(vid)}

    def on_Step(self, count, ack):
        assert self._paused
        assert ack is True
        for _ in range(count):
            self._frame()
        return {"type": "Stepped"}

    def on_Teleport(self, vehicle, pos, rot, reset, safe_spawn):
        assert (reset, safe_spawn, rot[:2]) == (True, False, [0.0, 0.0])
        angle = self._unturned + self._sense * 2 * math.atan2(rot[2], rot[3])
        yaw = -angle
        x, y = pos[0] - NODE_AHEAD_M * math.cos(yaw), -pos[1] - NODE_AHEAD_M * math.sin(yaw)
        self._cars[vehicle].put(x, y, yaw)
        return {"type": "Teleported", "success": True}

    def car_SetShiftMode(self, _car, mode):
        assert mode == 2
        return {"type": "ShiftModeSet"}

    def car_Control(self, car, steering, throttle, brake, parkingbrake):
        car.steer, car.throttle, car.brake = steering, throttle, max(brake, parkingbrake)
        return {"type": "Controlled"}

    def car_GetMassProperties(self, car, withoutWheels):
        place = [car.x_m, -car.y_m, 0.5]
        return {"type": "GetMassProperties", "data": {"mass": 1600.0, "center_of_gravity": place, "inertia": {}}}

    def car_SensorRequest(self, car, sensors):
        assert sensors == {"state": {"type": "State"}, "damage": {"type": "Damage"}}
        ahead = [math.cos(car.yaw), -math.sin(car.yaw), 0.0]
        state = {
            "time": _CLOCK_S + self._clock * self._frames / self._rate_hz,
            "pos": [car.x_m + NODE_AHEAD_M * ahead[0], -car.y_m + NODE_AHEAD_M * ahead[1], 0.3],
            "dir": ahead,
            "up": [0.0, 0.0, 1.0],
            "vel": [car.speed * ahead[0], car.speed * ahead[1], 0.0],
            "rotation": [0.0, 0.0, math.sin(-car.yaw / 2), math.cos(-car.yaw / 2)],
        }
        data = {"state": {"type": "State", "state": state}, "damage": {"type": "Damage", "damage": car.damage}}
        return {"type": "SensorData", "data": data}


if __name__ == "__main__":
    given = dict(zip(sys.argv, sys.argv[1:], strict=False))
    kind, _, request = given.get("-fault", "").partition(":")
    BeamNGPeer(port=int(given["-tport"]), fault=Fault(kind, 1, request))
    threading.Event().wait()
