"""The one mesh that wheels feel: what rays meet in it is what the world has, and vehicles drive on it as on the world."""

import numpy as np
import pytest
import rapier3d

from samepath.core.catalogue import actor_type
from samepath.core.states import Pose, VehicleCommand
from samepath.core.streams import stream
from samepath.simulator.maps import load_map
from samepath.simulator.physics import engine
from samepath.simulator.physics.engine import Physics, PhysicsSettings, gathered
from samepath.simulator.server.maps import served_map

CAR = actor_type("vehicle.tesla.model3")


@pytest.fixture(scope="module")
def town():
    return served_map("town", load_map("town")).statics


def furnished(statics):
    """Physics with the scenery, a box that is no mesh, and one tree that is hidden."""
    physics = Physics(PhysicsSettings())
    for mesh in statics:
        physics.add_static(mesh.name, mesh.vertices, mesh.triangles, ground=mesh.ground)
    physics.add_box("kerb", Pose(3.0, 1.0, 0.0, yaw_deg=20.0), (2.0, 0.4, 0.2))
    physics.show_scenery(frozenset([next(mesh.name for mesh in statics if "tree" in mesh.name)]), on=False)
    return physics


def test_rays_meet_in_it_what_they_meet_in_the_world(town):
    physics = furnished(town)
    world = physics._world
    ground = gathered(world.colliders)
    queries = rapier3d.QueryPipeline(ground.broad_phase, ground.narrow_phase, world.rigid_bodies, ground.colliders)
    assert len(ground.colliders) == 2  # one mesh, and the box
    corners = np.concatenate([mesh.vertices for mesh in town]) * (1.0, -1.0, 1.0)
    chance = stream(1, "rays")
    near = corners[chance.integers(0, len(corners), 4000)] + chance.normal(0.0, 0.5, (4000, 3)) * (1.0, 1.0, 0.2)
    met = []
    for x, y, z in near.tolist():
        ray = rapier3d.Ray((x, y, z + 0.4), (*chance.normal(0.0, 0.2, 2).tolist(), -1.0))
        found = [pipeline.cast_ray_and_get_normal(ray, 1.0, True) for pipeline in (world.query_pipeline, queries)]
        said = [hit and (hit[1].time_of_impact, hit[1].normal.to_tuple()) for hit in found]
        assert said[0] == said[1]
        met.append(said[0] is not None)
    assert 0.2 < np.mean(met) < 1.0


def drive(physics, vehicles, ticks):
    places = [(12.0 * (number % 4) - 6.0, 9.0 * (number // 4)) for number in range(vehicles)]
    for number, (x_m, y_m) in enumerate(places, 1):
        physics.add(number, CAR, Pose(x_m, y_m, 0.4, yaw_deg=40.0 * number))
        physics.command(number, VehicleCommand(throttle=0.6, steer=0.1 * number - 0.4))
    for _ in range(ticks):
        physics.step()
    return physics.state_array(range(1, vehicles + 1)).tobytes()


@pytest.mark.parametrize("prop", [False, True])
def test_vehicles_drive_on_it_as_on_the_world_itself(town, prop, monkeypatch):
    found = []
    for many in (engine._MANY_VEHICLES, 1000):
        monkeypatch.setattr(engine, "_MANY_VEHICLES", many)
        physics = furnished(town)
        before = drive(physics, 8, 40)
        assert (physics._ground is not None) == (many == 8)
        if prop:
            # It never moves, but it is no scenery: wheels must feel it too.
            physics.add(20, actor_type("static.prop.container"), Pose(0.0, 30.0, 0.0))
        physics.show_scenery(frozenset(["kerb"]), on=False)
        for _ in range(10):
            physics.step()
        assert (physics._ground is not None) == (many == 8 and not prop)
        found.append(before + physics.state_array(range(1, 9)).tobytes())
    assert found[0] == found[1]


def test_a_restored_world_has_the_same(town):
    physics = furnished(town)
    drive(physics, 8, 10)
    again = Physics.restore(*physics.snapshot())
    for _ in range(10):
        physics.step()
        again.step()
    assert again._ground is not None
    assert again.state_array(range(1, 9)).tobytes() == physics.state_array(range(1, 9)).tobytes()
