"""Scripts for CARLA's own client while actors come and go, run as ``python wheel_coming_and_going_scripts.py NAME PORT``."""

import json
import socket
import sys

import carla


def connect(port):
    client = carla.Client("localhost", port)
    client.set_timeout(60.0)
    return client, client.get_world()


def free_port():
    """A port for a traffic manager: of those beside the server's somebody else may have one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def vanishing(port):
    """Vehicles are destroyed while the traffic manager's thread looks at them; another client takes some of its own away."""
    client, world = connect(port)
    other, _ = connect(port)
    manager = client.get_trafficmanager(free_port())
    vehicle = world.get_blueprint_library().find("vehicle.toyota.prius")
    points = world.get_map().get_spawn_points()
    autopilot = carla.command.SetAutopilot(carla.command.FutureActor, True, manager.get_port())
    rounds = 0
    for _ in range(12):
        batch = [carla.command.SpawnActor(vehicle, point) for point in points[:60]]
        batch = [item.then(autopilot) if number % 2 else item for number, item in enumerate(batch)]
        ids = [item.actor_id for item in client.apply_batch_sync(batch, False) if not item.error]
        world.wait_for_tick()
        for actor_id in ids:
            other.apply_batch_sync([carla.command.DestroyActor(actor_id)], False)
        rounds += 1
    manager.shut_down()
    return {"rounds": rounds}


def gone(port):
    """What a script gets that asks for an actor which another client has taken away."""
    client, world = connect(port)
    library = world.get_blueprint_library()
    actor = world.spawn_actor(library.find("vehicle.toyota.prius"), world.get_map().get_spawn_points()[0])
    before = actor.bounding_box.extent.x
    connect(port)[0].apply_batch_sync([carla.command.DestroyActor(actor)], False)
    actor.set_simulate_physics(True)
    actor.set_collisions(True)
    return {"before": before, "alive": client.get_server_version()}


def fresh(port):
    """Where actors are as soon as they have been spawned, in asynchronous mode."""
    client, world = connect(port)
    library, points = world.get_blueprint_library(), world.get_map().get_spawn_points()
    away = []
    for point in points[:30]:
        actor = world.spawn_actor(library.find("vehicle.toyota.prius"), point)
        away.append(actor.get_location().distance(point.location))
    answers = client.apply_batch_sync(
        [carla.command.SpawnActor(library.find("vehicle.toyota.prius"), point) for point in points[30:60]], False
    )
    # One moment for all thirty: who is late for it sees none of them.
    placed = zip(points[30:60], answers, strict=True)
    away.append(max(world.get_actor(answer.actor_id).get_location().distance(point.location) for point, answer in placed))
    people = 0
    for _ in range(10):
        where = world.get_random_location_from_navigation()
        person = world.try_spawn_actor(library.find("walker.pedestrian.0002"), carla.Transform(where))
        if person is None:
            continue
        away.append(person.get_location().distance(where) - 2.0)
        mind = world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), attach_to=person)
        mind.start()
        mind.go_to_location(world.get_random_location_from_navigation())
        people += 1
    for _ in range(20):
        world.wait_for_tick()
    return {"elsewhere": sum(distance > 1.0 for distance in away), "actors": len(away), "people": people}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]))))
