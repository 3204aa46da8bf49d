"""Surfaces: no gap under a wheel, horizontal things face up, no triangle without area."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.simulator.maps import available_maps, load_map, parse_map
from samepath.simulator.maps.geometry import on_grid, to_carla, yaw_to_carla
from samepath.simulator.maps.surfaces import contains, is_simple, ring_area_m2, triangulate
from tests.support.map_texts import bends, one_road

BOTH = pytest.mark.parametrize("name", available_maps())
FLAT = ("road", "sidewalk", "ground", "lane-marking", "crosswalk")


def normals(mesh):
    a, b, c = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    return np.cross(b - a, c - a)


def corners_of(meshes, label):
    return np.vstack([mesh.vertices[mesh.triangles] for mesh in meshes if mesh.label == label])


def is_covered(triangles, x_m, y_m):
    """Is there a triangle above or below the point? Edges count."""
    sides = []
    for i in range(3):
        a, b = triangles[:, i], triangles[:, (i + 1) % 3]
        sides.append((b[:, 0] - a[:, 0]) * (y_m - a[:, 1]) - (b[:, 1] - a[:, 1]) * (x_m - a[:, 0]))
    return bool(((sides[0] >= -1e-5) & (sides[1] >= -1e-5) & (sides[2] >= -1e-5)).any())


@BOTH
def test_the_road_lies_under_every_lane_from_edge_to_edge(name):
    road_map = load_map(name)
    roads = corners_of(road_map.meshes, "road")
    for line in road_map.lanes:
        if line.kind != "driving":
            continue
        # Long streets are cut alike everywhere: every fifth metre is enough.
        part = slice(None, None, 10 if len(line.points) > 150 else 1)
        for (x_m, y_m, _), yaw_deg, width_m in zip(line.points[part], line.yaw_deg[part], line.width_m[part], strict=True):
            sine, cosine = math.sin(math.radians(yaw_deg)), math.cos(math.radians(yaw_deg))
            for side_m in (-0.49 * width_m, 0.0, 0.49 * width_m):
                assert is_covered(roads, x_m - side_m * sine, y_m + side_m * cosine), (line.key, x_m, y_m)


@BOTH
def test_junctions_have_no_hole_between_their_lanes(name):
    road_map = load_map(name)
    roads = corners_of(road_map.meshes, "road")
    rings = [polygon for polygon in road_map.drivable if polygon.name.startswith("junction")]
    assert len(rings) == len(road_map.document.junctions)
    for ring in rings:
        corners = [tuple(map(float, corner)) for corner in ring.vertices]
        assert is_simple(corners)
        (x_min, y_min, _), (x_max, y_max, _) = ring.vertices.min(axis=0), ring.vertices.max(axis=0)
        for x_m in np.arange(x_min, x_max, 0.7):
            for y_m in np.arange(y_min, y_max, 0.7):
                if contains(corners, float(x_m), float(y_m)):
                    assert is_covered(roads, x_m, y_m)


@BOTH
def test_the_junction_mesh_has_exactly_the_area_of_its_ring(name):
    road_map = load_map(name)
    rings = {polygon.name: polygon for polygon in road_map.drivable}
    for mesh in road_map.meshes:
        if mesh.name.startswith("junction"):
            area_m2 = 0.5 * normals(mesh)[:, 2].sum()
            assert area_m2 == pytest.approx(ring_area_m2([tuple(map(float, v)) for v in rings[mesh.name].vertices]), rel=1e-12)


@BOTH
def test_horizontal_surfaces_face_up_and_no_triangle_is_without_area(name):
    for mesh in load_map(name).meshes:
        found = normals(mesh)
        assert (np.linalg.norm(found, axis=1) > 0.0).all(), mesh.name
        if mesh.label in FLAT:
            assert (found[:, 2] > 0.0).all(), (mesh.label, mesh.name)
        assert mesh.triangles.min() == 0
        assert mesh.triangles.max() == len(mesh.vertices) - 1
        assert mesh.vertices.dtype == np.float64
        assert mesh.triangles.dtype == np.int32


@BOTH
def test_buildings_and_poles_face_outwards(name):
    for mesh in load_map(name).meshes:
        if mesh.label in {"building", "pole", "vegetation", "sign"}:
            centres = mesh.vertices[mesh.triangles].mean(axis=1) - mesh.vertices.mean(axis=0)
            assert ((normals(mesh) * centres).sum(axis=1) > 0.0).all(), mesh.name


@BOTH
def test_kerbs_are_upright_and_as_high_as_the_sidewalk(name):
    road_map = load_map(name)
    for mesh in road_map.meshes:
        if mesh.label == "kerb":
            assert (normals(mesh)[:, 2] == 0.0).all()
            assert mesh.vertices[:, 2].max() == 0.125
        if mesh.label == "sidewalk":
            assert (mesh.vertices[:, 2] == 0.125).all()


@BOTH
def test_every_coordinate_is_on_the_grid(name):
    road_map = load_map(name)
    arrays = [mesh.vertices for mesh in road_map.meshes] + [line.points for line in road_map.lanes]
    arrays += [polygon.vertices for polygon in (*road_map.drivable, *road_map.walkable)] + [np.array(road_map.spawn_points)]
    for array in arrays:
        assert (array * 2**20 == np.round(array * 2**20)).all()


@BOTH
def test_the_ground_reaches_beyond_the_map_and_below_the_road(name):
    road_map = load_map(name)
    (ground,) = (mesh for mesh in road_map.meshes if mesh.name == "ground")
    x_min, y_min, x_max, y_max = road_map.bounds_m
    low, high = ground.vertices.min(axis=0), ground.vertices.max(axis=0)
    assert low[0] < x_min and low[1] < y_min and high[0] > x_max and high[1] > y_max
    assert high[2] < 0.0


@BOTH
def test_sidewalks_do_not_lie_on_the_road(name):
    road_map = load_map(name)
    rings = [[tuple(map(float, v)) for v in polygon.vertices] for polygon in road_map.drivable]
    boxes = np.array([[*polygon.vertices.min(axis=0)[:2], *polygon.vertices.max(axis=0)[:2]] for polygon in road_map.drivable])
    for line in road_map.lanes:
        if line.kind == "sidewalk":
            for x_m, y_m, _ in line.points[::4]:
                near = (boxes[:, 0] <= x_m) & (boxes[:, 1] <= y_m) & (boxes[:, 2] >= x_m) & (boxes[:, 3] >= y_m)
                assert not any(contains(rings[index], float(x_m), float(y_m)) for index in np.flatnonzero(near))


@BOTH
def test_crossings_lie_on_the_road_and_end_at_the_sidewalks(name):
    road_map = load_map(name)
    assert len(road_map.crosswalks) >= 2
    roads = corners_of(road_map.meshes, "road")
    for crossing in road_map.crosswalks:
        middle = crossing.vertices.mean(axis=0)
        for corner in crossing.vertices:
            x_m, y_m, _ = corner + 0.01 * (middle - corner)
            assert is_covered(roads, x_m, y_m)
        assert np.ptp(crossing.vertices[:, 2]) == 0.0


@BOTH
def test_buildings_stand_clear_of_lanes_and_sidewalks(name):
    road_map = load_map(name)
    points = np.vstack([line.points[:, :2] for line in road_map.lanes])
    for mesh in road_map.meshes:
        if mesh.label == "building":
            for corner in mesh.vertices[:, :2]:
                assert np.hypot(*(points - corner).T).min() > 3.0, mesh.name


def test_a_bend_uphill_has_a_road_and_no_hole():
    road_map = parse_map(bends(), "bends")
    roads = corners_of(road_map.meshes, "road")
    for line in road_map.lanes:
        for x_m, y_m, _ in line.points:
            assert is_covered(roads, x_m, y_m)


def test_objects_become_meshes_by_their_kind():
    things = (
        '<objects><object id="1" type="building" s="20" t="10" hdg="0.5" length="4" width="6" height="3"/>'
        '<object id="2" type="pole" s="30" t="5" radius="0.1" height="4"/>'
        '<object id="3" type="tree" s="40" t="5" radius="1" height="5"/>'
        '<object id="4" type="building" s="50" t="12"><outline><cornerRoad s="45" t="8" dz="0" height="5"/>'
        '<cornerRoad s="55" t="8" dz="0" height="5"/><cornerRoad s="50" t="16" dz="0" height="5"/></outline></object>'
        '<object id="5" type="barrier" s="60" t="-6" length="4" width="0.2" height="1"/>'
        '<object id="6" type="crosswalk" s="70" t="0"><outline><cornerRoad s="68" t="-3" dz="0"/>'
        '<cornerRoad s="71" t="-3" dz="0"/>'
        '<cornerRoad s="71" t="3" dz="0"/><cornerRoad s="68" t="3" dz="0"/></outline></object></objects>'
    )
    road_map = parse_map(one_road(after=things), "x")
    by_name = {mesh.name.removeprefix("road 7 object "): mesh for mesh in road_map.meshes if "object" in mesh.name}
    labels = {name: mesh.label for name, mesh in by_name.items()}
    assert labels == {
        "1 building": "building",
        "2 pole": "pole",
        "3 tree trunk": "pole",
        "3 tree crown": "vegetation",
        "4 building": "building",
        "5 barrier": "barrier",
        "6": "crosswalk",
    }
    assert by_name["1 building"].vertices[:, 2].max() == 3.0
    assert by_name["4 building"].vertices.max(axis=0).tolist() == [55.0, -8.0, 5.0]
    assert road_map.crosswalks[0].vertices[:, 0].tolist() == [68.0, 71.0, 71.0, 68.0]
    for name in ("1 building", "4 building", "5 barrier"):
        mesh = by_name[name]
        centres = mesh.vertices[mesh.triangles].mean(axis=1) - mesh.vertices.mean(axis=0)
        assert ((normals(mesh) * centres).sum(axis=1) > 0.0).all()


@given(st.lists(st.floats(2.0, 30.0), min_size=3, max_size=40), st.booleans())
def test_a_star_of_any_shape_is_cut_into_triangles_of_its_own_area(radii_m, backwards):
    count = len(radii_m)
    angles = [math.tau * i / count for i in range(count)]
    ring = [(on_grid(r * math.cos(a)), on_grid(r * math.sin(a)), 0.0) for r, a in zip(radii_m, angles, strict=True)]
    if count > 3 or ring_area_m2(ring) > 0.0:
        triangles = triangulate(ring[::-1] if backwards else ring)
        assert len(triangles) <= count - 2
        areas = [ring_area_m2(triangle) for triangle in triangles]
        assert all(area > 0.0 for area in areas)
        assert math.fsum(areas) == pytest.approx(abs(ring_area_m2(ring)), rel=1e-12)


def test_a_ring_that_crosses_itself_is_noticed():
    bow = [(0.0, 0.0, 0.0), (4.0, 4.0, 0.0), (4.0, 0.0, 0.0), (0.0, 4.0, 0.0)]
    assert not is_simple(bow)
    assert is_simple([bow[0], bow[2], bow[1], bow[3]])


def test_a_straight_side_in_several_pieces_does_not_cross_itself():
    side = [(0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 2.0, 0.0), (0.0, 3.0, 0.0)]
    assert is_simple([*side, (2.0, 1.0, 0.0)])
    assert is_simple([*((y, x, z) for x, y, z in side), (1.0, 2.0, 0.0)])
    assert not is_simple([*side[:3], (0.0, 1.5, 0.0), (2.0, 1.0, 0.0)])


def test_the_frame_is_flipped_in_one_place():
    assert to_carla(1.0, 2.0, 3.0) == (1.0, -2.0, 3.0)
    assert math.copysign(1.0, to_carla(0.0, 0.0, -0.0)[1]) == 1.0
    assert yaw_to_carla(math.pi / 2) == -90.0
    assert yaw_to_carla(math.pi) == yaw_to_carla(-math.pi) == -180.0
