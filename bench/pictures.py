"""Draws the pictures of docs/sensors.md: ``python -m bench.pictures``."""

from pathlib import Path

import numpy as np
from PIL import Image

from samepath.core.errors import SimulatorError
from samepath.core.states import Pose
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.images import normal_image
from samepath.simulator.sensors.labels import ActorAppearance, paint_of
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import NO_LAMPS, Camera, CameraFrame, Channel, Lamp, Renderer, create_renderer
from samepath.simulator.sensors.scene_builder import scene_builder_of
from samepath.simulator.sensors.weather import SceneWeather

DOCS = Path(__file__).parents[1] / "docs"
# Waiting at the market cross of the town, looking north.
EYE = Pose(85.2, 5.5, 2.6, 0.0, -4.0, -91.0)
NORTH, SOUTH, EAST, WEST = -90.0, 90.0, 0.0, 180.0
ACTORS = (
    ("vehicle.tesla.model3", 86.8, -5.5, NORTH, "150,12,16"),
    ("vehicle.nissan.patrol", 90.3, -5.0, NORTH, "205,205,200"),
    ("vehicle.mini.cooper_s", 83.2, -2.0, SOUTH, "20,60,130"),
    ("vehicle.mercedes.sprinter", 79.8, -40.0, SOUTH, "235,235,230"),
    ("vehicle.mitsubishi.fusorosa", 84.0, -26.2, EAST, "190,120,20"),
    ("vehicle.audi.tt", 98.5, -29.8, WEST, "60,62,66"),
    ("vehicle.yamaha.yzf", 79.6, -4.5, SOUTH, "20,110,60"),
    ("vehicle.gazelle.omafiets", 92.0, 0.5, NORTH, "200,150,40"),
    ("vehicle.toyota.prius", 86.8, -55.0, NORTH, "110,115,120"),
    ("vehicle.seat.leon", 83.2, -58.0, SOUTH, "130,30,20"),
    ("walker.pedestrian.0001", 86.0, -14.2, EAST, "170,40,30"),
    ("walker.pedestrian.0012", 87.2, -13.6, EAST, "210,180,40"),
    ("walker.pedestrian.0006", 82.0, -13.8, WEST, "40,80,150"),
    ("walker.pedestrian.0018", 95.0, -6.0, SOUTH, "60,60,70"),
    ("walker.pedestrian.0023", 75.6, -1.5, NORTH, "120,60,110"),
)
NOON = SceneWeather(cloudiness=35.0, sun_azimuth_angle=40.0, sun_altitude_angle=42.0)
MORNING = SceneWeather(cloudiness=15.0, sun_azimuth_angle=60.0, sun_altitude_angle=32.0)
WEATHERS = {
    "dusk": SceneWeather(cloudiness=30.0, sun_azimuth_angle=-100.0, sun_altitude_angle=3.0),
    "night": SceneWeather(sun_altitude_angle=-25.0, cloudiness=10.0),
    "rain": SceneWeather(90.0, 70.0, 70.0, sun_azimuth_angle=40.0, sun_altitude_angle=35.0, wetness=90.0, fog_density=8.0),
    "fog": SceneWeather(40.0, sun_azimuth_angle=40.0, sun_altitude_angle=30.0, fog_density=45.0, fog_distance=8.0),
}
# CARLA's CityScapes palette, by label.
_PALETTE = {
    1: (128, 64, 128), 2: (244, 35, 232), 3: (70, 70, 70), 4: (102, 102, 156), 6: (153, 153, 153), 7: (250, 170, 30),
    8: (220, 220, 0), 9: (107, 142, 35), 10: (145, 170, 100), 11: (70, 130, 180), 12: (220, 20, 60), 13: (255, 0, 0),
    14: (0, 0, 142), 15: (0, 0, 70), 16: (0, 60, 100), 18: (0, 0, 230), 19: (119, 11, 32), 24: (157, 234, 50), 25: (81, 0, 81),
}  # fmt: skip
_LIGHTS = [0] * 64


def main() -> None:
    """Draw and write all four; the last one where opengl is there."""
    renderer = SoftwareRenderer()
    _write("street-noon", _colours(_draw(renderer, NOON, 960, 540, 3)))
    four = [_colours(_draw(renderer, weather, 480, 270, 3)) for weather in WEATHERS.values()]
    _write("street-weathers", np.vstack([np.hstack(four[:2]), np.hstack(four[2:])]))
    frame = _draw(renderer, NOON, 480, 270, 2)
    six = [_colours(frame), _depths(frame), _labels(frame), _instances(frame), normal_image(frame)[..., 2::-1], _flows(frame)]
    _write("street-channels", np.vstack([np.hstack(six[k : k + 2]) for k in (0, 2, 4)]), smooth=False)
    renderer.close()
    try:
        other = create_renderer("opengl")
    except SimulatorError as error:
        print(f"street-opengl was not drawn: {error}")
        return
    _write("street-opengl", _colours(_draw(other, MORNING, 960, 540, 2)))
    other.close()


def _draw(renderer: Renderer, weather: SceneWeather, width: int, height: int, samples: int) -> CameraFrame:
    lamps = Lamp.LOW_BEAM | Lamp.POSITION if weather.sun_altitude_angle < 10.0 or weather.precipitation else NO_LAMPS
    street = scene_builder_of(load_map("town"))
    before, now = (street.scene(_looks(lamps, moved_m), weather, lights=_LIGHTS, tick=3) for moved_m in (-0.5, 0.0))
    scene = street.scene(_looks(lamps, 0.0), weather, lights=_LIGHTS, before=before, tick=now.tick)
    channels = Channel.COLOUR | Channel.DEPTH | Channel.LABEL | Channel.INSTANCE | Channel.NORMAL | Channel.FLOW
    return renderer.render(scene, [Camera(EYE, width, height, 90.0, channels, EYE, samples)])[0]


def _looks(lamps: Lamp, moved_m: float) -> list[ActorAppearance]:
    found = []
    for number, (kind, x, y, yaw, paint) in enumerate(ACTORS, start=1):
        walker = kind.startswith("walker")
        waits = not walker and y > -12.0 and yaw == NORTH
        dx, dy = {NORTH: (0.0, -1.0), SOUTH: (0.0, 1.0), EAST: (1.0, 0.0), WEST: (-1.0, 0.0)}[yaw]
        ahead = 0.0 if waits else moved_m
        pose = Pose(x + ahead * dx, y + ahead * dy, 0.95 if walker else 0.0, yaw_deg=yaw)
        own = (lamps | Lamp.BRAKE if waits else lamps) if not walker else NO_LAMPS
        found.append(ActorAppearance(number, kind, pose, paint_of(paint), own, 0.31 * number if walker else None))
    return found


def _colours(frame: CameraFrame) -> np.ndarray:
    return frame.bgra[..., 2::-1]


def _depths(frame: CameraFrame) -> np.ndarray:
    level = (255 * np.clip(1.0 - np.log(np.maximum(frame.depth_m, 2.0) / 2.0) / np.log(500.0), 0.0, 1.0)).astype(np.uint8)
    return np.repeat(level[..., None], 3, axis=-1)


def _labels(frame: CameraFrame) -> np.ndarray:
    table = np.zeros((256, 3), np.uint8)
    for label, colour in _PALETTE.items():
        table[label] = colour
    return table[frame.label]


def _instances(frame: CameraFrame) -> np.ndarray:
    number = frame.instance.astype(np.uint32)
    mixed = (number * np.uint32(2654435761)) ^ (number << np.uint32(13))
    return np.stack([(mixed >> np.uint32(shift)) & np.uint32(255) for shift in (24, 16, 8)], axis=-1).astype(np.uint8)


def _flows(frame: CameraFrame) -> np.ndarray:
    """Direction as hue, speed as strength, on white."""
    x, y = frame.flow[..., 0], frame.flow[..., 1]
    hue = ((np.arctan2(y, x) / (2 * np.pi)) % 1.0 * 255).astype(np.uint8)
    strength = (255 * np.clip(np.hypot(x, y) / 0.08, 0.0, 1.0)).astype(np.uint8)
    full = np.full_like(hue, 245)
    return np.asarray(Image.fromarray(np.stack([hue, strength, full], axis=-1), "HSV").convert("RGB"))


def _write(name: str, picture: np.ndarray, *, smooth: bool = True) -> None:
    whole = Image.fromarray(np.ascontiguousarray(picture))
    palette = whole.quantize(255)
    image = whole.quantize(255, palette=palette, dither=Image.Dither.FLOYDSTEINBERG) if smooth else palette
    image.save(DOCS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
