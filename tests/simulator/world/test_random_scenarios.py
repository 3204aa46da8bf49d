"""Scenarios nobody wrote: random actors on random paths repeat themselves, and go on from any snapshot."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.scenarios.model import build_scenario
from samepath.simulator.simulation import Simulation, SimulationSettings

TYPES = [
    "vehicle.audi.a2",
    "vehicle.mercedes.sprinter",
    "vehicle.bh.crossbike",
    "walker.pedestrian.0001",
    "walker.pedestrian.0004",
]
point = st.tuples(st.integers(-12, 12), st.integers(-12, 12)).map(lambda cell: [cell[0] * 1.5, cell[1] * 1.5])
actor = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "path": st.lists(point, min_size=2, max_size=4, unique_by=tuple),
        "speed": st.sampled_from([1.0, 1.4, 4.0, 9.0]),
        "look_ahead": st.sampled_from([0.4, 2.0, 20.0]),
        "start_delay": st.sampled_from([0.0, 0.5]),
    }
)


def simulation_of(actors, map_name, **settings_of):
    numbered = [{**actor, "id": number} for number, actor in enumerate(actors, start=1)]
    data = {"name": "random", "map": map_name, "duration": 4.0, "end": "duration", "actors": numbered}
    try:
        return Simulation(build_scenario(data, "random"), SimulationSettings(**settings_of))
    except InputError:
        return None


def run(simulation, ticks):
    return [simulation.step() for _ in range(ticks)], simulation.world.digest


@settings(max_examples=40, deadline=None)
@given(st.lists(actor, min_size=1, max_size=5), st.sampled_from([0, 2]), st.integers(0, 59))
def test_a_random_scenario_repeats_itself_and_goes_on_from_any_snapshot(actors, threads, at):
    first, second = (simulation_of(actors, "flat", physics_threads=count) for count in (0, threads))
    assume(first is not None)
    assert run(first, at) == run(second, at)
    restored = Simulation.restore(first.snapshot())
    assert run(restored, 60 - at) == run(second, 60 - at)


@settings(max_examples=25, deadline=None)
@given(st.lists(actor, min_size=1, max_size=4))
def test_it_does_so_on_a_map_with_kerbs_and_walls_too(actors):
    moved = [{**actor, "path": [[x - 24.0, y - 10.0] for x, y in actor["path"]]} for actor in actors]
    first, second = (simulation_of(moved, "t-junction") for _ in range(2))
    assume(first is not None)
    assert run(first, 50) == run(second, 50)
