"""CARLA's own client reads our navigation mesh, and its walkers walk on it: on sidewalks, over crossings, nowhere else."""

import itertools
import json
import math
import os
import subprocess
import sys

import pytest

from samepath.simulator.maps import load_map
from samepath.simulator.maps.surfaces import contains
from samepath.simulator.maps.walking import CROSSWALK, SIDEWALK
from samepath.simulator.server.navmesh import decode, write_mesh

pytest.importorskip("carla")

CLIENT = """
import json, sys, carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(30.0)
world = client.get_world()
settings = world.get_settings()
settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.1
world.apply_settings(settings)
world.set_pedestrians_seed(11)
world.set_pedestrians_cross_factor(0.0)
world.tick()
library = world.get_blueprint_library()
places = [world.get_random_location_from_navigation() for _ in range(12)]
walkers = []
for number, place in enumerate(places):
    up = carla.Location(place.x, place.y, place.z + 1.0)
    walkers.append(world.try_spawn_actor(library.find(f"walker.pedestrian.{number + 1:04d}"), carla.Transform(up)))
walkers = [one for one in walkers if one is not None]
world.tick()
minds = [world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), one) for one in walkers]
world.tick()
for mind in minds:
    mind.start()
    mind.go_to_location(world.get_random_location_from_navigation())
    mind.set_max_speed(2.0)
paths = [[] for _ in walkers]
for _ in range(300):
    world.tick()
    for path, walker in zip(paths, walkers):
        at = walker.get_location()
        path.append((at.x, at.y, at.z))
print(json.dumps({"places": [(one.x, one.y, one.z) for one in places], "paths": paths}))
"""


# Sends a walker from a sidewalk to the middle of the street beside it, and says how near it came.
JAYWALKER = """
import json, sys, carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(30.0)
world = client.get_world()
settings = world.get_settings()
settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.1
world.apply_settings(settings)
library = world.get_blueprint_library()
lane = world.get_map().get_spawn_points()[0]
aside = world.get_map().get_waypoint(lane.location, lane_type=carla.LaneType.Sidewalk).transform.location
up = carla.Transform(carla.Location(aside.x, aside.y, aside.z + 1.0))
walker = world.spawn_actor(library.find("walker.pedestrian.0001"), up)
world.tick()
mind = world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), walker)
world.tick()
mind.start()
goal = carla.Location(lane.location.x, lane.location.y, 0.0)
mind.go_to_location(goal)
nearest = 1e9
for _ in range(60):
    world.tick()
    at = walker.get_location()
    nearest = min(nearest, ((at.x - goal.x) ** 2 + (at.y - goal.y) ** 2) ** 0.5)
print(json.dumps(nearest))
"""


def told(script, folder, *options):
    """What a client of CARLA's says in its last line, with a server of its own."""
    environment = {**os.environ, "CARLA_CACHE_DIR": str(folder / "cache")}
    serve = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--data", str(folder / "data"), *options]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            line = server.stdout.readline()
            assert "127.0.0.1:" in line, line + server.stdout.read()
            port = line.split("127.0.0.1:")[1].split(",")[0]
            client = [sys.executable, "-c", script, port]
            done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=120, check=False)
        finally:
            server.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    return told(CLIENT, tmp_path_factory.mktemp("walk"), "--map", "town")


def test_a_walker_is_sent_onto_the_road_where_people_may_walk_anywhere(tmp_path):
    # Without the option the client takes the nearest place on a sidewalk instead, more than 3 m away.
    assert told(JAYWALKER, tmp_path, "--map", "t-junction", "--walk-anywhere") < 1.0


@pytest.fixture(scope="module")
def area_at():
    tile = decode(write_mesh(load_map("town")))
    rings = [
        (polygon.area, [tuple(map(float, tile.mesh.points[corner])) for corner in polygon.corners])
        for polygon in tile.mesh.polygons
    ]

    def find(x_m, y_m):
        near = [(area, ring) for area, ring in rings if any(abs(x - x_m) < 21.0 and abs(y - y_m) < 21.0 for x, y, _ in ring)]
        # The client's numbers have 32 bits: a foot on the edge may be a hair over it.
        return {
            area
            for area, ring in near
            for dx, dy in ((0.0, 0.0), (1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3))
            if contains(ring, x_m + dx, y_m + dy)
        }

    return find


def test_random_places_are_on_sidewalks(walked, area_at):
    assert len(walked["places"]) == 12
    for x_m, y_m, z_m in walked["places"]:
        assert SIDEWALK[0] in area_at(x_m, y_m)
        assert z_m == pytest.approx(0.125, abs=0.15)


def test_walkers_walk(walked):
    assert len(walked["paths"]) >= 10
    for path in walked["paths"]:
        walked_m = sum(math.dist(a[:2], b[:2]) for a, b in itertools.pairwise(path))
        assert walked_m > 15.0


def test_walkers_keep_to_sidewalks_and_crossings(walked, area_at):
    seen = set()
    for path in walked["paths"]:
        for x_m, y_m, _ in path[20::10]:
            areas = area_at(x_m, y_m)
            assert areas & {SIDEWALK[0], CROSSWALK[0]}, (x_m, y_m)
            seen |= areas
    assert CROSSWALK[0] in seen
