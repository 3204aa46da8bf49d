"""What all scripts here begin with: a synchronous world and a car."""

import os

import carla


def connect(*, synchronous=True):
    client = carla.Client(os.environ.get("CARLA_HOST", "localhost"), int(os.environ.get("CARLA_PORT", "2000")))
    client.set_timeout(20.0)
    world = client.get_world()
    if synchronous:
        settings = world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        world.apply_settings(settings)
    return client, world


def spawn(world, at=0):
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    return world.spawn_actor(blueprint, world.get_map().get_spawn_points()[at])
