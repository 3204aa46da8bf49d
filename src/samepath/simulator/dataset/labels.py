"""The labels of a frame: the actor that carries the sensors, what they measured and where, the boxes of all other actors.

Plain data out, in CARLA's frame and with CARLA's labels; units are in the names.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samepath.core.digests import array_digest
from samepath.simulator.dataset.files import file_of
from samepath.simulator.sensors.cameras import CameraView
from samepath.simulator.sensors.ground_truth import CameraBox, VisibleBox, before_camera, box_of, visible_boxes
from samepath.simulator.sensors.labels import OF_KIND, Label
from samepath.simulator.sensors.renderer import Camera
from samepath.simulator.sensors.rig import Measurement
from samepath.simulator.world.world import World

Plain = dict[str, Any]


def frame_labels(
    world: World, parent_id: int, measurements: Sequence[Measurement], views: Sequence[CameraView], images: str
) -> Plain:
    visible = [(view, visible_boxes(view.instances, view.alone_px)) for view in views]
    by_name = {name: view for view in views for name in view.names}
    return {
        "tick": world.tick_count,
        "time_s": world.time_s,
        "ego": _actor(world, parent_id),
        "sensors": {
            measured.sensor.name: _sensor(measured, by_name.get(measured.sensor.name), images) for measured in measurements
        },
        "objects": [
            {
                **_actor(world, actor.id),
                "cameras": {
                    view.names[0]: found
                    for view, boxes in visible
                    if (found := _in_view(world, actor.id, view, boxes.get(actor.id))) is not None
                },
            }
            for actor in world.actors
            if actor.id != parent_id
        ],
    }


def _sensor(measured: Measurement, view: CameraView | None, images: str) -> Plain:
    kind, name = measured.sensor.type, measured.sensor.name
    file = file_of(kind, name, images)
    # The digest is that of the numbers, not of the file: PNG and JPEG libraries may pack the same picture in other bytes.
    numbers = np.ascontiguousarray(measured.values, measured.values.dtype.newbyteorder("<"))
    digest = array_digest(numbers.dtype.str, numbers.shape, numbers.tobytes()).hex()
    camera = {} if view is None else {"view": view.names[0], "calibration": _calibration(view.camera)}
    return {"type": kind, "pose": dict(measured.pose._asdict()), "digest": digest, **camera, **_content(measured, file)}


def _calibration(camera: Camera) -> Plain:
    return {"width_px": camera.width, "height_px": camera.height, "fov_deg": camera.fov_deg, "focal_px": camera.focal_px}


def _content(measured: Measurement, file: str | None) -> Plain:
    if file is not None:
        return {"file": file}
    values = measured.values.tolist()
    match measured.sensor.type:
        case "sensor.other.imu":
            return {"accelerometer_mps2": values[:3], "gyroscope_radps": values[3:6], "compass_rad": values[6]}
        case "sensor.other.gnss":
            return {"latitude_deg": values[0], "longitude_deg": values[1], "altitude_m": values[2]}
        case _:
            return {"distance_m": values[0] if values else None, "actor": int(values[1]) if values else None}


def _actor(world: World, number: int) -> Plain:
    kind, state = world.kind(number), world.state(number)
    box = box_of(kind, state.pose)
    label = OF_KIND.get(kind.kind, Label.DYNAMIC)
    return {
        "id": number,
        "type": kind.name,
        "label": int(label),
        "pose": dict(state.pose._asdict()),
        "velocity_mps": list(state.velocity_mps),
        "angular_velocity_degps": list(state.angular_velocity_degps),
        "box": {"pose": dict(box.pose._asdict()), "extent_m": list(box.extent_m)},
    }


def _in_view(world: World, number: int, view: CameraView, visible: VisibleBox | None) -> Plain | None:
    """What a camera has of an actor; None where no part of it could be in the picture, whatever stands before it."""
    alone_px = view.alone_px.get(number, 0)
    if not alone_px:
        return None
    box = before_camera(box_of(world.kind(number), world.state(number).pose), view.camera)
    visible_px = 0 if visible is None else visible.visible_px
    return {
        "box_px": None if visible is None else list(visible.box_px),
        "visible_px": visible_px,
        "alone_px": alone_px,
        "occluded_ratio": 1.0 - visible_px / alone_px,
        "truncated_ratio": _outside(box, view.camera),
        "centre_m": list(box.centre_m),
        "corners_m": [list(corner) for corner in box.corners_m],
    }


def _outside(box: CameraBox, camera: Camera) -> float | None:
    """The share of the projected box beyond the picture's edges; None where it reaches behind the camera."""
    if box.projected_px is None:
        return None
    left, top, right, bottom = box.projected_px
    width = max(min(right, camera.width) - max(left, 0.0), 0.0)
    height = max(min(bottom, camera.height) - max(top, 0.0), 0.0)
    return 1.0 - width * height / ((right - left) * (bottom - top))
