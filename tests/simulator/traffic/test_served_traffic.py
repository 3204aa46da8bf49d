"""Traffic of the server's own: clients see it, journals and snapshots go on with it, and it repeats itself."""

import shutil

import numpy as np
import pytest

from samepath.simulator.carla import blueprints
from samepath.simulator.carla.records import Settings, write_settings
from samepath.simulator.server import snapshot
from samepath.simulator.server.actors import VehicleEntry, WalkerEntry
from samepath.simulator.server.journal import JournalOrigin
from samepath.simulator.server.ticking import tick
from samepath.simulator.traffic.traffic import TRAFFIC_CARS, TRAFFIC_WALKERS, TrafficSettings
from tests.support.journal_scenario import Desk, kept, resumed

TRAFFIC = TrafficSettings(vehicles=10, walkers=4, seed=3)


@pytest.fixture(autouse=True)
def closed():
    yield
    while Desk.open:
        Desk.open.pop().close()


def started(*, journal=None, map_name="town", traffic=TRAFFIC):
    desk = Desk(journal, map_name=map_name, traffic=traffic)
    desk.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
    return desk


def ticked(desk, ticks):
    for _ in range(ticks):
        desk.ask("tick_cue")
    return desk


def places(desk):
    return {entry.id: desk.episode.pose(entry)[:2] for entry in desk.episode.actors if entry.has_body}


def test_clients_know_a_blueprint_of_everything_in_the_traffic():
    assert {*TRAFFIC_CARS, *TRAFFIC_WALKERS} <= {blueprint.id for blueprint in blueprints.library()}


def test_it_comes_with_the_first_tick_and_drives_as_clients_see():
    desk = started()
    assert places(desk) == {}
    ticked(desk, 1)
    begun = places(desk)
    ticked(desk, 60)
    cars = desk.episode.actors.all(VehicleEntry)
    assert (len(cars), len(desk.episode.actors.all(WalkerEntry))) == (10, 4)
    now = places(desk)
    assert sum(abs(now[n][0] - x) + abs(now[n][1] - y) > 3.0 for n, (x, y) in begun.items()) >= 10
    # What a client reads as a vehicle's control is what it was told.
    assert any(car.control.throttle > 0.0 for car in cars)
    assert np.isfinite(desk.episode.actors.states.rows["motion"]).all()


def test_two_servers_give_the_same_bits_and_another_seed_others():
    first, second = (ticked(started(), 40).state() for _ in range(2))
    other = ticked(started(traffic=TrafficSettings(vehicles=10, walkers=4, seed=4)), 40)
    assert first == second != other.state()


def test_a_client_may_destroy_and_spawn_in_the_midst_of_it():
    desk = ticked(started(), 20)
    car = desk.episode.actors.all(VehicleEntry)[0].id
    assert desk.ask("destroy_actor", car) is True
    ticked(desk, 5)
    assert car not in desk.episode.traffic.ids


def test_a_snapshot_goes_on_bit_for_bit():
    desk = ticked(started(), 30)
    again = snapshot.restore(snapshot.take(desk.episode), desk.episode.context)
    assert again.traffic.to_plain() == desk.episode.traffic.to_plain()
    snapshot.go_live(again, desk.episode.context)
    ticked(desk, 20)
    for _ in range(20):
        tick(again, 0.05)
    assert again.world.digest == desk.episode.world.digest


def test_a_server_that_dies_is_continued_with_its_traffic(tmp_path):
    desk = ticked(started(journal=kept(tmp_path / "journal", every_ticks=16)), 25)
    alive = desk.state()
    shutil.copytree(tmp_path / "journal", tmp_path / "died", ignore=shutil.ignore_patterns(".lock", "*.partial"))
    again = Desk(resumed(tmp_path / "died"), traffic=TRAFFIC)
    assert again.state() == alive
    assert ticked(again, 10).state() == ticked(desk, 10).state()


def test_a_journal_remembers_which_traffic_there_was():
    origin = JournalOrigin("town", traffic=TRAFFIC)
    assert JournalOrigin.of(origin.plain()).traffic == TRAFFIC
    assert JournalOrigin.of(JournalOrigin("town").plain()).traffic is None


def test_a_map_without_room_for_it_is_served_without_and_says_why():
    desk = ticked(started(map_name="t-junction"), 3)
    assert places(desk) == {}
    assert any("no traffic on map" in line and "dead ends" in line for line in desk.lines)


def test_how_long_a_server_stood_idle_before_leaves_no_trace():
    """In asynchronous mode an empty world ticks by the wall clock, lights and all."""
    found = []
    for idle in (0, 130):
        desk = Desk(map_name="town", traffic=TRAFFIC)
        for _ in range(idle):
            tick(desk.episode, 0.05)
        assert places(desk) == {}
        desk.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
        found.append(ticked(desk, 30).episode.world.digest)
    assert found[0] == found[1]


def test_it_comes_anew_with_every_map():
    desk = ticked(started(), 5)
    desk.ask("load_new_episode", "town", False, 0xFFFF)
    ticked(desk, 2)
    assert len(desk.episode.actors.all(VehicleEntry)) == 10
