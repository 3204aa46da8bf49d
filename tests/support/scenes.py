"""A small scene through raw clients: cars that drive, sensors of every kind that sees, and every byte that came."""

import struct

from tests.support.serving import RawClient, RawListener, described

RGB = {"image_size_x": "60", "image_size_y": "40"}
EYES = (
    ("sensor.camera.rgb", RGB),
    ("sensor.camera.depth", RGB),
    ("sensor.camera.optical_flow", RGB),
    ("sensor.lidar.ray_cast", {"points_per_second": "20000"}),
    ("sensor.other.radar", {}),
)
STEP = [True, False, [True, 0.05], True, 0.01, 10, 0.0, False, 2000.0, 2000.0, True]
HEAD_BYTES = 48


class Doors:
    """Two ports as clients need them."""

    def __init__(self, port, stream_port):
        self.port, self.stream_port = port, stream_port


def transform(x_m, y_m, z_m=0.5, yaw_deg=0.0):
    return [[x_m, y_m, z_m], [0.0, yaw_deg, 0.0]]


def synchronous(client):
    client.value("set_episode_settings", STEP)


def spawn(client, kind, at, parent=0, **attributes):
    """Spawn something; returns CARLA's record of it."""
    description = described(kind, **attributes)
    if parent:
        return client.value("spawn_actor_with_parent", description, at, parent, 0, "")
    return client.value("spawn_actor", description, at)


def stream_of(record):
    return struct.unpack("<I", bytes(record[5])[:4])[0]


def port_of(record):
    return struct.unpack("<IH", bytes(record[5])[:6])[1]


def spawn_cars(client, count):
    points = client.value("get_map_info")[1]
    return [spawn(client, "vehicle.tesla.model3", points[2 * number])[0] for number in range(count)]


def mount(client, doors, car, kind, attributes):
    """Attach a sensor and listen to it at once."""
    record = spawn(client, kind, transform(1.5, 0.0, 2.0), parent=car, **attributes)
    return listen(doors, stream_of(record))


def listen(doors, stream):
    """Listen to a stream as a client that is connected there would."""
    with RawClient(doors) as there:
        there.value("get_sensor_token", stream)
    return RawListener(doors, stream)


def control(throttle=0.5, steer=0.0):
    return [throttle, steer, 0.0, False, False, False, 0]


def frame_of(message):
    return struct.unpack("<QQ", message[:16])[1]


def drive(client, cars, listeners, ticks, before_tick=lambda _: None):
    """Drive for some ticks; returns for every tick the messages of all listeners."""
    found = []
    for tick in range(ticks):
        before_tick(tick)
        for number, car in enumerate(cars):
            client.ask("apply_control_to_vehicle", car, control(0.6, 0.02 * number * (-1) ** (tick // 5)))
        frame = client.value("tick_cue")
        messages = [listener.message() for listener in listeners]
        assert [frame_of(message) for message in messages] == [frame] * len(listeners)
        found.append([message[HEAD_BYTES:] for message in messages])
    return found


def scenario(doors, *, cars=2, ticks=12, eyes=EYES, other_doors=None, before_tick=lambda _: None):
    """A run from a fresh world: every byte that every sensor sent. Listeners take turns between two doors, if there are two."""
    with RawClient(doors) as client:
        synchronous(client)
        driven = spawn_cars(client, cars)
        turns = [doors, other_doors or doors]
        listeners = [
            mount(client, turns[(k + j) % 2], car, kind, attributes)
            for j, car in enumerate(driven)
            for k, (kind, attributes) in enumerate(eyes)
        ]
        try:
            return drive(client, driven, listeners, ticks, before_tick)
        finally:
            for listener in listeners:
                listener.socket.close()
