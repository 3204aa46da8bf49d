"""A rig on a CARLA server: its sensors are spawned with the client, and what they send becomes digests of the trace's ticks.

A sensor's message comes when it comes, in a thread of the client's, and may be of any frame. In synchronous time a tick waits
until every sensor has sent that of its frame: then nothing depends on when a message arrived. On the server's own clock
nobody waits, and a tick has what was there; a frame that is missing is missing in the trace.

Whether pictures repeat themselves is what a study finds out: on our own server they do, to the bit. The server's age, by which
a LiDAR turns, is the same in every repeat: the world is loaded anew and led to one time before anybody is spawned (``run.py``).
"""

import queue
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SimulatorError
from samepath.engines.carla.engine import CarlaActor, CarlaConnection, SpawnedActors
from samepath.instrument.traces.recorder import Recorder

CarlaData = Any
# Frames that wait for their tick, of one sensor: seconds of them, far more than a client is ever behind.
_KEPT_MOST: Final = 256
# What says something when something happens, and nothing at most frames: no digest could be waited for.
_SILENT: Final = ("sensor.other.obstacle", "sensor.other.collision", "sensor.other.lane_invasion")
_NUMBERS: Final[dict[str, Callable[[CarlaData], list[float]]]] = {
    "sensor.other.gnss": lambda data: [data.latitude, data.longitude, data.altitude],
    "sensor.other.imu": lambda data: [
        *(data.accelerometer.x, data.accelerometer.y, data.accelerometer.z),
        *(data.gyroscope.x, data.gyroscope.y, data.gyroscope.z),
        data.compass,
    ],
}
# The rows of what comes as raw bytes and is no picture: type of the numbers, and how many there are in a row.
_ROWS: Final = {
    "sensor.lidar.ray_cast": ("<f4", 4),
    "sensor.lidar.ray_cast_semantic": ("<u4", 6),
    "sensor.other.radar": ("<f4", 4),
}


class CarlaSensing:
    """The sensors of a rig on one actor: :meth:`record` what they saw at a tick, :meth:`close` them."""

    def __init__(self, connection: CarlaConnection, actors: SpawnedActors, rig: str, recorder: Recorder, samples: int) -> None:
        from samepath.simulator.sensors.rig import load_rig
        from samepath.simulator.sensors.sensor import require_sensors

        require_sensors()
        self._connection, self._recorder = connection, recorder
        self._samples_every = samples * recorder.log_every
        self._rig = load_rig(rig)
        self._heard: dict[str, queue.SimpleQueue[tuple[int, NDArray[Any]]]] = {}
        self._waiting: dict[str, deque[tuple[int, NDArray[Any]]]] = {}
        self._sensors: list[CarlaActor] = []
        for sensor in self._rig.sensors:
            if sensor.type in _SILENT or sensor.attributes.get("sensor_tick", 0):
                raise InputError(f"rig {self._rig.name}: sensor {sensor.name!r}: one that measures at every frame was wanted")
        parent = self._parent(actors)
        for sensor in self._rig.sensors:
            self._spawn(actors, sensor, parent)

    def _parent(self, actors: SpawnedActors) -> CarlaActor:
        types = actors.types
        wanted = self._rig.actor or next((number for number, name in types.items() if name.startswith("vehicle.")), None)
        if wanted not in types:
            raise InputError(f"rig {self._rig.name}: actor: a vehicle or one of {sorted(types)} was wanted, but {wanted} came")
        return actors.actor(wanted)

    def _spawn(self, actors: SpawnedActors, sensor: Any, parent: CarlaActor) -> None:  # noqa: ANN401 - a MountedSensor
        carla, blueprint = self._connection.carla, actors.blueprint(sensor.type)
        for name, value in sensor.attributes.items():
            if not blueprint.has_attribute(name):
                raise InputError(f"rig {self._rig.name}: sensor {sensor.name!r}: the server's {sensor.type} has no {name!r}")
            blueprint.set_attribute(name, str(value))
        place = carla.Transform(
            carla.Location(*sensor.at), carla.Rotation(pitch=sensor.pitch, yaw=sensor.yaw, roll=sensor.roll)
        )
        made = self._connection.world.spawn_actor(blueprint, place, attach_to=parent)
        self._sensors.append(made)
        heard: queue.SimpleQueue[tuple[int, NDArray[Any]]] = queue.SimpleQueue()
        self._heard[sensor.name], self._waiting[sensor.name] = heard, deque(maxlen=_KEPT_MOST)
        # Copied in the client's thread: the memory of a message is the client's, and gone when the listener returns.
        made.listen(lambda data, kind=sensor.type: heard.put((data.frame, content_of(kind, data))))

    def record(self, tick: int, frame: int) -> None:
        """Record what every sensor saw at a frame of the server, which is this tick of the trace."""
        if not self._recorder.wants(tick):
            return
        keep = self._samples_every > 0 and tick % self._samples_every == 0
        for sensor in self._rig.sensors:
            seen = self._of_frame(sensor.name, frame)
            if seen is not None:
                self._recorder.sensor(tick, sensor.name, sensor.type, seen, keep=keep)

    def _of_frame(self, name: str, frame: int) -> NDArray[Any] | None:
        """Return what a sensor saw at a frame, waiting for it where the server waits for us; None: nothing came."""
        settings, waiting, heard = self._connection.settings, self._waiting[name], self._heard[name]
        until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
        while True:
            while waiting and waiting[0][0] < frame:
                waiting.popleft()
            if waiting:
                return waiting.popleft()[1] if waiting[0][0] == frame else None
            try:
                waiting.append(heard.get(block=settings.synchronous, timeout=max(0.0, until_s - SYSTEM_CLOCK.monotonic_s())))
            except queue.Empty:
                if not settings.synchronous:
                    return None
                raise SimulatorError(
                    f"sensor {name!r} sent nothing of frame {frame} within {settings.timeout_s:g} s: timeout_s sets the limit"
                ) from None

    def close(self) -> None:
        """Let the sensors fall silent and go, even where the server is gone."""
        for sensor in self._sensors:
            with suppress(RuntimeError):
                sensor.stop()
                sensor.destroy()
        self._sensors.clear()


def content_of(kind: str, data: CarlaData) -> NDArray[Any]:
    """A message of CARLA's client as a plain array of its own: every bit that the sensor sent."""
    if kind in _NUMBERS:
        return np.array(_NUMBERS[kind](data), np.float64)
    raw = np.frombuffer(bytes(data.raw_data), np.uint8)
    if kind in _ROWS:
        numbers, many = _ROWS[kind]
        return raw.view(numbers).reshape(-1, many)
    if kind == "sensor.camera.optical_flow":
        return raw.view("<f4").reshape(data.height, data.width, 2)
    if kind == "sensor.camera.dvs":
        return raw
    return raw.reshape(data.height, data.width, -1)
