"""The navigation mesh: sound for Detour, and people can get everywhere on it."""

import math
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.core.streams import stream
from samepath.simulator.maps import available_maps, load_map, parse_map
from samepath.simulator.maps.surfaces import contains
from samepath.simulator.maps.walking import CROSSWALK, ROAD, SIDEWALK, WalkMesh, WalkPolygon, walk_mesh
from samepath.simulator.server.maps import served_map
from samepath.simulator.server.navmesh import decode, encode, write_mesh

MAPS = pytest.mark.parametrize("name", available_maps())
TRIANGLE = WalkMesh(np.array([[0.0, 0.0, 0.0], [0.0, 4.0, 0.0], [4.0, 0.0, 0.0]]), (WalkPolygon((0, 1, 2), 1, 2),))
ELSEWHERE = """<?xml version="1.0"?><OpenDRIVE><header revMajor="1" revMinor="4"/>
<road id="7" length="60" junction="-1"><planView><geometry s="0" x="0" y="0" hdg="0" length="60"><arc curvature="0.02"/>
</geometry></planView><lanes><laneSection s="0"><left>
<lane id="3" type="sidewalk"><width sOffset="0" a="2" b="0" c="0" d="0"/></lane>
<lane id="2" type="parking"><width sOffset="0" a="2" b="0" c="0" d="0"/></lane>
<lane id="1" type="driving"><width sOffset="0" a="3" b="0.01" c="0" d="0"/></lane></left><center><lane id="0" type="none"/>
</center><right><lane id="-1" type="driving"><width sOffset="0" a="3" b="0" c="0" d="0"/></lane>
<lane id="-2" type="sidewalk"><width sOffset="0" a="2" b="0" c="0" d="0"/></lane></right></laneSection></lanes>
<objects><object id="1" type="crosswalk" s="30" t="0" hdg="1.5708" length="10" width="3"/></objects></road></OpenDRIVE>"""


@pytest.fixture(scope="module")
def tiles():
    return {name: decode(write_mesh(load_map(name))) for name in available_maps()}


def ring_of(tile, polygon):
    return [tuple(map(float, tile.mesh.points[corner])) for corner in polygon.corners]


def reached(tile, start, areas):
    """Polygons one can walk to from ``start`` over these areas."""
    seen, pending = {start}, [start]
    while pending:
        for beyond in tile.neighbours[pending.pop()]:
            if beyond and beyond - 1 not in seen and tile.mesh.polygons[beyond - 1].area in areas:
                seen.add(beyond - 1)
                pending.append(beyond - 1)
    return seen


def found_by_tree(tile, x_m, y_m, z_m, reach_m=0.5):
    """What Detour's walk through the tree of boxes would find near a point."""
    low, high = np.array(tile.low), np.array(tile.high)
    at = np.array([x_m, z_m, y_m])
    near = ((np.clip(at - reach_m, low, high) - low) * 4.0).astype(int) & 0xFFFE
    far = ((np.clip(at + reach_m, low, high) - low) * 4.0 + 1).astype(int) | 1
    found, place = [], 0
    while place < len(tile.nodes):
        node = tile.nodes[place]
        overlaps = bool((near <= node["high"]).all() and (far >= node["low"]).all())
        if node["index"] >= 0:
            if overlaps:
                found.append(int(node["index"]))
            place += 1
        else:
            place += 1 if overlaps else -int(node["index"])
    return found


@MAPS
def test_polygons_are_convex_and_run_as_detour_wants(tiles, name):
    tile = tiles[name]
    for polygon in tile.mesh.polygons:
        ring = ring_of(tile, polygon)
        assert 3 <= len(ring) <= 6
        assert len(set(polygon.corners)) == len(polygon.corners)
        for a, b, c in zip(ring, ring[1:] + ring[:1], ring[2:] + ring[:2], strict=True):
            assert (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0]) < 0.0


@MAPS
def test_neighbours_know_each_other_by_the_edge_they_share(tiles, name):
    tile = tiles[name]
    for number, (polygon, beyond) in enumerate(zip(tile.mesh.polygons, tile.neighbours, strict=True)):
        for index, other in enumerate(beyond):
            if other:
                edge = {polygon.corners[index], polygon.corners[(index + 1) % len(polygon.corners)]}
                assert edge <= set(tile.mesh.polygons[other - 1].corners)
                assert number + 1 in tile.neighbours[other - 1]


@MAPS
def test_areas_have_carlas_flags(tiles, name):
    kinds = {(polygon.area, polygon.flags) for polygon in tiles[name].mesh.polygons}
    assert kinds == {SIDEWALK, CROSSWALK, ROAD}


def test_where_people_may_walk_anywhere_all_of_the_same_mesh_is_sidewalk(tiles):
    road_map = load_map("t-junction")
    usual, anywhere = (served_map("t-junction", road_map, walk_anywhere=on).navigation for on in (False, True))
    found, known = decode(anywhere[1]), tiles["t-junction"]
    assert {(polygon.area, polygon.flags) for polygon in found.mesh.polygons} == {SIDEWALK}
    assert found.neighbours == known.neighbours
    assert np.array_equal(found.mesh.points, known.mesh.points)
    # Clients keep the file by its name: that of another server must not be taken for it.
    assert anywhere[0] != usual[0]


@MAPS
def test_from_every_sidewalk_every_other_is_reached_without_walking_on_the_road(tiles, name):
    tile = tiles[name]
    walkable = {number for number, polygon in enumerate(tile.mesh.polygons) if polygon.area != ROAD[0]}
    assert reached(tile, min(walkable), {SIDEWALK[0], CROSSWALK[0]}) == walkable


@MAPS
def test_every_crossing_is_there_and_joins_two_sidewalks(tiles, name):
    tile = tiles[name]
    crossings = {number for number, polygon in enumerate(tile.mesh.polygons) if polygon.area == CROSSWALK[0]}
    count = 0
    while crossings:
        whole = reached(tile, min(crossings), {CROSSWALK[0]})
        beside = {beyond - 1 for number in whole for beyond in tile.neighbours[number] if beyond} - whole
        assert sum(tile.mesh.polygons[number].area == SIDEWALK[0] for number in beside) == 2
        crossings -= whole
        count += 1
    assert count == len(load_map(name).crosswalks)


@MAPS
def test_the_sidewalks_of_the_map_are_covered_by_sidewalk(tiles, name):
    tile = tiles[name]
    rings = [ring_of(tile, polygon) for polygon in tile.mesh.polygons]
    for line in load_map(name).lanes:
        if line.kind == "sidewalk":
            for x_m, y_m, z_m in line.points[1:-1:23].tolist():
                near = found_by_tree(tile, x_m, y_m, z_m)
                hits = [number for number in near if contains(rings[number], x_m, y_m)]
                assert {tile.mesh.polygons[number].area for number in hits} == {SIDEWALK[0]}, (line.key, x_m, y_m)


@MAPS
def test_crossings_lie_on_the_road_and_sidewalks_beside_it_at_their_heights(tiles, name):
    tile = tiles[name]
    for polygon in tile.mesh.polygons:
        heights = {round(float(tile.mesh.points[corner][2]), 3) for corner in polygon.corners}
        assert heights <= {0.0, 0.125}
        if polygon.area == SIDEWALK[0]:
            assert heights == {0.125}


@MAPS
def test_the_tree_of_boxes_finds_what_a_plain_search_finds(tiles, name):
    tile = tiles[name]
    leaves = sorted(int(node["index"]) for node in tile.nodes if node["index"] >= 0)
    assert leaves == list(range(len(tile.mesh.polygons)))
    low, high = np.array(tile.low), np.array(tile.high)
    corners = [tile.mesh.points[list(polygon.corners)] for polygon in tile.mesh.polygons]
    random = stream(5, "tree", name)
    for _ in range(60):
        x_m, y_m = random.uniform(low[0], high[0]), random.uniform(low[2], high[2])
        near = set(found_by_tree(tile, x_m, y_m, 0.0, reach_m=3.0))
        for number, points in enumerate(corners):
            (x_low, y_low, _), (x_high, y_high, _) = points.min(axis=0), points.max(axis=0)
            if x_low - 3.0 <= x_m <= x_high + 3.0 and y_low - 3.0 <= y_m <= y_high + 3.0:
                assert number in near


def test_a_town_takes_few_polygons(tiles):
    # CARLA's client follows paths of at most 256 polygons and looks at 2048 at a time.
    assert len(tiles["town"].mesh.polygons) < 2048


@MAPS
def test_the_bytes_are_laid_out_as_detours_structures(name):
    data = write_mesh(load_map(name))
    assert data == write_mesh(load_map(name))
    assert data[:4][::-1] == b"MSET"
    version, tiles_, *_, most_tiles, most_polygons = struct.unpack_from("<ii3fffii", data, 4)
    assert (version, tiles_, most_tiles) == (1, 1, 1)
    assert most_polygons & (most_polygons - 1) == 0
    ref, size = struct.unpack_from("<Ii", data, 40)
    assert ref == most_polygons  # salt 1, tile 0, polygon 0
    assert len(data) == 48 + size
    tile = data[48:]
    assert tile[:4][::-1] == b"DNAV"
    ints = struct.unpack_from("<15i", tile)
    polygons, vertices, links, details, detail_vertices, triangles, nodes, off_mesh, base = ints[6:]
    assert polygons <= most_polygons
    assert (details, detail_vertices, off_mesh, base) == (polygons, 0, 0, polygons)
    assert nodes == 2 * polygons - 1
    assert size == 100 + 12 * vertices + 32 * polygons + 12 * links + 12 * details + 4 * triangles + 16 * nodes
    first = 100 + 12 * vertices
    counts = [tile[first + 32 * number + 30] for number in range(polygons)]
    assert sum(counts) == links
    assert sum(counts) - 2 * polygons == triangles


def test_a_bend_of_somebody_elses_map_works_too():
    tile = decode(write_mesh(parse_map(ELSEWHERE, "elsewhere")))
    areas = [polygon.area for polygon in tile.mesh.polygons]
    assert {SIDEWALK[0], CROSSWALK[0], ROAD[0]} == set(areas)
    walkable = {number for number, area in enumerate(areas) if area != ROAD[0]}
    assert reached(tile, min(walkable), {SIDEWALK[0], CROSSWALK[0]}) == walkable
    # The crossing is written across its road: 3 m along it, though its length is 10 m.
    points = tile.mesh.points[sorted({corner for p in tile.mesh.polygons if p.area == CROSSWALK[0] for corner in p.corners})]
    radii_m = np.hypot(points[:, 0], points[:, 1] + 50.0)
    angles = np.arctan2(points[:, 0], points[:, 1] + 50.0)
    assert np.ptp(angles) * 50.0 == pytest.approx(3.0, abs=0.05)
    assert radii_m.max() - radii_m.min() > 8.0


def test_a_map_without_sidewalks_is_still_a_mesh_of_roads():
    text = ELSEWHERE.replace('type="sidewalk"', 'type="driving"').replace('type="crosswalk"', 'type="pole"')
    assert {polygon.area for polygon in walk_mesh(parse_map(text, "x")).polygons} == {ROAD[0]}


def test_nothing_to_walk_on_and_too_much_are_refused():
    with pytest.raises(InputError, match="nothing to walk on"):
        encode(WalkMesh(np.empty((0, 3)), ()))
    with pytest.raises(InputError, match="at most"):
        encode(WalkMesh(TRIANGLE.points, TRIANGLE.polygons * 40000))


def test_one_triangle_is_a_mesh():
    tile = decode(encode(TRIANGLE))
    assert tile.mesh.polygons == TRIANGLE.polygons
    assert np.array_equal(tile.mesh.points, TRIANGLE.points)
    assert tile.neighbours == ((0, 0, 0),)


@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_a_damaged_file_is_read_or_refused_in_one_line(place, new):
    good = encode(TRIANGLE)
    for data in (good[: place % len(good)], good[:place] + new + good[place + len(new) :], new):
        try:
            decode(data)
        except InputError as error:
            assert "\n" not in str(error)


def test_corners_that_nearly_meet_are_one():
    mesh = walk_mesh(load_map("town"))
    points = mesh.points
    order = np.lexsort((points[:, 1], points[:, 0]))
    for a, b in zip(points[order][:-1], points[order][1:], strict=True):
        assert math.dist(a[:2], b[:2]) > 0.02


@MAPS
def test_people_get_from_everywhere_to_everywhere_over_the_road(tiles, name):
    tile = tiles[name]
    assert len(reached(tile, 0, {SIDEWALK[0], CROSSWALK[0], ROAD[0]})) == len(tile.mesh.polygons)


@MAPS
def test_the_middle_of_a_junction_can_be_walked_on(tiles, name):
    tile, road_map = tiles[name], load_map(name)
    rings = [ring_of(tile, polygon) for polygon in tile.mesh.polygons]
    inside = [line.points[len(line.points) // 2] for line in road_map.lanes if line.is_junction and line.kind == "driving"]
    for x, y, _ in inside:
        assert any(contains(ring[::-1], float(x), float(y)) for ring in rings)


def test_a_crossing_painted_in_a_junction_is_walked_at_the_end_of_the_road_beside():
    """CARLA's towns have theirs there."""
    xodr = load_map("t-junction").xodr
    road_map = load_map("t-junction")
    inside = next(road for road in road_map.document.roads if road.junction_id is not None)
    crossing = '<object id="77" type="crosswalk" s="1" t="0" hdg="0" length="4" width="8"/>'
    without = re.sub(r"<object [^>]*crosswalk[^>]*?(/>|>.*?</object>)", "", xodr, flags=re.DOTALL)
    plain = decode(write_mesh(parse_map(without, "plain")))
    assert CROSSWALK[0] not in {polygon.area for polygon in plain.mesh.polygons}
    painted = re.sub(
        rf'(<road [^>]*id="{inside.id}"[^>]*>.*?)(</road>)',
        lambda found: with_object(found[1], crossing) + found[2],
        without,
        count=1,
        flags=re.DOTALL,
    )
    tile = decode(write_mesh(parse_map(painted, "painted")))
    crossings = {number for number, polygon in enumerate(tile.mesh.polygons) if polygon.area == CROSSWALK[0]}
    assert crossings
    whole = reached(tile, min(crossings), {CROSSWALK[0]})
    assert whole == crossings
    beside = {tile.mesh.polygons[other - 1].area for number in whole for other in tile.neighbours[number] if other}
    assert SIDEWALK[0] in beside


def with_object(road, thing):
    return road.replace("</objects>", f"{thing}</objects>") if "</objects>" in road else f"{road}<objects>{thing}</objects>"
