"""Pictures of a moment of a replay: from above, and from a camera; with the renderer that sensors have.

From above the picture is drawn by a camera high over everybody, where the map has something to see, and labelled; flat ground
is a plain sheet with the actors' outlines. Walkers stand still in pictures: how far they have walked is not part of a replay.
"""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from samepath.core.catalogue import VehicleType, WalkerType, actor_type
from samepath.core.errors import InputError
from samepath.core.files import write_bytes_atomically, write_text_atomically
from samepath.core.states import Pose, VehicleCommand
from samepath.core.trig import sincos_deg
from samepath.simulator.maps import load_map
from samepath.simulator.physics.frames import attached_pose
from samepath.simulator.replay.replay import Replay, ReplayActor

if TYPE_CHECKING:
    from samepath.simulator.sensors.renderer import RenderScene
    from samepath.simulator.simulation import Simulation

Picture = NDArray[np.uint8]
SIDE_PX_MAX: Final = 4096
_ABOVE_PX: Final = 720
# Around everybody, and at least so much of the world.
_MARGIN_M: Final = 15.0
_LEAST_M: Final = 40.0
_FOV_DEG: Final = 40.0
_HALF_TAN: Final = 0.36397023426620234  # of 20 degrees
_BEHIND: Final = Pose(-7.0, 0.0, 3.5, 0.0, -12.0, 0.0)
_EYES: Final = Pose(0.2, 0.0, 0.8, 0.0, 0.0, 0.0)
_SHEET: Final = (236, 236, 232)
_INK: Final = (20, 20, 20)
_MARK: Final = (214, 39, 40)


def scene_of(simulation: "Simulation") -> "RenderScene":
    """What there is to see of a scenario now."""
    from samepath.simulator.sensors.labels import ActorAppearance
    from samepath.simulator.sensors.renderer import Lamp
    from samepath.simulator.sensors.rig import boxes_of
    from samepath.simulator.sensors.scene_builder import scene_builder_of
    from samepath.simulator.sensors.sensor import require_sensors

    require_sensors()
    world, commands = simulation.world, simulation.commands

    def lamps(number: int) -> Lamp:
        command = commands.get(number)
        if not isinstance(command, VehicleCommand):
            return Lamp(0)
        return (Lamp.BRAKE if command.brake > 0.0 else Lamp(0)) | (Lamp.REVERSE if command.reverse else Lamp(0))

    looks = [ActorAppearance(actor.id, actor.type, world.state(actor.id).pose, lamps=lamps(actor.id)) for actor in world.actors]
    return scene_builder_of(load_map(world.place), boxes_of(simulation.scenario)).scene(looks, tick=world.tick_count)


def seen_from(replay: Replay, on: int | Pose | None, size: tuple[int, int], fov_deg: float, path: str | Path | None) -> Picture:
    """Draw what a camera sees, see :meth:`Replay.camera`."""
    if not all(1 <= side <= SIDE_PX_MAX for side in size) or not 1.0 <= fov_deg <= 170.0:
        raise InputError(
            f"a picture of at most {SIDE_PX_MAX} pixels a side and 1 to 170 degrees was wanted, not {size}, {fov_deg}"
        )
    picture = _drawn(replay, _pose_of(replay, on), size, fov_deg)
    if path is not None:
        write_bytes_atomically(Path(path), _png(Image.fromarray(picture)))
    return picture


def _drawn(replay: Replay, pose: Pose, size: tuple[int, int], fov_deg: float) -> Picture:
    from samepath.simulator.sensors.cameras import CameraSensor, RigRenderer

    width, height = size
    attributes = {"image_size_x": width, "image_size_y": height, "fov": fov_deg}
    camera = CameraSensor.from_attributes("sensor.camera.rgb", attributes, strict=True)
    renderer = RigRenderer()
    try:
        (frame,) = renderer.draw(replay.scene(), [camera.at(pose, image=True)])
        # Blue, green, red, 255 as CARLA has them.
        return np.ascontiguousarray(camera.encode(frame)[..., 2::-1])
    finally:
        renderer.close()


def _pose_of(replay: Replay, on: int | Pose | None) -> Pose:
    if isinstance(on, Pose):
        return on
    actor = replay.actor(on) if on is not None else followed(replay)
    if actor is None:
        raise InputError("nobody is there to be followed: give a pose for the camera")
    walks = isinstance(actor_type(actor.type), WalkerType)
    level = actor.state.pose._replace(roll_deg=0.0, pitch_deg=0.0)
    return attached_pose(level, _EYES if walks else _BEHIND)


def followed(replay: Replay) -> ReplayActor | None:
    """Whom the camera follows unless told otherwise: the first vehicle, or else the first of all."""
    actors = replay.actors
    return next((actor for actor in actors if actor.type.startswith("vehicle.")), actors[0] if actors else None)


def above(replay: Replay) -> Image.Image:
    """Draw everybody from above, with their numbers; north of CARLA's frame (x) is to the right, y downwards."""
    places = [actor.state.pose for actor in replay.actors] or [Pose()]
    xs, ys = [pose.x_m for pose in places], [pose.y_m for pose in places]
    side_m = max(_LEAST_M, max(xs) - min(xs) + 2 * _MARGIN_M, max(ys) - min(ys) + 2 * _MARGIN_M)
    x_m, y_m = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    if replay.world.place == "flat":
        sheet = Image.new("RGB", (_ABOVE_PX, _ABOVE_PX), _SHEET)
    else:
        # Straight down, the top of the picture towards -y: x to the right, as a plan has it.
        pose = Pose(x_m, y_m, side_m / 2 / _HALF_TAN, 0.0, -90.0, -90.0)
        sheet = Image.fromarray(_drawn(replay, pose, (_ABOVE_PX, _ABOVE_PX), _FOV_DEG))
    pen, per_m = ImageDraw.Draw(sheet), _ABOVE_PX / side_m

    def at(x: float, y: float) -> tuple[float, float]:
        return _ABOVE_PX / 2 + (x - x_m) * per_m, _ABOVE_PX / 2 + (y - y_m) * per_m

    for actor in replay.actors:
        pen.polygon([at(*corner) for corner in _outline(actor)], outline=_MARK)
        x, y = at(actor.state.pose.x_m, actor.state.pose.y_m)
        pen.text((x + 8, y - 14), str(actor.id), fill=_MARK)
    bar_m = 10.0
    pen.line([(16, _ABOVE_PX - 16), (16 + bar_m * per_m, _ABOVE_PX - 16)], fill=_INK, width=3)
    pen.text((16, _ABOVE_PX - 34), f"{bar_m:g} m", fill=_INK)
    return sheet


def _outline(actor: ReplayActor) -> list[tuple[float, float]]:
    kind, pose = actor_type(actor.type), actor.state.pose
    if isinstance(kind, VehicleType):
        along, across = kind.length_m / 2, kind.width_m / 2
    else:
        along = across = getattr(kind, "radius_m", 0.4)
    sine, cosine = sincos_deg(pose.yaw_deg)
    corners = ((along, -across), (along + across / 2, 0.0), (along, across), (-along, across), (-along, -across))
    return [(pose.x_m + a * cosine - b * sine, pose.y_m + a * sine + b * cosine) for a, b in corners]


def write(replay: Replay, path: Path, on: int | Pose | None = None) -> Path:
    """Write the page or the picture of a moment, see :meth:`Replay.draw`."""
    if path.suffix not in (".html", ".png"):
        raise InputError(f"a file *.html or *.png was wanted for the picture, but {path.name!r} came")
    pictures = [("from above", above(replay))]
    if replay.world.place != "flat" and replay.actors:
        pictures.append(("from a camera", Image.fromarray(seen_from(replay, on, (960, _ABOVE_PX), 90.0, None))))
    if path.suffix == ".png":
        sheet = Image.new("RGB", (sum(picture.width for _, picture in pictures), _ABOVE_PX), _SHEET)
        left = 0
        for _, picture in pictures:
            sheet.paste(picture, (left, 0))
            left += picture.width
        write_bytes_atomically(path, _png(sheet))
    else:
        write_text_atomically(path, _page(replay, pictures))
    return path


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _page(replay: Replay, pictures: list[tuple[str, Image.Image]]) -> str:
    figures = "".join(
        f'<figure><img alt="{name}" src="data:image/png;base64,{base64.b64encode(_png(picture)).decode()}">'
        f"<figcaption>{name}</figcaption></figure>"
        for name, picture in pictures
    )
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in actor_rows(replay))
    heads = "".join(f"<th>{name}</th>" for name in ACTOR_COLUMNS)
    title = html.escape(f"{Path(replay.name).name}, tick {replay.tick}, {replay.time_s:.3f} s")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>'
        f"<p>step {replay.position} of {replay.steps}; the world's digest {replay.world.digest}</p>{figures}"
        f"<table><tr>{heads}</tr>{rows}</table></html>\n"
    )


_STYLE: Final = (
    "body{font:15px sans-serif;margin:24px}"
    "figure{display:inline-block;margin:0 16px 16px 0}"
    "td,th{padding:2px 10px;text-align:right}"
)
ACTOR_COLUMNS: Final = ("actor", "type", "x m", "y m", "yaw deg", "speed m/s", "command")


def actor_rows(replay: Replay) -> list[tuple[str, ...]]:
    """Return who is there in words, one row each."""
    found: list[tuple[str, ...]] = []
    for actor in replay.actors:
        pose, velocity = actor.state.pose, actor.state.velocity_mps
        speed_mps = float(np.hypot(velocity.x, velocity.y))
        numbers = f"{pose.x_m:.3f}", f"{pose.y_m:.3f}", f"{pose.yaw_deg:.2f}", f"{speed_mps:.3f}"
        found.append((str(actor.id), actor.type, *numbers, command_words(actor.command)))
    return found


def command_words(command: Any) -> str:  # noqa: ANN401 - any command, or none
    """Return a command in a few words."""
    if command is None:
        return ""
    if isinstance(command, VehicleCommand):
        more = "".join(word for word, on in ((", hand brake", command.hand_brake), (", reverse", command.reverse)) if on)
        return f"throttle {command.throttle:.3f}, steer {command.steer:.3f}, brake {command.brake:.3f}{more}"
    return f"walk ({command.direction_x:.3f}, {command.direction_y:.3f}) at {command.speed_mps:.3f} m/s"
