"""Sources of non-determinism: each changes bits where it says so, its twin never does."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from samepath.core.errors import InputError, UnknownNameError
from samepath.scenarios.model import load_scenario
from samepath.simulator import sources as table
from samepath.simulator.game_loop import GameLoop, LoopSettings
from samepath.simulator.simulation import Simulation, SimulationSettings
from samepath.simulator.sources import BitFlip, Panels, flipped, in_order_of_completion


def outcome(scenario, sources="", *, settings=None, **disturbances):
    """Run in lockstep; return the bits of every state at every tick."""
    names = table.parse_sources(sources)
    simulation = Simulation(
        load_scenario(scenario),
        table.simulation_with(settings or SimulationSettings(), names),
        table.arrangement_with(names),
    )
    meddlers = table.disturbances_with(names, ticks=150, **disturbances)
    bits = bytearray()
    for _ in GameLoop(simulation, LoopSettings(), disturbances=meddlers).frames():
        bits += simulation.world.state_array()[1].tobytes()
    for meddler in meddlers:
        meddler.close()
    return bytes(bits)


@pytest.mark.parametrize(
    ("scenario", "source", "extra"),
    [
        ("table1-test2", "unseeded-random", {"gusts_n": 50.0}),
        ("table1-test2", "bit-flip", {}),
        ("draft-test7", "random-queue", {}),
        ("table1-test2", "parallel-accumulation", {"panels": 64}),
        ("table1-test2", "load-order", {}),
    ],
)
def test_it_gives_more_than_one_outcome(scenario, source, extra):
    # Lots may fall alike and threads need not race in any one run; that none of forty differs is not to be expected.
    first = outcome(scenario, source, **extra)
    assert any(outcome(scenario, source, **extra) != first for _ in range(40))


@pytest.mark.parametrize("extra", [{"gusts_n": 50.0}, {"panels": 64}])
def test_the_deterministic_twins_repeat_to_the_bit_and_do_something(extra):
    bits = outcome("table1-test2", **extra)
    assert bits == outcome("table1-test2", **extra)
    assert bits != outcome("table1-test2")


def test_seeded_lots_repeat_and_the_unstable_queue_does_too():
    for queue in ("randomised", "unstable"):
        settings = SimulationSettings(queue=queue)
        assert outcome("draft-test7", settings=settings) == outcome("draft-test7", settings=settings)
    assert outcome("draft-test7", "unstable-queue") == outcome("draft-test7", settings=SimulationSettings(queue="unstable"))


def test_gusts_of_another_seed_are_other_gusts():
    assert outcome("table1-test2", gusts_n=50.0, seed=1) != outcome("table1-test2", gusts_n=50.0, seed=2)


HASHED = """
import hashlib
from tests_sources import outcome
print(hashlib.blake2b(outcome("table1-test2", "hash-order")).hexdigest())
"""


def test_hash_order_differs_between_processes_with_other_hash_seeds_and_repeats_with_the_same(tmp_path):
    (tmp_path / "tests_sources.py").write_bytes(Path(__file__).read_bytes())

    def run(seed):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", HASHED], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    outcomes = [run(seed) for seed in range(6)]
    assert len(set(outcomes)) > 1
    assert run(0) == outcomes[0]


def test_a_flip_turns_one_bit_of_a_32_bit_float():
    for bit in range(8):
        before, after = (np.array([number], np.float32).view(np.uint32)[0] for number in (5.3, flipped(5.3, bit)))
        assert int(before) ^ int(after) == 1 << bit


def test_a_seeded_flip_strikes_the_same_place_once():
    struck = []
    for _ in range(2):
        simulation, flip = Simulation(load_scenario("table1-test2")), BitFlip(20, seed=3)
        for _ in range(30):
            flip.before_step(simulation)
            simulation.step()
        struck.append((flip.struck, simulation.world.digest))
    assert struck[0] == struck[1]
    assert struck[0][0] is not None


def test_parallel_panels_add_up_to_the_sum_in_order_within_rounding():
    simulation = Simulation(load_scenario("table1-test2"))
    raced, summed = Panels(64, parallel=True), Panels(64, parallel=False)
    state = simulation.world.state(1)
    assert raced._force(state) == pytest.approx(summed._force(state), rel=1e-4)
    raced.close()
    summed.close()


def test_loading_loses_nothing_and_tells_errors():
    assert sorted(in_order_of_completion(range(50), lambda number: number * number)) == [
        number * number for number in range(50)
    ]
    with pytest.raises(ZeroDivisionError):
        in_order_of_completion([1, 0], lambda number: 1 / number)


def test_modes_of_the_loop_are_sources_too():
    lockstep = LoopSettings()
    assert lockstep.with_sources(("wall-clock-step",)).mode == "variable"
    threaded = lockstep.with_sources(("async-controller",))
    assert (threaded.mode, threaded.controllers) == ("real-time", "thread")
    assert lockstep.with_sources(()) == lockstep


def test_names_are_checked_and_contradictions_refused():
    assert table.parse_sources(" bit-flip, hash-order ,") == ("bit-flip", "hash-order")
    with pytest.raises(UnknownNameError, match="did you mean 'hash-order'"):
        table.parse_sources("hash-ordr")
    with pytest.raises(InputError, match="choose one"):
        table.arrangement_with(("hash-order", "load-order"))
    with pytest.raises(InputError, match="choose one"):
        table.simulation_with(SimulationSettings(), ("unstable-queue", "random-queue"))
    with pytest.raises(InputError, match="gusts_n"):
        table.disturbances_with((), gusts_n=-1.0)
    assert all(source.section and source.summary and source.twin for source in table.SOURCES.values())
