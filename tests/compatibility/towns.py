"""Traffic in towns that nobody here drew: CARLA's own client and traffic manager on every OpenDRIVE file of a folder.

``python -m tests.compatibility.towns FOLDER``, where FOLDER holds ``*.xodr`` files, such as those of a CARLA installation or of
Scenic's repository. For each of them a server is started with ``--maps FOLDER``, a fresh process loads the map by its name and
puts 40 cars under the traffic manager for ten simulated minutes. What is counted, and no more:

- **lights**: how many cars were ever at a traffic light, and how many lights have stop way-points;
- **collisions**: pairs that touched, each counted once for a second;
- **off the road**: cars whose middle was on no driving, shoulder or parking lane, looked at every second. Each kind of lane is
  asked for apart, and the lanes beside the one that was found are looked at too: CARLA's client takes the lane whose middle is
  nearest, so that a car near the edge of a lane, with a narrow shoulder beside it, would count as on neither;
- **overturned**: cars that leant by more than 45 degrees;
- **jammed**: cars that moved less than 5 m in the last two minutes: the lights of a junction take one. CARLA's traffic manager
  takes out cars that stood for 90 s; those are counted with them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

PORT = 3760
LONGEST_S = 3600.0

# Runs in a process of its own: CARLA's client may end it.
SCRIPT = """
import json, random, sys
import carla
port, name, cars, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
client = carla.Client("127.0.0.1", port)
client.set_timeout(600.0)
world = client.load_world(name)
settings = world.get_settings()
settings.synchronous_mode, settings.fixed_delta_seconds, settings.no_rendering_mode = True, 0.05, True
world.apply_settings(settings)
chance = random.Random(7)
manager = client.get_trafficmanager(port + 5)
manager.set_synchronous_mode(True)
manager.set_random_device_seed(7)
manager.set_global_distance_to_leading_vehicle(2.5)
world.tick()
places = world.get_map().get_spawn_points()
chance.shuffle(places)
blueprints = world.get_blueprint_library()
kinds = sorted((b for b in blueprints.filter("vehicle.*") if b.get_attribute("base_type") == "car"), key=lambda b: b.id)
vehicles, spread = [], []
for place in places:
    if len(vehicles) == cars:
        break
    if all(place.location.distance(other.location) > 12.0 for other in spread):
        found = world.try_spawn_actor(chance.choice(kinds), place)
        if found is not None:
            vehicles.append(found)
            spread.append(place)
touched = []
sensors = []
def noted(event, me):
    other = event.other_actor
    # Both cars of a pair have a sensor: it is one collision.
    kind = other.type_id if other.id == 0 else "vehicle"
    touched.append((event.frame, min(me, other.id), max(me, other.id), kind))
for vehicle in vehicles:
    sensor = world.spawn_actor(blueprints.find("sensor.other.collision"), carla.Transform(), attach_to=vehicle)
    sensor.listen(lambda event, me=vehicle.id: noted(event, me))
    sensors.append(sensor)
world.tick()
for vehicle in vehicles:
    vehicle.set_autopilot(True, port + 5)
lights = [light for light in world.get_actors().filter("traffic.traffic_light")]
with_stops = sum(bool(light.trigger_volume.extent.x > 0 and light.get_stop_waypoints()) for light in lights)
road_map = world.get_map()
DRIVABLE = (carla.LaneType.Driving, carla.LaneType.Shoulder, carla.LaneType.Parking, carla.LaneType.Bidirectional)
def on_lane(place, lane):
    if lane is None or lane.lane_type not in DRIVABLE:
        return False
    middle, right = lane.transform.location, lane.transform.get_right_vector()
    return abs((place.x - middle.x) * right.x + (place.y - middle.y) * right.y) <= lane.lane_width / 2 + 0.01
def on_road(place):
    for kind in DRIVABLE:
        if road_map.get_waypoint(place, False, kind) is not None:
            return True
    for kind in DRIVABLE:
        near = road_map.get_waypoint(place, True, kind)
        if near is None or near.transform.location.distance_2d(place) > 6.0:
            continue
        if any(on_lane(place, lane) for lane in (near, near.get_left_lane(), near.get_right_lane())):
            return True
    return False
at_light, off, trail, driven = set(), {}, {v.id: [] for v in vehicles}, {v.id: 0.0 for v in vehicles}
last, gone, over = {}, {}, {}
for tick in range(round(seconds / 0.05)):
    frame = world.tick()
    if tick % 20:
        continue
    there = {actor.id for actor in world.get_snapshot()}
    for vehicle in vehicles:
        if vehicle.id not in there:  # CARLA's traffic manager takes out who has stood for too long
            gone.setdefault(vehicle.id, [tick * 0.05, [round(x, 1) for x in (last[vehicle.id].x, last[vehicle.id].y)]])
            continue
        if vehicle.is_at_traffic_light():
            at_light.add(vehicle.id)
        here = vehicle.get_location()
        if vehicle.id in last:
            driven[vehicle.id] += here.distance(last[vehicle.id])
        last[vehicle.id] = here
        trail[vehicle.id].append(driven[vehicle.id])
        if not on_road(here):
            off.setdefault(vehicle.id, []).append([round(x, 1) for x in (here.x, here.y)])
        lean = vehicle.get_transform().rotation
        if max(abs(lean.roll), abs(lean.pitch)) > 45.0:
            over.setdefault(vehicle.id, [tick * 0.05, round(here.x, 1), round(here.y, 1)])
first = frame - round(seconds / 0.05)
seconds_touched = sorted({((f - first) // 20, a, b, kind) for f, a, b, kind in touched})
places = {n: [round(x, 1) for x in (place.x, place.y)] for n, place in last.items()}
jammed = [n for n, way in trail.items() if len(way) > 120 and way[-1] - way[-121] < 5.0]
print("result: " + json.dumps({
    "cars": len(vehicles), "lights": len(lights), "lights_with_stops": with_stops, "cars_at_lights": len(at_light),
    "collisions": len(seconds_touched), "touched": seconds_touched[:40],
    "off_road": {n: [len(spots), spots[0]] for n, spots in off.items()}, "overturned": over,
    "jammed": {n: places[n] for n in jammed if n not in gone}, "gone": gone,
    "driven_m": round(sum(driven.values()) / max(1, len(driven))), "spawn_points": len(road_map.get_spawn_points()),
}), flush=True)
import os
os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with *.xodr files")
    parser.add_argument("--cars", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=600.0, help="simulated seconds on each map")
    parser.add_argument("--only", nargs="*", help="names of maps")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    names = [path.stem for path in sorted(arguments.folder.glob("*.xodr"))]
    if not names:
        parser.error(f"{arguments.folder}: a folder with *.xodr files was wanted")
    results = {}
    for name in names:
        if not arguments.only or name in arguments.only:
            results[name] = run(arguments.folder, name, arguments.cars, arguments.seconds, arguments.port)
            print(f"{name}: {json.dumps(results[name])[:400]}", file=sys.stderr, flush=True)
    table = Table(
        "map",
        "cars",
        "at a light",
        "lights with stops",
        "collisions",
        "off the road",
        "overturned",
        "jammed",
        "driven",
        box=None,
    )
    for name, found in results.items():
        if "error" in found:
            table.add_row(name, found["error"])
            continue
        jammed = len(found["jammed"]) + len(found["gone"])
        table.add_row(
            name, str(found["cars"]), str(found["cars_at_lights"]), f"{found['lights_with_stops']} of {found['lights']}",
            str(found["collisions"]), str(len(found["off_road"])), str(len(found["overturned"])), str(jammed),
            f"{found['driven_m']} m",
        )  # fmt: skip
    Console(width=140).print(table)
    if arguments.save:
        figures: dict[str, object] = {"seconds": arguments.seconds, "maps": results}
        save("towns", figures, ["python", "-m", "tests.compatibility.towns", "FOLDER"])
    good = all(
        "error" not in found and not any(found[k] for k in ("collisions", "off_road", "overturned", "jammed", "gone"))
        for found in results.values()
    )
    return 0 if good else 1


def run(folder: Path, name: str, cars: int, seconds: float, port: int) -> dict[str, object]:
    """What was counted on one map, or the line it failed with."""
    with tempfile.TemporaryFile("w+") as log, serving(port, ["--map", "oval", "--maps", str(folder.absolute())]):
        print(f"{name} ...", file=sys.stderr, flush=True)
        words = [sys.executable, "-c", SCRIPT, str(port), name, str(cars), str(seconds)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=log, text=True, timeout=LONGEST_S, check=False)
        last = done.stdout.strip().rpartition("\n")[2]
        if last.startswith("result: "):
            found: dict[str, object] = json.loads(last.removeprefix("result: "))
            return found
        log.seek(0)
        return {"error": f"ended with {done.returncode}: {log.read()[-300:].strip()}"}


if __name__ == "__main__":
    sys.exit(main())
