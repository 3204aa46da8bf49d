"""What stands on a map, thing by thing: which model, where, under which name; from the map's own records."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from samepath.base.digests import link
from samepath.base.trig import sincos_deg
from samepath.sim.maps.frames import yaw_to_carla
from samepath.sim.maps.lanes import place
from samepath.sim.maps.mesh import ring_area_m2
from samepath.sim.maps.network import RoadMap
from samepath.sim.maps.records import Road, RoadObject
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.meshes import buildings, furniture, plants
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.scene import NO_LAMPS, Lamp
from samepath.sim.world.records import Pose
from samepath.sim.world.signal_plan import TRAFFIC_LIGHT

_FLAT: Final = frozenset({"crosswalk", "patch", "roadMark"})
_SOLID: Final = {"building": "building", "barrier": "wall", "wall": "wall", "obstacle": "wall"}
_LAMP_LEAST_M: Final = 4.0
_PROP: Final = (0.32, 0.30, 0.27)
Outline = tuple[tuple[float, float], ...]
# What a model is made from, so that equal things share one.
Recipe = tuple[str, tuple[float | str | Outline | None, ...]]


@dataclass(frozen=True, slots=True)
class Thing:
    """Something fixed: ``light`` is its place among the map's traffic lights, -1 for everything else."""

    name: str
    recipe: Recipe
    pose: Pose
    lamps: Lamp = NO_LAMPS
    light: int = -1


def things(road_map: RoadMap) -> Iterator[Thing]:
    """Everything that stands on a map, in the order of the file."""
    signals = iter(road_map.signals)
    light = 0
    for road in road_map.document.roads:
        for thing in road.objects:
            if thing.kind not in _FLAT:
                yield from _object(road, thing)
        for record in road.signals:
            signal = next(signals)
            foot = Pose(signal.x_m, signal.y_m, signal.z_m - record.z_offset_m, yaw_deg=signal.yaw_deg)
            size = (record.z_offset_m, record.height_m, record.width_m)
            name = f"road {road.id} signal {record.id}"
            if signal.kind == TRAFFIC_LIGHT:
                yield Thing(name, ("traffic light", size), foot, light=light)
                light += 1
            else:
                value = signal.value if signal.kind == "274" else None
                kind = signal.kind if signal.kind in {"205", "206", "274"} else ""
                yield Thing(name, ("sign", (kind, value, *size)), foot)


def _look(name: str, looks: int) -> int:
    """A choice that follows from the name alone."""
    return int.from_bytes(link(b"look", name.encode())[:4], "little") % looks


def _object(road: Road, thing: RoadObject) -> Iterator[Thing]:
    name = f"road {road.id} object {thing.id} {thing.kind}"
    x, y, z = place(road, thing.s_m, thing.t_m, thing.z_offset_m)
    yaw_deg = yaw_to_carla(road.pose(thing.s_m).heading_rad + thing.heading_rad)
    corners = [corner.height_m for corner in thing.outline]
    height_m = thing.height_m or max(corners, default=0.0)
    pose = Pose(x, y, z, yaw_deg=yaw_deg)
    if thing.kind in {"tree", "vegetation"} and not thing.outline:
        turned = pose._replace(yaw_deg=float(_look(name, 360) - 180))
        yield Thing(name, ("tree", (height_m or 6.0, thing.radius_m or 2.0, _look(name, plants.LOOKS))), turned)
    elif thing.kind in {"pole", "streetLamp"} and thing.radius_m > 0.0 and height_m >= _LAMP_LEAST_M:
        over = pose._replace(yaw_deg=pose.yaw_deg + (90.0 if thing.t_m > 0.0 else -90.0))
        yield Thing(name, ("street lamp", (height_m, thing.radius_m)), over, Lamp.STREET)
    elif height_m <= 0.0:
        return
    elif thing.radius_m > 0.0 and not thing.outline:
        kind = "post" if thing.kind in {"pole", "streetLamp"} else "drum"
        yield Thing(name, (kind, (height_m, thing.radius_m)), pose)
    else:
        outline, at = _outline(road, thing, pose)
        if abs(ring_area_m2([(a, b, 0.0) for a, b in outline])) > 0.0:
            kind = (
                thing.kind if thing.kind == "building" else "wall" if thing.kind in {"barrier", "wall", "obstacle"} else "prop"
            )
            yield Thing(name, (kind, (outline, height_m, _look(name, 36))), at)


def _outline(road: Road, thing: RoadObject, pose: Pose) -> tuple[Outline, Pose]:
    """A ring in a frame of its own, in the winding of a face that looks up, and where that frame is."""
    if not thing.outline:
        u, v = 0.5 * thing.length_m, 0.5 * thing.width_m
        return ((-u, -v), (u, -v), (u, v), (-u, v)), pose
    sine, cosine = sincos_deg(pose.yaw_deg)
    ring: list[tuple[float, float]] = []
    for corner in thing.outline:
        if corner.is_road:
            x, y, _ = place(road, corner.first_m, corner.second_m, corner.z_m)
            ring.append((x - pose.x_m, y - pose.y_m))
        else:
            # v of an object is to its left; ours is to the right.
            u, v = corner.first_m, corner.second_m
            ring.append((u * cosine + v * sine, u * sine - v * cosine))
    if ring[0] == ring[-1]:
        ring.pop()
    if ring_area_m2([(x, y, 0.0) for x, y in ring]) < 0.0:
        ring.reverse()
    return tuple(ring), pose._replace(yaw_deg=0.0)


def build(recipe: Recipe) -> Model:
    """The model of a recipe."""
    kind, arguments = recipe
    if kind == "prop":
        outline, height_m, _ = arguments
        return furniture.block(outline, height_m, Label.STATIC, _PROP)  # type: ignore[arg-type]
    if kind == "drum":
        height_m, radius_m = arguments
        return furniture.drum(radius_m, height_m, 8, Label.WALLS, _PROP)  # type: ignore[arg-type]
    makers = {
        "tree": plants.tree,
        "street lamp": furniture.street_lamp,
        "post": furniture.post,
        "building": buildings.building,
        "wall": furniture.wall,
        "sign": furniture.sign,
        "traffic light": furniture.traffic_light,
    }
    return makers[kind](*arguments)  # type: ignore[operator, no-any-return]
