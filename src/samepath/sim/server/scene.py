"""A map as the server shows it: what stands where, under which label, what is hidden, where the lamps are."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from samepath.base.digests import fingerprint, link
from samepath.sim.maps import Mesh, RoadMap
from samepath.sim.scenarios.simulation import merged
from samepath.sim.sensors import gnss
from samepath.sim.server import labels
from samepath.sim.server.lanes import LaneFinder
from samepath.sim.server.records import BoundingBox, Colour, EnvironmentObject, LightState, Rotation, Transform
from samepath.sim.world.pieces import StaticMesh
from samepath.sim.world.records import Pose, Vector
from samepath.sim.world.signal_plan import SignalPlan, plan_of
from samepath.sim.world.signals import StopLines

_LAMP_KINDS: Final = frozenset({"pole", "streetLamp"})
_LAMP_LEAST_M: Final = 4.0
_STREET_GROUP: Final = 2
_WARM_WHITE: Final = Colour(255, 214, 170)
_LAMP_INTENSITY: Final = 5000.0
SPECTATOR_HEIGHT_M: Final = 20.0


@dataclass(frozen=True, eq=False)
class Scene:
    """A map under the name it was asked for; everything derived is worked out once."""

    name: str
    road_map: RoadMap

    @cached_property
    def statics(self) -> tuple[StaticMesh, ...]:
        """What physics feels."""
        return merged(self.road_map.meshes)

    @cached_property
    def _label_by_name(self) -> dict[str, int]:
        return {mesh.name: labels.label_of(mesh.label) for mesh in self.road_map.meshes}

    def label_of(self, scenery: str) -> int:
        """CARLA's label of a piece of scenery."""
        return labels.GROUND if scenery == "ground" else self._label_by_name.get(scenery, labels.OTHER)

    @cached_property
    def origin(self) -> gnss.Origin:
        """Where the map lies on the globe."""
        return gnss.origin_of(self.road_map.georeference)

    @cached_property
    def lanes(self) -> LaneFinder:
        """Which lane is where."""
        return LaneFinder(self.road_map)

    @cached_property
    def signals(self) -> SignalPlan:
        """The traffic lights."""
        return plan_of(self.road_map)

    @cached_property
    def stop_lines(self) -> StopLines:
        """Where vehicles stop for them."""
        return StopLines(self.signals)

    @cached_property
    def spawn_points(self) -> tuple[Transform, ...]:
        """Where CARLA recommends to put vehicles."""
        return tuple(Transform(Vector(x, y, z), Rotation(0.0, yaw, 0.0)) for x, y, z, yaw in self.road_map.spawn_points)

    @property
    def spectator_pose(self) -> Pose:
        """Above the first place for a vehicle, looking down."""
        x, y, z = self.spawn_points[0].location if self.spawn_points else (0.0, 0.0, 0.0)
        return Pose(x, y, z + SPECTATOR_HEIGHT_M, pitch_deg=-90.0)

    @cached_property
    def objects(self) -> tuple[EnvironmentObject, ...]:
        """Everything on the map as CARLA lists it; ids name the map and the thing."""
        seen: dict[str, int] = {}
        found = []
        for mesh in self.road_map.meshes:
            number = seen[mesh.name] = seen.get(mesh.name, 0) + 1
            found.append(self._object(mesh, mesh.name if number == 1 else f"{mesh.name} {number}"))
        return tuple(found)

    def _object(self, mesh: Mesh, name: str) -> EnvironmentObject:
        low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
        middle = Vector(*(float(one) for one in (low + high) / 2))
        box = BoundingBox(middle, Vector(*(float(one) for one in (high - low) / 2)))
        number = int.from_bytes(link(self.road_map.name.encode(), f"{mesh.label} {name}".encode())[:8], "little")
        return EnvironmentObject(Transform(middle), box, number, name, labels.label_of(mesh.label))

    @cached_property
    def lamps(self) -> tuple[LightState, ...]:
        """The street lights: tall poles."""
        found = [
            f"road {road.id} object {thing.id} {thing.kind}"
            for road in self.road_map.document.roads
            for thing in road.objects
            if thing.kind in _LAMP_KINDS and thing.height_m >= _LAMP_LEAST_M
        ]
        tops = {one.name: one.bounding_box for one in self.objects}
        boxes = [tops[name] for name in found if name in tops]
        return tuple(
            LightState(number, _top(box), _LAMP_INTENSITY, _STREET_GROUP, _WARM_WHITE, active=False)
            for number, box in enumerate(boxes, start=1)
        )

    def work_out(self) -> None:
        """Work out now what ticks will need, so that no tick waits for it."""
        for one in (self.statics, self.lanes, self.stop_lines, self.objects, self.lamps, self.spawn_points):
            del one

    @cached_property
    def navigation(self) -> tuple[str, bytes]:
        """The file with the mesh for walkers: a name that changes with its content (clients keep files by name), and bytes."""
        from samepath.sim.server.navmesh import write_mesh

        mesh = write_mesh(self.road_map)
        return f"{self.name}/Nav/{self.road_map.name}-{fingerprint({'mesh': mesh.hex()})[:16]}.bin", mesh


def _top(box: BoundingBox) -> Vector:
    return Vector(box.location.x, box.location.y, box.location.z + box.extent.z)


@lru_cache(maxsize=4)
def scene_of(name: str, road_map: RoadMap) -> Scene:
    """A scene, kept for the next time the map is loaded."""
    return Scene(name, road_map)
