"""State that leaks between repeats of one process is found; its absence is not mistaken for one."""

from dataclasses import replace

import numpy as np
import pytest

from samepath.engines.interface import RunRequest
from samepath.engines.reference import Leaky
from samepath.instrument.analysis.sources import find_leaks
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header, HostLog
from tests.support.study_cells import cell, run


def batches(off_m, processes=6, length=5, isolation="batch", condition=None, **fields):
    """A cell of some processes; ``off_m(process, position)`` is how far a repeat is off."""
    runs = []
    for process in range(processes):
        for position in range(length):
            measured = {"isolation": isolation, "position": position}
            runs.append(run(len(runs), off_m(process, position), measured=measured))
    return cell(runs, condition={"isolation": isolation} if condition is None else condition, **fields)


def test_the_same_bits_in_every_place_are_no_leak():
    (leak,) = find_leaks([batches(lambda process, position: 0.0)])
    assert (leak.kind, leak.leaks, leak.p_value) == ("position", False, None)
    assert leak.words() == (
        "sim, s isolation=batch: no sign that state leaks between repeats: 30 repeats in 6 processes, "
        "all bit-identical within their cell"
    )


def test_first_repeats_that_differ_from_later_ones_are_a_leak():
    (leak,) = find_leaks([batches(lambda process, position: 0.0 if position == 0 else 0.001)])
    assert leak.leaks
    assert leak.p_value < 0.001
    assert "6 of 6 repeats that were the first of their process differ from the usual outcome of their cell, but 0" in leak.text


def test_outcomes_that_follow_from_the_place_are_a_leak():
    (leak,) = find_leaks([batches(lambda process, position: 0.001 * position, processes=2, length=8)])
    assert leak.leaks
    assert "the outcome depends on how many repeats the process ran before" in leak.text


def test_first_repeats_that_stray_farther_are_a_leak_though_no_two_repeats_are_alike():
    noise = np.random.default_rng(3).normal(0, 0.001, (8, 6))
    (leak,) = find_leaks([batches(lambda process, position: noise[process, position] * (1 if position else 40), 8, 6)])
    assert leak.leaks
    assert "the first ones of their process are farther from the mean path than later ones" in leak.text


def test_noise_is_no_leak():
    """Of 40 studies of two noisy and two bimodal cells at most 5 may show one: the chance of more is below 1 in 100."""
    shown = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        cells = []
        for load in (0.0, 0.5):
            noise, rare = random.normal(0, 0.001, (6, 5)), 0.1 * (random.random((6, 5)) < 0.2)
            cells.append(batches(lambda *place, off=noise: off[place], condition={"cpu_load": load}))
            cells.append(batches(lambda *place, off=rare: off[place], condition={"cpu_load": load}, variant="w"))
        shown += any(leak.leaks for leak in find_leaks(cells))
    assert shown <= 5


def test_where_no_two_repeats_are_alike_the_first_one_is_not_taken_for_the_usual_one():
    """Were it so, every cell would have one first repeat that is usual and no later one, and many cells would show a leak."""
    noise = np.random.default_rng(9).normal(0, 0.001, (20, 3, 5))
    cells = [batches(lambda *place, off=offsets: off[place], 3, condition={"nice": n}) for n, offsets in enumerate(noise)]
    (leak,) = find_leaks(cells)
    assert (leak.cell, leak.leaks) == ("20 cells", False)
    assert leak.p_value > 0.2


def test_one_process_is_too_few_to_tell():
    noise = np.random.default_rng(1).normal(0, 0.001, 6)
    (leak,) = find_leaks([batches(lambda process, position: noise[position], processes=1, length=6)])
    assert leak.leaks is None
    assert leak.text.endswith("but these are too few to tell")


def test_repeats_in_processes_of_their_own_have_nothing_to_leak():
    alone = [run(n, 0.001 * n, measured={"isolation": "process", "position": 0}) for n in range(6)]
    assert find_leaks([cell(alone), cell([run(n) for n in range(4)])]) == ()


@pytest.mark.parametrize(
    ("batch", "process", "leaks", "words"),
    [
        (
            lambda p, k: 0.0,
            lambda p, k: 0.0,
            False,
            "no sign that state leaks between repeats: 30 repeats that share processes and 30 in",
        ),
        (lambda p, k: 0.001 * k, lambda p, k: 0.0, True, "they vary when they share a process and do not in fresh processes"),
        (
            lambda p, k: 0.001,
            lambda p, k: 0.0,
            True,
            "they always end elsewhere than in fresh processes (fresh)",
        ),
        (lambda p, k: 0.0, lambda p, k: 0.001 * p, False, "so the source is something that differs between processes"),
        (lambda p, k: 0.002 * k, lambda p, k: 1e-6 * p * (k + 1), None, "and in fresh processes (fresh), but differently"),
    ],
)
def test_a_batch_is_held_against_its_twin_in_fresh_processes(batch, process, leaks, words):
    shared = batches(batch, cell="shared", settings={"repeats_per_process": 5})
    fresh = batches(process, isolation="process", cell="fresh")
    fresh = replace(fresh, places=())
    (leak,) = [leak for leak in find_leaks([shared, fresh]) if leak.kind == "twin"]
    assert (leak.cell, leak.twin, leak.leaks) == ("shared", "fresh", leaks)
    assert words in leak.text


def test_twins_that_vary_alike_show_no_difference():
    noise = np.random.default_rng(5).normal(0, 0.001, (2, 6, 5))
    shared = batches(lambda p, k: noise[0, p, k], cell="shared")
    fresh = replace(batches(lambda p, k: noise[1, p, k], isolation="cold", cell="fresh"), places=())
    (leak,) = [leak for leak in find_leaks([shared, fresh]) if leak.kind == "twin"]
    assert leak.leaks is False
    assert "no difference is shown between 30 repeats that share processes and 30 in fresh processes" in leak.text


def test_the_leaky_control_is_found_out(monkeypatch):
    """The control leaves something behind in its process; here a process is begun by setting it back."""
    simulator = Leaky()
    info = simulator.info()
    header = Header("leaks", "", "crossing", info.channels, info.step_s, simulator=info.name)
    cells = []
    for isolation, length in (("batch", 5), ("process", 1)):
        runs = []
        for number in range(20):
            if number % length == 0:
                monkeypatch.setattr(Leaky, "runs_before", 0)
            recorder = Recorder(number, info.channels, info.step_s, log_every=20)
            simulator.run(RunRequest("crossing", number, seed=1, settings={}), recorder)
            runs.append(recorder.finish(HostLog(measured={"isolation": isolation, "position": number % length})))
        cells.append(cell(runs, **{**header.__dict__, "cell": isolation, "condition": {"isolation": isolation}}))
    position, twin = find_leaks(cells)
    assert (position.kind, position.leaks, position.cell) == ("position", True, "batch")
    assert (twin.kind, twin.leaks, twin.twin) == ("twin", True, "process")
