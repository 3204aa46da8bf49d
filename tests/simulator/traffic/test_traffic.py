"""Traffic in a town: it obeys lights, hits nobody, and does the same thing every time."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from samepath.core.catalogue import actor_type
from samepath.core.errors import InputError
from samepath.core.states import VehicleCommand, WalkerCommand
from samepath.scenarios.model import build_scenario, built_in_scenarios, load_scenario
from samepath.scenarios.run_inputs import InputRecorder
from samepath.scenarios.scripts import read_script, script_names
from samepath.simulator.maps import load_map
from samepath.simulator.run_setup import RunSetup
from samepath.simulator.simulation import Simulation, SimulationSettings
from samepath.simulator.traffic.roads import road_net
from samepath.simulator.traffic.traffic import TrafficSettings, newcomers
from samepath.simulator.world.signals import TrafficLightState

GOLDEN = Path(__file__).with_name("golden.json")


def scenario(vehicles=12, walkers=6, actors=(), **more):
    traffic = {"vehicles": vehicles, "walkers": walkers, **more}
    data = {"name": "some traffic", "map": "town", "duration": 60.0, "end": "duration", "traffic": traffic}
    return build_scenario({**data, "actors": list(actors)}, "test")


def run(spec, ticks, seed=0):
    simulation = Simulation(spec, SimulationSettings(seed=seed))
    for _ in range(ticks):
        simulation.step()
    return simulation


class Watch:
    """Sees what happens by the world alone: who crosses a stop line at red, who leaves the road, who touches whom."""

    def __init__(self, simulation):
        self.simulation = simulation
        self.net = simulation.traffic.net
        self.kinds = {actor.id: actor_type(actor.type) for actor in simulation.world.actors}
        self.touched, self.ran_red, self.off_road, self.too_fast = [], [], [], []
        self.passed = 0
        self.driven_m = dict.fromkeys(self.kinds, 0.0)
        self._fronts = {}
        stops = [(place, stop) for place, light in enumerate(self.net.plan.lights) for stop in light.stops]
        self._lights = np.array([place for place, _ in stops])
        self._stops = np.array([(s.x_m, s.y_m, s.forward_x, s.forward_y, s.half_width_m) for _, s in stops]).T

    def step(self):
        simulation = self.simulation
        before = simulation.world.states()
        shows = simulation.signals.shown()
        result = simulation.step()
        self.touched += result.collisions
        for number, state in simulation.world.states().items():
            self.driven_m[number] += math.dist(state.pose[:2], before[number].pose[:2])
            kind = self.kinds[number]
            if kind.kind == "walker":
                continue
            near = self.net.lanes_at(state.pose.x_m, state.pose.y_m, 3.9)
            away_m = sorted(away_m for _, _, away_m in near)
            # In a lane, or from one to the next: then it is near to both.
            if not near or (away_m[0] > 1.2 and (len(near) < 2 or away_m[1] > 2.5)):
                self.off_road.append((result.tick, number))
            limit_mps = max((self.net.lanes[lane].limit_mps for lane, _, _ in near), default=0.0)
            if math.hypot(*state.velocity_mps[:2]) > 1.15 * limit_mps:
                self.too_fast.append((result.tick, number))
            self._lines(result.tick, number, state, kind.length_m / 2, shows)

    def _lines(self, tick, number, state, half_m, shows):
        yaw = math.radians(state.pose.yaw_deg)
        front = state.pose.x_m + half_m * math.cos(yaw), state.pose.y_m + half_m * math.sin(yaw)
        old, self._fronts[number] = self._fronts.get(number, front), front
        x, y, to_x, to_y, half_width_m = self._stops
        before_m, after_m = ((x - at[0]) * to_x + (y - at[1]) * to_y for at in (old, front))
        aside_m = np.abs((x - front[0]) * to_y - (y - front[1]) * to_x)
        # A little over the line is standing at it.
        passed = self._lights[(before_m > -0.5) & (after_m <= -0.5) & (aside_m < half_width_m)]
        self.passed += len(passed)
        self.ran_red += [(tick, number) for place in passed if shows[place] == TrafficLightState.RED]


@pytest.mark.parametrize(
    ("routes", "ticks"),
    # Half a minute; ``python -m bench traffic`` looks at ten minutes of a fuller town.
    [("random-turns", 300), pytest.param("destinations", 600, marks=pytest.mark.slow)],
)
def test_traffic_obeys_the_rules_and_touches_nobody(routes, ticks):
    simulation = Simulation(scenario(40, 16, routes=routes), SimulationSettings(seed=1))
    watch = Watch(simulation)
    for _ in range(ticks):
        watch.step()
    assert (watch.touched, watch.ran_red, watch.off_road, watch.too_fast) == ([], [], [], [])
    assert watch.passed > ticks / 100  # there was something to obey
    gone = [number for number, far_m in watch.driven_m.items() if far_m > 5.0]
    assert len(gone) >= 45, "most of the 56 get somewhere; a light is red for up to a minute"


def test_equal_seeds_give_equal_bits_and_others_do_not():
    spec = scenario()
    first = run(spec, 60, seed=5)
    assert run(spec, 60, seed=5).world.digest == first.world.digest
    assert run(spec, 60, seed=6).world.digest != first.world.digest


def test_a_fresh_process_with_another_hash_seed_gives_the_pinned_bits():
    """The digest is pinned: a change of any bit of any state needs a reason in golden.json."""
    code = (
        "from samepath.scenarios.model import load_scenario\n"
        "from samepath.simulator.simulation import Simulation, SimulationSettings\n"
        "simulation = Simulation(load_scenario('town-traffic'), SimulationSettings(seed=2))\n"
        "for _ in range(40): simulation.step()\n"
        "print(simulation.world.digest)"
    )
    here = run(load_scenario("town-traffic"), 40, seed=2).world.digest
    command = [sys.executable, "-c", code]
    there = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "12345"})
    pinned = json.loads(GOLDEN.read_text("utf-8"))["digests"]["town-traffic, seed 2, 40 ticks"]
    assert there.stdout.strip() == here == pinned


@pytest.mark.parametrize("at", [1, 70])
def test_from_a_snapshot_it_goes_on_bit_for_bit(at):
    simulation = run(scenario(routes="destinations"), at)
    again = Simulation.restore(simulation.snapshot())
    for _ in range(90):
        simulation.step()
        again.step()
    assert again.world.digest == simulation.world.digest
    assert again.traffic.to_plain() == simulation.traffic.to_plain()


def test_one_more_walker_changes_no_turn_of_a_driver_that_is_far_from_all_of_them():
    """Chance is named by actor: who has no reason to do something else does the same."""
    ways = []
    for walkers in (0, 1):
        simulation = run(scenario(6, walkers), 100, seed=9)
        ways.append([(car.id, car.lane, car.ahead[:1], car.wish) for car in simulation.traffic.drivers.cars.values()])
    assert ways[0] == ways[1]


def test_a_car_that_stands_in_the_road_is_waited_for():
    """A scenario's own actor, which the traffic does not drive, is seen like anybody else."""
    net, others = road_net(load_map("town")), newcomers(load_map("town"), TrafficSettings(vehicles=3, seed=4))
    first = next(car for car in others if car.at_m + 50.0 < net.lanes[car.lane].length_m)
    lane, there_m = net.lanes[first.lane], first.at_m + 30.0
    (x_m, y_m), (to_x, to_y) = lane.place(there_m), lane.direction(there_m)
    parked = {
        "id": 1,
        "type": "vehicle.audi.tt",
        "path": [[x_m, y_m], [x_m + 5.0 * to_x, y_m + 5.0 * to_y]],
        "start_delay": "50 s",
    }
    simulation = Simulation(scenario(40, 0, actors=[parked]), SimulationSettings(seed=4))
    touched = []
    for _ in range(260):
        touched += simulation.step().collisions
    assert touched == []
    cars = [car for car in simulation.traffic.drivers.cars.values() if car.lane == lane.number]
    nearest = max((car for car in cars if car.at_m < there_m), key=lambda car: car.at_m)
    assert 4.0 < there_m - nearest.at_m < 9.0, "it has come up to it, and stands a gap behind"
    assert nearest.speed_mps < 0.5


def test_who_is_taken_out_is_forgotten():
    simulation = run(scenario(4, 2), 5)
    gone = simulation.traffic.ids[1], simulation.traffic.ids[-1]
    for number in gone:
        simulation.world.destroy(number)
    simulation.step()
    assert not set(gone) & set(simulation.traffic.ids)
    assert not set(gone) & set(simulation.commands)


def test_commands_are_of_the_right_kind_and_within_bounds():
    simulation = run(scenario(10, 10), 30)
    commands = simulation.commands
    assert list(commands) == sorted(simulation.traffic.ids)
    for number, command in commands.items():
        if number in simulation.traffic.drivers.cars:
            assert isinstance(command, VehicleCommand)
            assert 0.0 <= command.throttle <= 1.0
            assert 0.0 <= command.brake <= 1.0
            assert -1.0 <= command.steer <= 1.0
        else:
            assert isinstance(command, WalkerCommand)
            assert command.speed_mps <= 1.6001


def test_a_run_is_played_again_from_its_inputs_with_and_without_the_drivers():
    setup = RunSetup.of_values(
        scenario(8, 4), {"step_s": 0.05, "substeps": 0, "solver_iterations": 4, "physics_threads": 0, "grid_m": 0.25,
            "queue": "stable"}, 3, 2.0,
    )  # fmt: skip
    for everything in (False, True):
        inputs: InputRecorder = setup.recorder(everything=everything)
        first = setup.simulation(inputs)
        while first.step().ended is None:
            pass
        fed = setup.fed(inputs.log)
        assert fed.open_loop is everything
        assert [result.tick for result in fed.steps()][-1] == first.world.tick_count
        assert fed.simulation.world.digest == first.world.digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"traffic": {"vehicles": 0}}, "at least one vehicle or walker"),
        ({"traffic": {"vehicles": 5, "bicycles": 5}}, "bicycles"),
        ({"traffic": {"vehicles": 100_000}}, "2000"),
        ({"traffic": {"vehicles": 5}, "map": "flat"}, "traffic needs roads"),
        ({"traffic": {"vehicles": 5}, "end": "last-waypoint"}, "traffic never arrives"),
        ({"traffic": None}, "at least one actor was wanted, or traffic"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused_in_one_line(changes, words):
    data = {"name": "bad", "map": "town", "duration": 10.0, "end": "duration", **changes}
    with pytest.raises(InputError, match=words) as told:
        build_scenario(data, "file")
    assert "\n" not in str(told.value)


def test_too_much_traffic_for_a_map_is_refused_when_the_run_begins():
    with pytest.raises(InputError, match=r"at most \d+ were wanted on map 'town', but 1500 came"):
        Simulation(scenario(1500, 0))


def test_other_engines_are_not_offered_scenarios_with_traffic():
    assert set(built_in_scenarios()) - set(script_names()) == {"town-traffic", "town-camera"}
    with pytest.raises(InputError, match="runs on the simulator samepath only"):
        read_script("town-traffic")
