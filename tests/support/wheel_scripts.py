"""Scripts for CARLA's own client, run as ``python wheel_scripts.py NAME PORT``: the client may crash, the tests may not.

Each prints one JSON document; what it should hold is said by the test of the same name.
"""

import hashlib
import json
import queue
import socket
import sys
import threading
import time

import carla


def connect(port, *, synchronous=True, step_s=0.05):
    client = carla.Client("localhost", port)
    client.set_timeout(60.0)
    world = client.get_world()
    if synchronous:
        settings = world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, step_s
        world.apply_settings(settings)
    return client, world


def ticks(world, count):
    for _ in range(count):
        world.tick()


def car(world, at=0, name="vehicle.tesla.model3"):
    blueprint = world.get_blueprint_library().find(name)
    return world.spawn_actor(blueprint, world.get_map().get_spawn_points()[at])


def refused(work):
    try:
        work()
    except (RuntimeError, IndexError) as error:
        return str(error)
    return ""


def time_and_world(port):
    client, world = connect(port, synchronous=False)
    waited = [world.wait_for_tick().frame for _ in range(3)]
    seen = queue.Queue()
    number = world.on_tick(lambda snapshot: seen.put(snapshot.frame))
    heard = [seen.get(timeout=60) for _ in range(2)]
    world.remove_on_tick(number)
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds, settings.max_substeps = True, 0.1, 7
    world.apply_settings(settings)
    first = world.tick()
    second = world.tick()
    snapshot = world.get_snapshot()
    weather = carla.WeatherParameters(cloudiness=80.0, sun_altitude_angle=12.5)
    world.set_weather(weather)
    back = world.get_weather()
    spectator = world.get_spectator()
    spectator.set_transform(carla.Transform(carla.Location(1, 2, 30), carla.Rotation(pitch=-20)))
    world.tick()
    road_map = world.get_map()
    return {
        "version": client.get_server_version() == client.get_client_version(),
        "waited": waited,
        "heard": heard,
        "frames": [first, second, snapshot.frame],
        "delta": snapshot.timestamp.delta_seconds,
        "elapsed_grows": snapshot.timestamp.elapsed_seconds > 0.0,
        "substeps": world.get_settings().max_substeps,
        "map": road_map.name,
        "points": len(road_map.get_spawn_points()),
        "topology": len(road_map.get_topology()),
        "maps": client.get_available_maps(),
        "weather": [back.cloudiness, back.sun_altitude_angle],
        "spectator": [spectator.type_id, spectator.get_transform().location.z, spectator.get_transform().rotation.pitch],
    }


def actors(port):
    client, world = connect(port)
    library = world.get_blueprint_library()
    where = world.get_map().get_spawn_points()
    blueprint = library.find("vehicle.mercedes.coupe")
    blueprint.set_attribute("role_name", "hero")
    blueprint.set_attribute("color", "1,2,3")
    first = world.spawn_actor(blueprint, where[0])
    taken = refused(lambda: world.spawn_actor(blueprint, where[0]))
    nobody = world.try_spawn_actor(blueprint, where[0])
    sensor = world.spawn_actor(library.find("sensor.other.gnss"), carla.Transform(carla.Location(z=2)), attach_to=first)
    world.tick()
    found = world.get_actors()
    future = carla.command.FutureActor
    answers = client.apply_batch_sync(
        [
            carla.command.SpawnActor(blueprint, where[1])
            .then(carla.command.SetSimulatePhysics(future, False))
            .then(
                carla.command.ApplyTransform(
                    future, carla.Transform(carla.Location(where[1].location.x, where[1].location.y, 5))
                )
            ),
            carla.command.SpawnActor(blueprint, where[0]),
            carla.command.ApplyVehicleControl(4_000_000, carla.VehicleControl()),
        ],
        True,
    )
    second = world.get_actor(answers[0].actor_id)
    ids = [value.id for value in (first, sensor, second)]
    height = second.get_location().z
    box = first.bounding_box
    result = {
        "taken": taken,
        "nobody": nobody is None,
        "hero": [first.attributes["role_name"], first.attributes["color"], first.type_id],
        "parent": sensor.parent.id == first.id,
        "cars": [vehicle.id for vehicle in found.filter("vehicle.*")] == [first.id],
        "errors": [answer.error for answer in answers],
        "height": height,
        "box": [box.extent.x, box.extent.y, box.extent.z, box.location.z],
        "tags": first.semantic_tags,
    }
    client.apply_batch([carla.command.DestroyActor(actor_id) for actor_id in ids])
    world.tick()
    result["left"] = [actor.id for actor in world.get_actors() if actor.id in ids]
    result["again"] = [second.destroy(), second.is_alive] if second.is_alive else "gone"
    return result


def motion(port):
    _, world = connect(port)
    vehicle = car(world)
    ticks(world, 10)
    vehicle.apply_control(carla.VehicleControl(throttle=0.8, steer=0.1))
    ticks(world, 40)
    control = vehicle.get_control()
    moved = vehicle.get_velocity().length()
    vehicle.apply_control(carla.VehicleControl(brake=1.0))
    ticks(world, 60)
    stopped = vehicle.get_velocity().length()
    physics = vehicle.get_physics_control()
    physics.mass = 3000.0
    wheels = physics.wheels
    for wheel in wheels:
        wheel.tire_friction = 2.0
    physics.wheels = wheels
    vehicle.apply_physics_control(physics)
    world.tick()
    again = vehicle.get_physics_control()
    vehicle.set_light_state(carla.VehicleLightState(carla.VehicleLightState.Brake | carla.VehicleLightState.LowBeam))
    vehicle.open_door(carla.VehicleDoor.All)
    vehicle.close_door(carla.VehicleDoor.FL)
    vehicle.apply_ackermann_control(carla.VehicleAckermannControl(speed=5.0))
    ticks(world, 150)
    cruise = vehicle.get_velocity().length()
    telemetry = vehicle.get_telemetry_data()
    vehicle.enable_constant_velocity(carla.Vector3D(3.0, 0.0, 0.0))
    ticks(world, 10)
    held = vehicle.get_velocity().length()
    vehicle.disable_constant_velocity()
    vehicle.apply_control(carla.VehicleControl(brake=1.0))
    vehicle.add_impulse(carla.Vector3D(0.0, 0.0, 9000.0))
    vehicle.add_torque(carla.Vector3D(0.0, 0.0, 1e8))
    vehicle.add_force(carla.Vector3D(100.0, 0.0, 0.0))
    vehicle.set_target_angular_velocity(carla.Vector3D(0.0, 0.0, 10.0))
    vehicle.set_enable_gravity(True)
    world.tick()
    risen = vehicle.get_velocity().z
    return {
        "control": [control.throttle, control.steer, control.gear],
        "moved": moved,
        "stopped": stopped,
        "mass": again.mass,
        "friction": [wheel.tire_friction for wheel in again.wheels],
        "lights": int(vehicle.get_light_state()),
        "cruise": cruise,
        "telemetry": [telemetry.speed, telemetry.gear, len(telemetry.wheels)],
        "gains": vehicle.get_ackermann_controller_settings().speed_kp,
        "held": held,
        "risen": risen,
        "steer": vehicle.get_wheel_steer_angle(carla.VehicleWheelLocation.FL_Wheel),
        "limit": vehicle.get_speed_limit(),
    }


def sensors(port):
    _, world = connect(port)
    library, road_map = world.get_blueprint_library(), world.get_map()
    vehicle, other = car(world), car(world, 1, "vehicle.audi.tt")
    queues = {}
    listening = []
    for name, where in {
        "collision": carla.Transform(),
        "gnss": carla.Transform(carla.Location(x=1, z=2)),
        "imu": carla.Transform(),
        "obstacle": carla.Transform(carla.Location(x=2.5, z=1)),
        "lane_invasion": carla.Transform(),
    }.items():
        blueprint = library.find(f"sensor.other.{name}")
        if name == "obstacle":
            blueprint.set_attribute("distance", "30")
        sensor = world.spawn_actor(blueprint, where, attach_to=vehicle)
        queues[name] = queue.Queue()
        sensor.listen(queues[name].put)
        listening.append(sensor)
    ticks(world, 20)
    forward = vehicle.get_transform().get_forward_vector()
    gap = vehicle.get_transform().transform(carla.Location(x=12.0))
    other.set_transform(carla.Transform(carla.Location(gap.x, gap.y, 0.3), vehicle.get_transform().rotation))
    vehicle.set_target_velocity(carla.Vector3D(15 * forward.x, 15 * forward.y, 0.0))
    frames, gnss, same = [], [], []
    for _ in range(40):
        frame = world.tick()
        frames.append(frame)
        while True:
            measured = queues["gnss"].get(timeout=60)
            if measured.frame == frame:
                break
        gnss.append(measured)
        sensor = listening[1]
        same.append(
            measured.transform == sensor.get_transform()
            and measured.timestamp == world.get_snapshot().timestamp.elapsed_seconds
        )
    last = gnss[-1]
    wanted = road_map.transform_to_geolocation(last.transform.location)
    hits = [queues["collision"].get(timeout=60)]  # over a stream of its own, so perhaps after the last tick
    while not queues["collision"].empty():
        hits.append(queues["collision"].get())
    seen = queues["obstacle"].get(timeout=60)
    imu = queues["imu"].get(timeout=60)
    vehicle.set_transform(
        carla.Transform(vehicle.get_location(), carla.Rotation(yaw=vehicle.get_transform().rotation.yaw + 90))
    )
    vehicle.set_target_velocity(carla.Vector3D())
    ticks(world, 3)
    for item in range(20):
        side = vehicle.get_transform().transform(carla.Location(x=0.5 * (item + 1)))
        vehicle.set_location(carla.Location(side.x, side.y, side.z + 0.1))
        ticks(world, 2)
    queues["lane_invasion"].get(timeout=60)  # seen by another thread of the client
    crossed = 1 + queues["lane_invasion"].qsize()
    for sensor in listening:
        sensor.stop()
        sensor.destroy()
    return {
        "gnss": [last.latitude - wanted.latitude, last.longitude - wanted.longitude, last.altitude - wanted.altitude],
        "same": all(same),
        "hits": [[hit.actor.id == vehicle.id, hit.other_actor.id == other.id, hit.normal_impulse.length()] for hit in hits],
        "once": len({(hit.frame, hit.other_actor.id) for hit in hits}) == len(hits),
        "obstacle": [seen.other_actor.type_id, seen.distance],
        "imu": [imu.accelerometer.z, imu.compass],
        "crossed": crossed,
    }


EYES = {
    "sensor.camera.rgb": {"image_size_x": "180", "image_size_y": "120"},
    "sensor.camera.depth": {"image_size_x": "180", "image_size_y": "120"},
    "sensor.camera.optical_flow": {"image_size_x": "180", "image_size_y": "120"},
    "sensor.lidar.ray_cast": {"range": "40", "sensor_tick": "0.1"},
    "sensor.lidar.ray_cast_semantic": {"range": "40"},
    "sensor.other.radar": {},
}


def eyes(port):
    """Drive with sensors that see: frames and what they held, by sensor."""
    _, world = connect(port)
    library, vehicle = world.get_blueprint_library(), car(world)
    queues, listening = {}, []
    for name, attributes in EYES.items():
        blueprint = library.find(name)
        for key, value in attributes.items():
            blueprint.set_attribute(key, value)
        sensor = world.spawn_actor(blueprint, carla.Transform(carla.Location(x=0.5, z=2.2)), attach_to=vehicle)
        queues[name] = queue.Queue()
        sensor.listen(queues[name].put)
        listening.append(sensor)
    vehicle.apply_control(carla.VehicleControl(throttle=0.7, steer=0.2))
    began = world.get_snapshot().frame
    found = {name: {"frames": [], "sizes": [], "digest": hashlib.blake2b()} for name in EYES}
    for tick in range(10):
        frame = world.tick()
        for name, waiting in queues.items():
            if "sensor_tick" in EYES[name] and tick % 2:
                continue
            data = waiting.get(timeout=60)
            noted = found[name]
            noted["frames"].append([data.frame - began, frame - began])
            noted["digest"].update(bytes(data.raw_data))
            if "lidar" in name:
                counts = [data.get_point_count(channel) for channel in range(data.channels)]
                noted["sizes"].append([sum(counts), len(data)])
            elif "camera" in name:
                noted["sizes"].append([data.width, data.height, data.fov])
            else:
                noted["sizes"].append(data.get_detection_count())
    late = {name: waiting.qsize() for name, waiting in queues.items()}
    for sensor in listening:
        sensor.stop()
        sensor.destroy()
    return {"late": late, "found": {name: {**item, "digest": item["digest"].hexdigest()} for name, item in found.items()}}


def maps(port):
    client, world = connect(port)
    vehicle = car(world)
    world.tick()
    before = world.get_snapshot().frame
    world = client.reload_world(False)
    kept = world.get_settings().synchronous_mode
    world.tick()
    result = {
        "kept": kept,
        "frames_go_on": world.get_snapshot().frame > before,
        "empty": [vehicle.type_id for vehicle in world.get_actors().filter("vehicle.*")],
        "new_id": car(world).id > vehicle.id,
        "unknown": refused(lambda: client.load_world("Town07")),
    }
    world = client.load_world("Town03")
    result["alias"] = world.get_map().name
    result["synchronous"] = world.get_settings().synchronous_mode
    xodr = world.get_map().to_opendrive()
    world = client.generate_opendrive_world(xodr, carla.OpendriveGenerationParameters())
    result["sent"] = world.get_map().name
    result["points"] = len(world.get_map().get_spawn_points())
    result["nonsense"] = refused(lambda: client.generate_opendrive_world("<OpenDRIVE/>"))
    result["alive"] = client.get_server_version()
    return result


def two_clients(port):
    first, world = connect(port)
    second, other_world = connect(port, synchronous=False)
    vehicle = car(world)
    frame = world.tick()
    for _ in range(3000):
        if other_world.get_snapshot().frame >= frame:
            break
        threading.Event().wait(0.02)
    same = other_world.get_actor(vehicle.id)
    same.apply_control(carla.VehicleControl(throttle=1.0))
    second.get_server_version()
    other_world.get_settings()
    second.apply_batch_sync([], False)  # whatever was sent before it has arrived
    ticks(world, 20)
    speed = vehicle.get_velocity().length()
    third = carla.Client("localhost", port)
    third.set_timeout(60.0)
    old = [vehicle.id for vehicle in other_world.get_actors().filter("vehicle.*")]
    world = first.reload_world(False)
    ticks(world, 3)
    fresh = car(world)
    ticks(world, 3)
    for _ in range(3000):
        if fresh.id in [actor.id for actor in other_world.get_actors()]:
            break
        threading.Event().wait(0.02)
    return {
        "seen": same.type_id,
        "speed": speed,
        "third": third.get_server_version(),
        "old": old == [vehicle.id],
        "fresh": [vehicle.type_id for vehicle in other_world.get_actors().filter("vehicle.*")],
        "fresh_id": fresh.id > vehicle.id,
    }


def recorder(port):
    client, world = connect(port)
    path = client.start_recorder("runs/one.log", True)
    vehicle = car(world)
    vehicle.apply_control(carla.VehicleControl(throttle=0.8))
    ticks(world, 60)
    end = vehicle.get_location()
    client.stop_recorder()
    world.tick()
    info = client.show_recorder_file_info("runs/one.log", False)
    full = client.show_recorder_file_info("runs/one.log", True)
    hits = client.show_recorder_collisions("runs/one.log", "v", "a")
    blocked = client.show_recorder_actors_blocked("runs/one.log", 0.5, 10)
    outside = [refused(lambda name=name: client.start_recorder(name)) for name in ("../x.log", "/tmp/..", "a/../../x.log", "")]
    absent = refused(lambda: client.show_recorder_file_info("no.log", False))
    world = client.reload_world(False)
    text = client.replay_file("runs/one.log", 0.0, 0.0, vehicle.id)
    ticks(world, 62)
    (again,) = world.get_actors().filter("vehicle.*")
    distance = again.get_location().distance(end)
    client.replay_file("runs/one.log", 1.0, 0.0, 0)
    ticks(world, 5)
    both = len(world.get_actors().filter("vehicle.*"))
    client.stop_replayer(False)
    world.tick()
    return {
        "both": both,
        "path": path,
        "info": info,
        "longer": len(full) > len(info),
        "hits": hits,
        "blocked": blocked,
        "outside": outside,
        "absent": absent,
        "text": text,
        "distance": distance,
        "left": len(world.get_actors().filter("vehicle.*")),
    }


def walkers(port):
    _, world = connect(port)
    library = world.get_blueprint_library()
    world.set_pedestrians_seed(3)
    people = []
    for _ in range(6):
        where = world.get_random_location_from_navigation()
        person = world.try_spawn_actor(library.find("walker.pedestrian.0002"), carla.Transform(where))
        if person is not None:
            people.append(person)
    world.tick()
    minds = [world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), attach_to=walker) for walker in people]
    world.tick()
    starts = [walker.get_location() for walker in people]
    for mind in minds:
        mind.start()
        mind.go_to_location(world.get_random_location_from_navigation())
        mind.set_max_speed(1.4)
    ticks(world, 150)
    moved = [walker.get_location().distance(start) for walker, start in zip(people, starts, strict=True)]
    speeds = [walker.get_velocity().length() for walker in people]
    for mind in minds:
        mind.stop()
        mind.destroy()
    manual = people[0]
    manual.apply_control(carla.WalkerControl(carla.Vector3D(1, 0, 0), 1.0))
    ticks(world, 3)
    return {"people": len(people), "moved": moved, "speeds": speeds, "control": manual.get_control().speed}


def free_port():
    """A port for a traffic manager: of those beside the server's somebody else may have one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def autopilot(port):
    client, world = connect(port)
    road_map = world.get_map()
    manager = client.get_trafficmanager(free_port())
    manager.set_synchronous_mode(True)
    manager.set_random_device_seed(2)
    library = world.get_blueprint_library()
    vehicles = []
    for point in road_map.get_spawn_points()[::12][:12]:
        vehicle = world.try_spawn_actor(library.find("vehicle.toyota.prius"), point)
        if vehicle is not None:
            vehicle.set_autopilot(True, manager.get_port())
            vehicles.append(vehicle)
    starts = [vehicle.get_location() for vehicle in vehicles]
    away = []
    for tick in range(200):
        world.tick()
        if tick >= 40 and tick % 20 == 0:
            away += [
                road_map.get_waypoint(vehicle.get_location()).transform.location.distance(vehicle.get_location())
                for vehicle in vehicles
            ]
    moved = [vehicle.get_location().distance(start) for vehicle, start in zip(vehicles, starts, strict=True)]
    manager.shut_down()
    return {"vehicles": len(vehicles), "away": max(away), "moved": sorted(moved)}


def synchronous_traffic_manager(port):
    """Ticks as fast as they go, where the client is quickest to lose its wake-up; it never comes back then.

    They are few here; ``python -m bench deadlock`` makes many.
    """
    client, world = connect(port)
    manager = client.get_trafficmanager(free_port())
    manager.set_synchronous_mode(True)
    first = world.get_snapshot().frame
    ticks(world, 400)
    vehicle = car(world)
    vehicle.set_autopilot(True, manager.get_port())
    ticks(world, 200)
    manager.shut_down()
    return {"ticks": world.get_snapshot().frame - first}


def loads_with_a_traffic_manager(port):
    """In real time: the traffic manager's thread goes on while its client has no world."""
    client, world = connect(port, synchronous=False)
    manager = client.get_trafficmanager(free_port())
    loads = 0
    for name in ["Town03", "t-junction"] * 3:
        for at in range(4):
            car(world, at).set_autopilot(True, manager.get_port())
        for _ in range(5):
            world.wait_for_tick()
        world = client.load_world(name)
        loads += 1
    return {"loads": loads, "map": world.get_map().name}


def scenery(port):
    _, world = connect(port)
    houses = world.get_environment_objects(carla.CityObjectLabel.Buildings)
    boxes = world.get_level_bbs(carla.CityObjectLabel.Buildings)
    middle = houses[0].bounding_box.location
    above, below = carla.Location(middle.x, middle.y, 60.0), carla.Location(middle.x, middle.y, -1.0)
    before = [str(hit.label) for hit in world.cast_ray(above, below)]
    world.enable_environment_objects({houses[0].id}, False)
    world.tick()
    after = [str(hit.label) for hit in world.cast_ray(above, below)]
    ground = world.ground_projection(above, 100.0)
    point = world.project_point(above, carla.Vector3D(0, 0, -1), 100.0)
    manager = world.get_lightmanager()
    lamps = manager.get_all_lights()
    manager.turn_on(lamps[:2])
    manager.set_intensity(lamps[:2], 5.0)
    ticks(world, 2)
    lights = world.get_actors().filter("traffic.traffic_light")
    light = lights[0]
    group = light.get_group_traffic_lights()
    light.set_state(carla.TrafficLightState.Yellow)
    light.set_green_time(7.0)
    world.freeze_all_traffic_lights(True)
    ticks(world, 2)
    shown = str(light.get_state())
    frozen = light.is_frozen()
    world.freeze_all_traffic_lights(False)
    world.reset_all_traffic_lights()
    debug = world.debug
    debug.draw_point(above)
    debug.draw_line(above, below)
    debug.draw_arrow(above, below)
    debug.draw_box(houses[0].bounding_box, carla.Rotation())
    debug.draw_string(above, "here")
    world.unload_map_layer(carla.MapLayer.Buildings)
    world.load_map_layer(carla.MapLayer.Buildings)
    world.tick()
    landmarks = [item.id for item in world.get_map().get_all_landmarks_of_type("1000001")]
    return {
        "houses": [len(houses), len(boxes)],
        "before": before,
        "after": after,
        "ground": [str(ground.label), ground.location.z],
        "point": str(point.label),
        "lamps": len(lamps),
        "lights": len(lights),
        "group": light.id in [item.id for item in group],
        "boxes": len(light.get_light_boxes()),
        "shown": shown,
        "green": light.get_green_time(),
        "frozen": frozen,
        "landmark": light.get_opendrive_id() in landmarks,
        "stops": len(light.get_stop_waypoints()),
        "names": len(world.get_names_of_all_objects()),
        "gravity": world.get_imui_sensor_gravity(),
    }


def gbuffers(port):
    """All G-buffers of one camera beside cameras that draw the same; then one of them is stopped."""
    _, world = connect(port)
    vehicle = car(world)
    ids = {name: value for name, value in vars(carla.GBufferTextureID).items() if isinstance(value, int)}
    names = [name for name in ids if isinstance(ids[name], carla.GBufferTextureID)]
    kinds = {"SceneColor": "rgb", "SceneDepth": "depth", "GBufferA": "normals", "CustomStencil": "semantic_segmentation"}
    cameras, seen = {}, {}
    for kind in kinds.values():
        blueprint = world.get_blueprint_library().find(f"sensor.camera.{kind}")
        blueprint.set_attribute("image_size_x", "80")
        blueprint.set_attribute("image_size_y", "60")
        where = carla.Transform(carla.Location(x=1.5, z=2.4))
        cameras[kind] = world.spawn_actor(blueprint, where, attach_to=vehicle)
        cameras[kind].listen(lambda image, kind=kind: seen.setdefault((kind, image.frame), bytes(image.raw_data)))
    for name in names:
        cameras["rgb"].listen_to_gbuffer(
            ids[name], lambda image, name=name: seen.setdefault((name, image.frame), bytes(image.raw_data))
        )
    wanted = len(names) + len(kinds)
    made = [world.tick() for _ in range(5)]
    for _ in range(600):
        if len(seen) == wanted * len(made):
            break
        time.sleep(0.1)
    frames = {name: sum(key[0] == name for key in seen) for name in names}
    same = {name: all(seen[name, frame] == seen[kind, frame] for frame in made) for name, kind in kinds.items()}
    nothing = bytes([0, 0, 0, 255]) * (80 * 60)
    black = all(seen[name, frame] == nothing for name in names if name not in kinds for frame in made)
    cameras["rgb"].stop_gbuffer(carla.GBufferTextureID.SceneDepth)
    # What is on its way when somebody stops listening may still come.
    for _ in range(20):
        world.tick()
    time.sleep(0.5)
    seen.clear()
    last = [world.tick() for _ in range(3)]
    for _ in range(600):
        if sum(key[0] == "depth" for key in seen) == len(last):
            break
        time.sleep(0.1)
    return {
        "frames": frames,
        "ticks": len(made),
        "as_cameras": same,
        "black": black,
        "after_stop": sum(key[0] == "SceneDepth" for key in seen),
    }


def absent(port):
    client, world = connect(port)
    vehicle = car(world)
    person = world.spawn_actor(
        world.get_blueprint_library().find("walker.pedestrian.0003"), world.get_map().get_spawn_points()[5]
    )
    world.tick()
    told = [
        refused(lambda: world.get_blueprint_library().find("sensor.camera.cosmos_visualization")),
    ]
    parts = [bone.name for bone in person.get_bones().bone_transforms], vehicle.get_component_names()
    vehicle.enable_carsim("x")
    vehicle.use_carsim_road(True)
    world.tick()
    return {"told": told, "parts": parts, "alive": client.get_server_version()}


def digest(world, actors):
    chain = hashlib.blake2b()
    snapshot = world.get_snapshot()
    for actor in actors:
        state = snapshot.find(actor.id)
        at, turn = state.get_transform().location, state.get_transform().rotation
        for item in (at, state.get_velocity(), state.get_angular_velocity(), state.get_acceleration()):
            chain.update(repr((item.x, item.y, item.z)).encode())
        chain.update(repr((turn.pitch, turn.yaw, turn.roll)).encode())
    return chain.hexdigest()


def drive(port, vehicles, count):
    """Drive vehicles about and return what the client saw, as digests."""
    client, world = connect(port)
    points = world.get_map().get_spawn_points()
    library = sorted(world.get_blueprint_library().filter("vehicle.*"), key=lambda item: item.id)
    batch = [carla.command.SpawnActor(library[number % len(library)], points[number]) for number in range(vehicles)]
    answers = client.apply_batch_sync(batch, True)
    ids = [answer.actor_id for answer in answers if not answer.error]
    actors = [world.get_actor(actor_id) for actor_id in ids]
    chain = hashlib.blake2b()
    for tick in range(count):
        controls = [
            carla.command.ApplyVehicleControl(
                actor_id, carla.VehicleControl(throttle=0.4, steer=0.5 + ((tick // 10 + number) % 4) / 10)
            )
            for number, actor_id in enumerate(ids)
        ]
        if tick % 5 == 0:
            client.apply_batch_sync(controls, True)
        else:
            world.tick()
        if tick % 10 == 0 or tick == count - 1:
            chain.update(digest(world, actors).encode())
    return {"vehicles": len(ids), "digest": chain.hexdigest()}


def thousand_ticks(port):
    return drive(port, 5, 1000)


def two_hundred_ticks(port):
    return drive(port, 5, 200)


def hundred_vehicles(port):
    return drive(port, 100, 60)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]))))
