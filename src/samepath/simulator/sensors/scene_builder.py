"""The scene of a map: what is fixed is built once, what moves is put in at every tick.

What stands on a map is read from the map's own records, thing by thing: which model, where, under which name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from samepath.core.catalogue import ALIASES, PropType, WalkerType, actor_type
from samepath.core.digests import link
from samepath.core.states import Pose
from samepath.core.trig import sincos_deg
from samepath.simulator.maps.geometry import yaw_to_carla
from samepath.simulator.maps.lanes import place
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.maps.records import Road, RoadObject
from samepath.simulator.maps.surfaces import PAINT_LIFT_M, ring_area_m2
from samepath.simulator.sensors.labels import ActorAppearance, Label
from samepath.simulator.sensors.meshes import actor_models, surroundings
from samepath.simulator.sensors.meshes.builder import MeshBank, MeshModel, MeshShape, Point
from samepath.simulator.sensors.meshes.people import STANDING, phase_of
from samepath.simulator.sensors.meshes.props import prop
from samepath.simulator.sensors.meshes.surroundings import LAMP_POOL_M, far_ground, squares
from samepath.simulator.sensors.raster.turning import places_and_axes
from samepath.simulator.sensors.renderer import F32, F64, NO_LAMPS, Lamp, MeshInstances, RenderScene
from samepath.simulator.sensors.weather import SceneWeather, is_dark
from samepath.simulator.world.signals import TRAFFIC_LIGHT, plan_of

_FLAT: Final = frozenset({"crosswalk", "patch", "roadMark"})
_SOLID: Final = {"building": "building", "barrier": "wall", "wall": "wall", "obstacle": "wall"}
_LAMP_LEAST_M: Final = 4.0
_PROP: Final = (0.32, 0.30, 0.27)
Outline = tuple[tuple[float, float], ...]

# What a model is made from, so that equal objects share one.
Recipe = tuple[str, tuple[float | str | Outline | None, ...]]

Boxes = tuple[tuple[str, tuple[float, float, float], Pose], ...]
_STOP_LINE_M: Final = 0.4
_STOP_LIFT_M: Final = 1.5 * PAINT_LIFT_M
_LAST_ID: Final = 65535  # of what is fixed: counted down, as actors count up from 1

# What CARLA's numbers of a light's state make burn: red, yellow, green, off, unknown.
_SHOWN: Final = (Lamp.RED, Lamp.YELLOW, Lamp.GREEN, Lamp(0), Lamp(0))


@dataclass(frozen=True, slots=True)
class FixedObject:
    """Something fixed: ``light`` is its place among the map's traffic lights, -1 for everything else."""

    name: str
    recipe: Recipe
    pose: Pose
    lamps: Lamp = NO_LAMPS
    light: int = -1


class SceneBuilder:
    """Everything that is fixed on a map, and the models of all actors. Build it once and keep it.

    ``boxes``, by name, size and pose, stand there beside what the map has.
    """

    def __init__(self, road_map: RoadMap, boxes: Boxes = ()) -> None:
        self.map_name = road_map.name
        bank = MeshBank()
        models = actor_models()
        self._single = {name: bank.add(model) for name, model in models.single.items()}
        self._posed = {height: [bank.add(model) for model in poses] for height, poses in models.posed.items()}
        rows: list[tuple[str, int, Pose, Lamp]] = []
        for number, square in enumerate(squares(road_map.meshes, [("lane-marking", _stop_lines(road_map))])):
            rows.append((f"ground {number}", bank.add(MeshModel((square.shape,))), Pose(*square.origin), Lamp(0)))
        rows.append(("country", bank.add(MeshModel((_country(road_map),))), Pose(), Lamp(0)))
        recipes: dict[Recipe, int] = {}
        self._lights: list[tuple[FixedObject, int]] = []
        for thing in fixed_objects(road_map):
            if thing.recipe not in recipes:
                recipes[thing.recipe] = bank.add(build(thing.recipe))
            if thing.light >= 0:
                self._lights.append((thing, recipes[thing.recipe]))
            else:
                rows.append((thing.name, recipes[thing.recipe], thing.pose, thing.lamps))
        # A name that no family of props knows: a plain box, as physics has it.
        rows.extend((name, bank.add(prop(PropType("block", *size))), pose, Lamp(0)) for name, size, pose in boxes)
        self.shapes = bank.shapes()
        self._names = [name for name, *_ in rows]
        self._fixed = _instances(
            [mesh for _, mesh, *_ in rows], [pose for *_, pose, _ in rows], list(range(_LAST_ID, _LAST_ID - len(rows), -1)),
            [(0.5, 0.5, 0.5)] * len(rows), [int(lamps) for *_, lamps in rows], [pose.z_m for *_, pose, _ in rows],
        )  # fmt: skip
        things = [thing for thing, _ in self._lights]
        # What shows a light's state stays where it is: only its lamps change.
        self._signals = _instances(
            [mesh for _, mesh in self._lights], [thing.pose for thing in things],
            list(range(_LAST_ID - len(rows), _LAST_ID - len(rows) - len(things), -1)), [(0.5, 0.5, 0.5)] * len(things),
            [int(Lamp.RED)] * len(things), [thing.pose.z_m for thing in things],
        )  # fmt: skip
        self._looks: dict[str, tuple[Sequence[int], float]] = {}
        self._without = lru_cache(maxsize=8)(self._hide)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is fixed and can be hidden; for what a map's records name they are those names."""
        return tuple(self._names)

    def _hide(self, hidden: frozenset[str]) -> tuple[MeshInstances, F32]:
        """What is left, and the street lamps in it."""
        kept = np.array([name not in hidden for name in self._names], bool)
        fixed = self._fixed
        if not kept.all():
            fixed = MeshInstances(*(getattr(fixed, name)[kept] for name in MeshInstances.__slots__))
        places = fixed.position[(fixed.lamps & int(Lamp.STREET)) != 0]
        return fixed, np.column_stack([places, np.full(len(places), LAMP_POOL_M)]).astype(np.float32)

    def scene(
        self,
        actors: Sequence[ActorAppearance],
        weather: SceneWeather | None = None,
        *,
        lights: Sequence[int] = (),
        street_lamps_on: bool | None = None,
        hidden: frozenset[str] = frozenset(),
        before: RenderScene | Mapping[int, Pose] | None = None,
        tick: int = 0,
    ) -> RenderScene:
        """The scene at a tick.

        ``lights`` are CARLA's numbers of what each traffic light shows, in the order of the map, red where none is given;
        ``street_lamps_on`` None leaves it to the sun. ``before`` is the scene of the frame before,
        or where actors were then, for the optical flow.
        """
        weather = weather or SceneWeather()
        fixed, street_lamps = self._without(hidden)
        moving = self._moving(actors, lights)
        if before is not None:
            moving = _with_past(moving, *_past(before))
        on = is_dark(weather) if street_lamps_on is None else street_lamps_on
        return RenderScene(self.shapes, fixed, moving, weather, street_lamps, on, tick)

    def _moving(self, actors: Sequence[ActorAppearance], lights: Sequence[int]) -> MeshInstances:
        meshes, ground, looks = [], [], self._looks
        for actor in actors:
            found = looks.get(actor.type)
            poses, height_m = found if found is not None else self._look_of(actor.type)
            z_m = actor.pose.z_m
            if height_m:
                meshes.append(poses[STANDING if actor.walked_m is None else phase_of(actor.walked_m, height_m)])
                ground.append(z_m - 0.5 * height_m)
            else:
                meshes.append(poses[0])
                ground.append(z_m)
        shown = [int(_SHOWN[number]) for number in lights[: len(self._lights)]]
        return _instances(
            meshes, [actor.pose for actor in actors], [actor.id for actor in actors], [actor.colour for actor in actors],
            [int(actor.lamps) for actor in actors], ground, behind=self._signals, shown=shown,
        )  # fmt: skip

    def _look_of(self, type_id: str) -> tuple[Sequence[int], float]:
        """The meshes of an actor type, one for each phase of a step, and its height where it walks, 0 otherwise."""
        name = ALIASES.get(type_id, type_id)
        kind = actor_type(name)
        found: tuple[Sequence[int], float] = (
            (self._posed[kind.height_m], kind.height_m) if isinstance(kind, WalkerType) else ((self._single[name],), 0.0)
        )
        self._looks[type_id] = found
        return found


@lru_cache(maxsize=4)
def scene_builder_of(road_map: RoadMap, boxes: Boxes = ()) -> SceneBuilder:
    """The street of a map, kept for the next time."""
    return SceneBuilder(road_map, boxes)


def box_scene() -> RenderScene:
    """Two boxes and nothing else: a scene that takes no time to build."""
    bank = MeshBank()
    mesh = bank.add(prop(PropType("block", 1.0, 1.0, 1.0)))
    fixed, moving = (
        _instances([mesh], [Pose(x_m=3.0, y_m=y_m)], [number], [(0.5, 0.5, 0.5)], [0], [0.0])
        for number, y_m in ((_LAST_ID, -1.0), (1, 1.0))
    )
    return RenderScene(bank.shapes(), fixed, moving, SceneWeather(), np.zeros((0, 4), np.float32), street_lamps_on=False)


def _instances(
    meshes: Sequence[int], poses: Sequence[Pose], ids: Sequence[int], paints: Sequence[tuple[float, float, float]],
    lamps: Sequence[int], ground: Sequence[float], behind: MeshInstances | None = None, shown: Sequence[int] = (),
) -> MeshInstances:  # fmt: skip
    """Instances that have not moved; with the others ``behind`` them, of which the first have the lamps ``shown``."""
    position, axes = places_and_axes(poses)
    # In float64 first, as they were given: then each is rounded once.
    paint = np.fromiter(chain.from_iterable(paints), np.float64, 3 * len(paints)).astype(np.float32).reshape(-1, 3)
    mesh, number = np.array(meshes, np.int32), np.array(ids, np.int32)
    lamp, ground_z = np.array(lamps, np.uint16), np.array(ground, np.float64)
    if behind is not None and len(behind):
        # Array by array, once: this is done at every tick, and two sets of instances put together later take twice as long.
        count, join = len(meshes), np.concatenate
        position, axes = join((position, behind.position)), join((axes, behind.axes))
        mesh, number = join((mesh, behind.mesh)), join((number, behind.id))
        paint, ground_z = join((paint, behind.paint)), join((ground_z, behind.ground_z))
        lamp = join((lamp, behind.lamps))
        lamp[count : count + len(shown)] = shown
    label = np.zeros(len(mesh), np.uint8)
    for array in (mesh, position, axes, number, label, paint, lamp, ground_z):
        array.flags.writeable = False
    return MeshInstances(mesh, position, axes, number, label, paint, lamp, ground_z, position, axes)


def _past(before: RenderScene | Mapping[int, Pose]) -> tuple[list[int], F64, F64]:
    """Who was there in the frame before, where, and how turned."""
    if isinstance(before, RenderScene):
        return before.moving.id.tolist(), before.moving.position, before.moving.axes
    return list(before), *places_and_axes(list(before.values()))


def _with_past(moving: MeshInstances, ids: list[int], was_position: F64, was_axes: F64) -> MeshInstances:
    """The same instances, each with the place it had in the frame before; new ones have not moved."""
    rows = {number: row for row, number in enumerate(ids)}
    was = np.array([rows.get(int(number), -1) for number in moving.id], np.int64)
    known = was >= 0
    position, axes = moving.position.copy(), moving.axes.copy()
    position[known], axes[known] = was_position[was[known]], was_axes[was[known]]
    return replace(moving, was_position=position, was_axes=axes)


def _stop_lines(road_map: RoadMap) -> F64:
    """Bars across the lanes before traffic lights, as triangles."""
    made: list[tuple[Point, Point, Point]] = []
    for light in plan_of(road_map).lights:
        for stop in light.stops:
            fx, fy = stop.forward_x, stop.forward_y
            z, half, thick = stop.z_m + _STOP_LIFT_M, 0.92 * stop.half_width_m, _STOP_LINE_M
            # Right of the direction of driving is (-fy, fx) in CARLA's frame.
            a, b, c, d = (
                (stop.x_m - along * fx - across * half * fy, stop.y_m - along * fy + across * half * fx, z)
                for along, across in ((thick, -1.0), (0.0, -1.0), (0.0, 1.0), (thick, 1.0))
            )
            made.extend([(a, b, c), (a, c, d)])
    return np.array(made, np.float64).reshape(-1, 3, 3)


def _country(road_map: RoadMap) -> MeshShape:
    ground = next(mesh for mesh in road_map.meshes if mesh.name == "ground")
    low, high = ground.vertices.min(axis=0), ground.vertices.max(axis=0)
    return far_ground((float(low[0]), float(low[1])), (float(high[0]), float(high[1])), float(low[2]))


def fixed_objects(road_map: RoadMap) -> Iterator[FixedObject]:
    """Everything that stands on a map, in the order of the file."""
    signals = iter(road_map.signals)
    light = 0
    for road in road_map.document.roads:
        for thing in road.objects:
            if thing.kind not in _FLAT:
                yield from _object(road, thing)
        for record in road.signals:
            signal = next(signals)
            if record.is_painted:
                continue
            foot = Pose(signal.x_m, signal.y_m, signal.z_m - record.z_offset_m, yaw_deg=signal.yaw_deg)
            size = (record.plate_m, record.height_m, record.width_m)
            name = f"road {road.id} signal {record.id}"
            if signal.kind == TRAFFIC_LIGHT:
                yield FixedObject(name, ("traffic light", size), foot, light=light)
                light += 1
            else:
                value = signal.value if signal.kind == "274" else None
                kind = signal.kind if signal.kind in {"205", "206", "274"} else ""
                yield FixedObject(name, ("sign", (kind, value, *size)), foot)


def _object(road: Road, thing: RoadObject) -> Iterator[FixedObject]:
    name = f"road {road.id} object {thing.id} {thing.kind}"
    x, y, z = place(road, thing.s_m, thing.t_m, thing.z_offset_m)
    yaw_deg = yaw_to_carla(road.pose(thing.s_m).heading_rad + thing.heading_rad)
    corners = [corner.height_m for corner in thing.outline]
    height_m = thing.height_m or max(corners, default=0.0)
    pose = Pose(x, y, z, yaw_deg=yaw_deg)
    if thing.kind in {"tree", "vegetation"} and not thing.outline:
        turned = pose._replace(yaw_deg=float(_look(name, 360) - 180))
        yield FixedObject(name, ("tree", (height_m or 6.0, thing.radius_m or 2.0, _look(name, surroundings.LOOKS))), turned)
    elif thing.kind in {"pole", "streetLamp"} and thing.radius_m > 0.0 and height_m >= _LAMP_LEAST_M:
        over = pose._replace(yaw_deg=pose.yaw_deg + (90.0 if thing.t_m > 0.0 else -90.0))
        yield FixedObject(name, ("street lamp", (height_m, thing.radius_m)), over, Lamp.STREET)
    elif height_m <= 0.0:
        return
    elif thing.radius_m > 0.0 and not thing.outline:
        kind = "post" if thing.kind in {"pole", "streetLamp"} else "drum"
        yield FixedObject(name, (kind, (height_m, thing.radius_m)), pose)
    else:
        outline, at = _outline(road, thing, pose)
        if abs(ring_area_m2([(a, b, 0.0) for a, b in outline])) > 0.0:
            kind = (
                thing.kind if thing.kind == "building" else "wall" if thing.kind in {"barrier", "wall", "obstacle"} else "prop"
            )
            yield FixedObject(name, (kind, (outline, height_m, _look(name, 36))), at)


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


def _look(name: str, looks: int) -> int:
    """A choice that follows from the name alone."""
    return int.from_bytes(link(b"look", name.encode())[:4], "little") % looks


def build(recipe: Recipe) -> MeshModel:
    """The model of a recipe."""
    kind, arguments = recipe
    if kind == "prop":
        outline, height_m, _ = arguments
        return surroundings.block(outline, height_m, Label.STATIC, _PROP)  # type: ignore[arg-type]
    if kind == "drum":
        height_m, radius_m = arguments
        return surroundings.drum(radius_m, height_m, 8, Label.WALLS, _PROP)  # type: ignore[arg-type]
    makers = {
        "tree": surroundings.tree,
        "street lamp": surroundings.street_lamp,
        "post": surroundings.post,
        "building": surroundings.building,
        "wall": surroundings.wall,
        "sign": surroundings.sign,
        "traffic light": surroundings.traffic_light,
    }
    return makers[kind](*arguments)  # type: ignore[operator, no-any-return]
