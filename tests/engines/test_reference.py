"""The instrument's proof: every reference simulator is classified rightly, at its stated power, with its known figures."""

import subprocess
import sys

import numpy as np
import pytest

from samepath.engines import conformance, registry
from samepath.engines.interface import RunRequest
from samepath.instrument.analysis.cell import AnalysisOptions, analyse_cell
from samepath.instrument.analysis.outcomes import Pattern
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header
from tests.support.shared_runs import offer_some_scenarios, share_runs

COLLISION_TICK = 82
EXACT = "812fe7a4048ffeb3fc4ba0652dfbd9a0"


def run(name, repeats, settings=None, **options):
    with registry.create(name) as simulator:
        info = simulator.info()
        runs = []
        for number in range(repeats):
            recorder = Recorder(number, info.channels, info.step_s, log_every=2)
            simulator.run(RunRequest("crossing", number, seed=1, settings=settings or {}), recorder)
            runs.append(recorder.finish())
    lossless = info.capabilities.lossless
    header = Header("controls", name, "crossing", info.channels, info.step_s, simulator=name, lossless=lossless)
    return analyse_cell(MemoryCell(header, runs), AnalysisOptions(**options))


@pytest.fixture(scope="module")
def runs():
    return {}


# The game loop is held to the same checks in test_game_loop.py, on a quicker clock; other engines in tests of their own.
@pytest.mark.parametrize(
    "name", sorted(name for name in registry.BUILT_IN if name == "samepath" or name.startswith("control-"))
)
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_every_built_in_simulator_conforms(monkeypatch, runs, name, check):
    share_runs(monkeypatch, runs, name)
    offer_some_scenarios(monkeypatch)
    check(lambda: registry.create(name))


def test_the_exact_control_is_bit_identical_before_and_after_its_collision():
    result = run("control-exact", 100)
    assert result.judgement.verdict == "bit-identical"
    assert result.summary.max_sigma_m == 0.0
    assert result.summary.max_deviation_m == 0.0
    assert len(result.outcomes) == 1
    assert result.divergent == 0
    assert result.first_divergence is None
    assert result.boundary.first_tick == COLLISION_TICK
    assert result.before.judgement.verdict == result.after.judgement.verdict == "bit-identical"
    assert result.clusters.pattern is Pattern.SINGLE


def test_the_exact_control_has_these_bits_on_every_machine():
    with registry.create("control-exact") as simulator:
        digest = conformance.run_once(simulator, "crossing").digest
    assert digest == EXACT


@pytest.mark.parametrize(("sigma_m", "verdict"), [(0.001, "within-tolerance"), (0.02, "exceeds-tolerance")])
def test_gaussian_noise_is_measured_within_its_sampling_error(sigma_m, verdict):
    repeats = 300
    result = run("control-gaussian", repeats, {"sigma_m": sigma_m})
    assert result.judgement.verdict == verdict
    ticks = np.repeat(result.spread.ticks, len(result.spread.actor_ids))
    sigma = result.spread.channels["x_m"].sigma
    assert np.all(sigma[ticks < 100] == 0.0), "exactly zero until the noise sets in"
    # (n - 1) s^2 / sigma^2 is chi-squared; the mean of many such s^2 is within 5 standard errors of sigma^2.
    noisy = sigma[ticks >= 100] ** 2
    standard_error = sigma_m**2 * np.sqrt(2 / (repeats - 1) / noisy.size)
    assert abs(noisy.mean() - sigma_m**2) < 5 * standard_error
    assert result.first_divergence.tick == 100
    assert result.clusters.pattern is Pattern.NOISE
    assert result.before.judgement.verdict == "bit-identical"
    assert len(result.outcomes) == repeats


def test_three_in_a_thousand_10_cm_off_pass_by_sigma_alone_and_are_caught_by_deviation():
    result = run("control-rare", 1000)
    assert result.summary.max_sigma_m == pytest.approx(0.00547, rel=2e-3)
    assert result.judgement_by_sigma.verdict == "within-tolerance", "the leak of max sigma as a gate"
    assert result.judgement.verdict == "exceeds-tolerance"
    assert result.summary.max_deviation_m == pytest.approx(0.0997, rel=1e-6)
    assert result.divergent == result.beyond_tolerance == 3
    assert result.outcomes[1].repeats == (137, 503, 871)
    assert result.outcomes[1].split_tick == 60
    assert result.clusters.pattern is Pattern.OUTLIERS
    assert result.bounds.lower < 0.003 < result.bounds.upper
    first = result.first_divergence
    assert (first.tick, first.actor, first.field, first.repeat) == (60, 2, "x_m", 137)
    assert first.distance_m == pytest.approx(0.1)


def test_a_hundred_repeats_miss_them_and_say_what_they_could_not_exclude():
    result = run("control-rare", 100)
    assert result.judgement.verdict == "bit-identical"
    assert result.bounds.upper > 0.003, "100 repeats cannot exclude a rate of 3 in 1000"


def test_two_outcomes_are_a_bifurcation_and_not_noise():
    result = run("control-two-outcomes", 100)
    assert len(result.outcomes) == 2
    assert sum(len(outcome.repeats) for outcome in result.outcomes) == 100
    assert result.clusters.pattern is Pattern.BIFURCATION
    assert result.outcomes[1].split_tick == 92, "the first logged tick after 90"
    assert result.tree.until_tick == 92
    assert len(result.tree.children) == 2
    assert result.before.judgement.verdict == "bit-identical"
    assert result.after.judgement.verdict == "exceeds-tolerance"


def test_the_late_bystander_diverges_though_it_never_collided():
    result = run("control-late-bystander", 100)
    assert result.judgement.verdict == "exceeds-tolerance"
    assert set(result.boundary.actor_first_tick) == {1, 2}
    assert result.after_involved.summary.max_sigma_m == 0.0
    assert result.after_uninvolved.judgement.verdict == "exceeds-tolerance"
    assert result.first_divergence.actor == 3
    assert result.first_divergence.tick == 152
    assert "collision" in result.first_divergence.last_common_event


def test_a_run_that_ends_early_is_a_difference_though_no_path_departs():
    result = run("control-ends-early", 100)
    assert result.summary.max_sigma_m == 0.0
    assert result.judgement.verdict == "exceeds-tolerance"
    assert result.findings[0].message == "2 of 100 repeats end early, at tick 150 instead of 200: repeats 7, 57"
    assert {finding.kind for finding in result.findings} == {"length", "end", "incomplete"}
    assert result.divergent == 2
    assert run("control-ends-early", 100, structure_fails=False).judgement.verdict == "within-tolerance"


def test_a_destroyed_actor_is_absent_and_not_at_the_origin():
    result = run("control-destroyed", 50)
    assert result.judgement.verdict == "bit-identical"
    column = result.spread.channels["x_m"]
    ticks = np.repeat(result.spread.ticks, len(result.spread.actor_ids))
    pedestrian = np.tile(result.spread.actor_ids == 4, len(result.spread.ticks))
    assert np.all(column.count[pedestrian & (ticks > 120)] == 0)
    assert np.all(np.isnan(column.mean[pedestrian & (ticks > 120)]))
    assert np.all(column.count[pedestrian & (ticks <= 120)] == 50)


LEAKY = """
from samepath.engines import conformance, registry
print(*(conformance.run_once(registry.create("control-leaky"), "crossing").digest for _ in range(2)))
"""


def test_a_leak_from_run_to_run_is_seen_in_one_process_and_not_in_fresh_ones():
    repeats, leak_m = 50, 0.001
    result = run("control-leaky", repeats)
    assert result.judgement.verdict == "exceeds-tolerance"
    assert len(result.outcomes) == repeats
    assert result.summary.max_sigma_m == pytest.approx(leak_m * np.sqrt(repeats * (repeats + 1) / 12))
    assert result.first_divergence.actor == 3
    done = [subprocess.run([sys.executable, "-c", LEAKY], capture_output=True, text=True, check=True) for _ in range(2)]
    (first, second), (again, _) = (run.stdout.split() for run in done)
    assert first == again == EXACT, "the first run of a process knows of no other"
    assert second != first


def test_noise_below_the_logs_resolution_is_identical_at_resolution_and_never_bit_identical():
    result = run("control-below-resolution", 100)
    assert result.judgement.verdict == "identical-at-resolution"
    assert result.spread.resolution.step_m == 0.001
    assert result.summary.max_sigma_m == 0.0
    assert result.before.judgement.verdict == "identical-at-resolution"


def test_a_misspelt_control_gets_the_nearest_name():
    with pytest.raises(Exception, match="did you mean 'control-exact'"):
        registry.create("control-exakt")


def test_a_simulator_that_is_not_registered_can_be_named_by_its_path():
    with registry.create("samepath.engines.reference:Exact") as simulator:
        assert simulator.info().name == "control-exact"
    with pytest.raises(Exception, match="cannot be loaded"):
        registry.create("no.such.module:Thing")
    with pytest.raises(Exception, match="not a samepath Simulator"):
        registry.create("pathlib:Path")
