"""What is true of a frame: who bears the sensors, what they measured and where, and everybody's boxes. Plain data out."""

from collections.abc import Sequence
from typing import Any

from samepath.core.states import Pose
from samepath.instrument.traces.records import frame_of
from samepath.simulator.dataset.files import file_of
from samepath.simulator.sensors.cameras import CameraView
from samepath.simulator.sensors.ground_truth import CameraBox, VisibleBox, before_camera, box_of, seen_in
from samepath.simulator.sensors.labels import OF_KIND, Label
from samepath.simulator.sensors.renderer import Camera
from samepath.simulator.sensors.rig import Measurement
from samepath.simulator.world.world import World

Plain = dict[str, Any]


def frame_labels(
    world: World, bearer: int, measurements: Sequence[Measurement], views: Sequence[CameraView], images: str
) -> Plain:
    """Everything that is true of a frame, with CARLA's frame and labels; units are in the names."""
    seen = [(view, seen_in(view.instances, view.alone_px)) for view in views]
    by_name = {name: view for view in views for name in view.names}
    return {
        "tick": world.tick_count,
        "time_s": world.time_s,
        "ego": _actor(world, bearer),
        "sensors": {one.sensor.name: _sensor(one, by_name.get(one.sensor.name), images) for one in measurements},
        "objects": [
            {
                **_actor(world, one.id),
                "cameras": {
                    view.names[0]: found
                    for view, visible in seen
                    if (found := _in_view(world, one.id, view, visible.get(one.id))) is not None
                },
            }
            for one in world.actors
            if one.id != bearer
        ],
    }


def _sensor(one: Measurement, view: CameraView | None, images: str) -> Plain:
    kind, name = one.sensor.type, one.sensor.name
    file = file_of(kind, name, images)
    digest = frame_of(0, name, kind, one.values, keep=False).digest.hex()
    eye = {} if view is None else {"view": view.names[0], "calibration": _calibration(view.camera)}
    return {"type": kind, "pose": _pose(one.pose), "digest": digest, **eye, **_content(one, file)}


def _calibration(camera: Camera) -> Plain:
    return {"width_px": camera.width, "height_px": camera.height, "fov_deg": camera.fov_deg, "focal_px": camera.focal_px}


def _content(one: Measurement, file: str | None) -> Plain:
    if file is not None:
        return {"file": file}
    values = one.values.tolist()
    match one.sensor.type:
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
        "pose": _pose(state.pose),
        "velocity_mps": list(state.velocity_mps),
        "angular_velocity_degps": list(state.angular_velocity_degps),
        "box": {"pose": _pose(box.pose), "extent_m": list(box.extent_m)},
    }


def _pose(pose: Pose) -> Plain:
    return dict(pose._asdict())


def _in_view(world: World, number: int, view: CameraView, seen: VisibleBox | None) -> Plain | None:
    """What a camera has of an actor; None where no part of it could be in the picture, whatever stands before it."""
    alone_px = view.alone_px.get(number, 0)
    if not alone_px:
        return None
    box = before_camera(box_of(world.kind(number), world.state(number).pose), view.camera)
    visible_px = 0 if seen is None else seen.visible_px
    return {
        "box_px": None if seen is None else list(seen.box_px),
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
