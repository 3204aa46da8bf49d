"""Phases, structure, outcomes, divergence, resolution and verdicts on traces made by hand."""

import numpy as np
import pytest

from samepath.core.errors import InputError, UnknownNameError
from samepath.instrument.analysis.cell import AnalysisOptions, analyse_cell
from samepath.instrument.analysis.outcomes import Outcome, Pattern, find_clusters
from samepath.instrument.analysis.phases import Split, find_boundary, parse_split
from samepath.instrument.analysis.spread import GridKind, LogResolutionFinder, measure
from samepath.instrument.analysis.study import parse_restriction, table_one
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import cell_of, header, straight_run


def colliding_run(repeat, *, at=10, jitter=0.0, destroy=False, collide=True):
    """Two actors touch at tick ``at``; afterwards actor 2 is ``jitter`` off."""
    recorder = Recorder(repeat, ("x_m", "y_m", "z_m", "yaw_deg"), 0.1)
    for actor in (1, 2, 3):
        recorder.actor(actor, "car")
    for tick in range(1, 21):
        for actor in (1, 2, 3):
            if destroy and actor == 2 and tick > at:
                continue
            off = jitter if actor == 2 and tick >= at else 0.0
            recorder.state(
                tick,
                actor,
                {"x_m": 0.3 * tick + off, "y_m": float(actor), "z_m": 0.1, "yaw_deg": 179.9 * (-1) ** repeat},
            )
        if collide and tick == at:
            recorder.event(tick, "collision", 1, 2, (1.0, 2.0, 3.0))
            if destroy:
                recorder.event(tick, "destroy", 2)
    recorder.end(20, "done")
    return recorder.finish()


def cell(repeats, **changes):
    return MemoryCell(header(channels=("x_m", "y_m", "z_m", "yaw_deg"), **changes), repeats)


def test_sigma_psi_and_mean_deviation_are_the_papers():
    offsets = [0.0, 0.03, -0.03, 0.0]
    repeats = [
        straight_run(n, shift=lambda tick, actor, n=n: offsets[n] if tick > 10 and actor == 1 else 0.0) for n in range(4)
    ]
    summary = analyse_cell(cell_of(repeats)).summary
    variance = 2 * 0.03**2 / 3
    assert summary.psi_m2 == pytest.approx(variance, rel=1e-12)
    assert summary.max_sigma_m == pytest.approx(variance**0.5, rel=1e-12)
    assert summary.mean_sigma_m == pytest.approx((variance / 4) ** 0.5, rel=1e-12), "averaged over 2 actors and 20 ticks"
    assert summary.max_deviation_m == pytest.approx(0.03)
    assert summary.max_range_m == pytest.approx(0.06)
    assert (summary.max_sigma_actor, summary.max_sigma_axis) == (1, "y_m")
    assert summary.max_sigma_tick == 11


def test_yaw_near_half_a_turn_is_not_a_spread_of_a_whole_turn():
    spread = measure(cell([colliding_run(number) for number in range(4)]))
    assert spread.channels["yaw_deg"].sigma.max() == pytest.approx(0.1155, rel=1e-3)


def test_the_phase_before_ends_at_the_earliest_collision_of_any_repeat():
    repeats = [colliding_run(0, at=12), colliding_run(1, at=10), colliding_run(2, at=12)]
    boundary = find_boundary(cell(repeats))
    assert boundary.first_tick == 10
    assert boundary.ticks == {10: 1, 12: 2}
    assert boundary.actor_first_tick == {1: 10, 2: 10}


def test_spread_after_a_collision_does_not_leak_into_the_phase_before():
    repeats = [colliding_run(number, jitter=0.05 * number) for number in range(0, 8, 2)]
    result = analyse_cell(cell(repeats))
    assert result.before.summary.max_sigma_m == 0.0
    assert result.before.judgement.verdict == "bit-identical"
    assert result.after.summary.max_sigma_m > 0.1
    assert result.after_uninvolved.summary.max_sigma_m == 0.0
    assert result.before_own.summary.max_sigma_m == 0.0


def test_a_user_may_split_at_a_tick_a_time_or_an_event_of_their_own():
    repeats = [colliding_run(number, jitter=0.05 * number) for number in range(0, 8, 2)]
    early = analyse_cell(cell(repeats), AnalysisOptions(split=parse_split("tick=5", 0.1)))
    assert early.after.summary.max_sigma_m > 0.1
    assert parse_split("t=0.5s", 0.1).tick == 5
    assert parse_split("t=300 ms", 0.1).tick == 3
    assert analyse_cell(cell(repeats), AnalysisOptions(split=Split("spawn"))).before.summary.pairs == 0
    with pytest.raises(InputError, match="was wanted"):
        parse_split("ticks=5", 0.1)


def test_without_any_collision_everything_is_before():
    result = analyse_cell(cell_of([straight_run(0), straight_run(1)]))
    assert result.boundary.first_tick is None
    assert result.before.summary.pairs == 40
    assert result.after.judgement is None


def test_a_collision_in_some_repeats_only_is_a_difference():
    repeats = [colliding_run(0), colliding_run(2), colliding_run(4, collide=False)]
    findings = analyse_cell(cell(repeats)).findings
    assert [finding.kind for finding in findings] == ["collisions"]
    assert findings[0].repeats == (4,)
    assert "collided as none, the others 1 with 2" in findings[0].message


def test_a_destroyed_actor_in_some_repeats_only_is_a_difference():
    repeats = [colliding_run(0, destroy=True), colliding_run(2, destroy=True), colliding_run(4)]
    result = analyse_cell(cell(repeats))
    assert "actor-length" in [finding.kind for finding in result.findings]
    assert result.judgement.verdict == "exceeds-tolerance"
    ticks = np.repeat(result.spread.ticks, 3)
    two = np.tile(result.spread.actor_ids == 2, 20)
    assert result.spread.channels["x_m"].count[two & (ticks == 15)].tolist() == [1]


def test_missing_actors_and_ticks_are_named():
    whole = [straight_run(number, actors=3) for number in range(3)]
    lacking = straight_run(3, actors=2)
    gap = Recorder(4, ("x_m", "y_m", "z_m"), 0.1)
    for actor in (1, 2, 3):
        gap.actor(actor, "car")
    for tick in range(1, 21):
        for actor in (1, 2, 3):
            if (tick, actor) != (7, 1):
                gap.state(tick, actor, {"x_m": 0.7 * tick, "y_m": 3.3 * actor, "z_m": 0.0})
    gap.end(20, "done")
    findings = analyse_cell(cell_of([*whole, lacking, gap.finish()])).findings
    messages = [finding.message for finding in findings]
    assert "1 of 5 repeats lack actor 3: repeat 3" in messages
    assert "1 of 5 repeats differ in 1 logged ticks of actor 1, first at tick 7: repeat 4" in messages


def test_an_actor_that_changes_its_type_is_named():
    other = Recorder(1, ("x_m", "y_m", "z_m"), 0.1)
    other.actor(1, "bus")
    other.state(1, 1, {"x_m": 0.7, "y_m": 3.3, "z_m": 0.0})
    other.end(1, "done")
    findings = analyse_cell(cell_of([straight_run(0, ticks=1, actors=1), other.finish()])).findings
    assert [finding.kind for finding in findings] == ["actor-type"]


def test_the_first_divergence_is_told_in_the_readers_words():
    repeats = [
        straight_run(n, shift=lambda tick, actor, n=n: 0.25 if n == 2 and tick >= 7 and actor == 2 else 0.0) for n in range(4)
    ]
    found = analyse_cell(cell_of(repeats)).first_divergence
    assert (found.reference_repeat, found.repeat, found.tick, found.actor, found.field) == (0, 2, 7, 2, "y_m")
    assert (found.reference_value, found.value) == (6.6, 6.85)
    assert found.distance_m == pytest.approx(0.25)
    assert found.time_s == pytest.approx(0.7)
    assert found.differing_fields == ("y_m",)
    assert found.last_common_event == "spawn of actor 2 at tick 0"
    assert found.words().startswith(
        "repeat 2 parts from repeat 0 at tick 7 (0.7 s): y_m of actor 2 (car) is 6.85 instead of 6.6"
    )


def test_an_actor_that_differs_only_in_how_well_it_was_resampled_is_not_where_runs_part():
    channels = ("x_m", "y_m", "z_m", "resampling_m")

    def resampled(repeat, *, moved):
        recorder = Recorder(repeat, channels, 0.1)
        for actor in (1, 2):
            recorder.actor(actor, "car")
            off = 0.25 if repeat and moved and actor == 2 else 0.0
            recorder.state(1, actor, {"x_m": 1.0 + off, "y_m": float(actor), "z_m": 0.0, "resampling_m": 0.001 * (repeat + 1)})
        recorder.end(1, "done")
        return recorder.finish()

    def found(*, moved):
        repeats = [resampled(repeat, moved=moved) for repeat in (0, 1)]
        where = analyse_cell(MemoryCell(header(channels=channels), repeats)).first_divergence
        return where.actor, where.field

    assert found(moved=True) == (2, "x_m")
    assert found(moved=False) == (1, "resampling_m"), "nothing else differs"


def test_a_difference_in_the_impulse_alone_is_found_as_an_event():
    repeats = [colliding_run(0), colliding_run(2)]
    events = [list(repeat.events) for repeat in repeats]
    from dataclasses import replace

    events[1][3] = replace(events[1][3], impulse_ns=(1.0, 2.0, 3.0000000000000004))
    changed = replace(repeats[1], events=tuple(events[1]))
    found = analyse_cell(cell([repeats[0], changed])).first_divergence
    assert found.field == "event"
    assert "3.0000000000000004" in found.value


def test_clusters_are_told_from_noise_even_when_no_two_repeats_are_equal():
    random = np.random.default_rng(4)
    jitter = random.normal(0, 1e-4, 60)
    side = np.where(random.random(60) < 0.4, 1.5, 0.0)
    repeats = [straight_run(n, shift=lambda tick, actor, n=n: (side[n] + jitter[n]) * tick / 20) for n in range(60)]
    result = analyse_cell(cell_of(repeats))
    assert len(result.outcomes) == 60
    assert result.clusters.pattern is Pattern.BIFURCATION
    assert sorted(result.clusters.sizes) == sorted([int((side > 0).sum()), int((side == 0).sum())])


def test_few_repeats_are_not_enough_to_tell_clusters_from_noise():
    repeats = [straight_run(n, shift=lambda tick, actor, n=n: 0.1 * n) for n in range(4)]
    assert analyse_cell(cell_of(repeats)).clusters.pattern is Pattern.UNDECIDED


def test_plain_noise_is_rarely_taken_for_clusters():
    """Power of the other kind: of 40 noisy cells of 30 repeats at most 2 may look clustered."""
    taken = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(0, 1e-3, (30, 21, 3))
        repeats = [
            straight_run(n, ticks=10, shift=lambda tick, actor, n=n, noise=noise: noise[n, tick, actor]) for n in range(30)
        ]
        taken += analyse_cell(cell_of(repeats)).clusters.pattern is not Pattern.NOISE
    assert taken <= 2


def pattern_of(values, step_m=0.0):
    """Cluster points on a line, each a repeat of an outcome of its own unless equal."""
    classes = {}
    for number, value in enumerate(values):
        classes.setdefault(value, []).append(number)
    outcomes = tuple(Outcome(str(value), tuple(repeats)) for value, repeats in classes.items())
    features = {repeats[0]: np.array([value]) for value, repeats in classes.items()}
    return find_clusters(outcomes, features, step_m).pattern


def test_one_repeat_far_out_is_no_cluster():
    assert pattern_of([*np.linspace(0, 1e-3, 9), 1.0]) is Pattern.NOISE


def test_two_repeats_far_out_are_a_cluster():
    assert pattern_of([*np.linspace(0, 1e-3, 8), 1.0, 1.0001]) is Pattern.BIFURCATION


def test_one_repeat_unlike_all_others_to_the_bit_is_an_outlier():
    assert pattern_of([0.0] * 9 + [1.0]) is Pattern.OUTLIERS


def test_noise_on_a_grid_is_no_bifurcation():
    values = [0.0, 0.001, 0.002, 0.0, 0.001, 0.002, 0.0, 0.001, 0.002, 0.0]
    assert pattern_of(values, step_m=0.001) is Pattern.NOISE
    assert pattern_of(values) is Pattern.BIFURCATION


@pytest.mark.parametrize(
    ("values", "step", "kind"),
    [
        ([1.104, -20.32, 8.72], 0.001, GridKind.DECIMAL),
        ([1.0, 2.0, -7.0], 1.0, GridKind.DECIMAL),
        ([0.1 + 0.2, 1 / 3], 0.0, GridKind.FLOAT64),
        ([float(np.float32(0.1)), float(np.float32(100.3))], float(np.spacing(np.float32(100.3))), GridKind.FLOAT32),
        ([123456.123456, 1.5], 1e-6, GridKind.DECIMAL),
    ],
)
def test_the_logs_resolution_is_found_from_its_numbers(values, step, kind):
    finder = LogResolutionFinder()
    for value in values:
        finder.add(np.array([value, np.nan]))
    assert finder.result().step_m == step
    assert finder.result().kind is kind


def _paths(rows=400):
    random, at_s = np.random.default_rng(1), 0.1 * np.arange(rows)
    return 3 + 7 * at_s + 2 * np.sin(at_s) + random.normal(0, 0.001, rows)


def _single(values):
    return values.astype(np.float32).astype(np.float64)


ROUNDED = {
    "1 cm": (lambda x: np.round(x, 2), 0.01),
    "25 mm": (lambda x: np.round(x / 0.025) * 0.025, 0.025),
    "25 mm, printed": (lambda x: np.round(x / 0.025) / 40, 0.025),
    "0.01 ft": (lambda x: np.round(x / 0.3048, 2) * 0.3048, 0.003048),
    "1/64 inch": (lambda x: np.round(x / 0.0254 * 64) / 64 * 0.0254, 0.0254 / 64),
    "1/30 m": (lambda x: np.round(x * 30) / 30, 1 / 30),
    "1/7 m": (lambda x: np.round(x * 7) / 7, 1 / 7),
    "cm with a moved origin": (lambda x: np.round(x, 2) + 1234.56789123, 0.01),
    "mm in UTM with a moved origin": (lambda x: np.round(x, 3) + 5412345.6789123, 0.001),
    "mm in 32 bits": (lambda x: _single(np.round(x, 3)), 0.001),
    "UTM easting in 32 bits": (lambda x: _single(x + 500000), 0.03125),
    "UTM northing in 32 bits": (lambda x: _single(x + 5.4e6), 0.5),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_log_is_never_called_bit_identical_and_its_resolution_is_not_understated(name):
    rounded, step_m = ROUNDED[name]
    recorders = [Recorder(repeat, ("x_m", "y_m", "z_m"), 0.1) for repeat in range(3)]
    for recorder in recorders:
        recorder.actor(1, "car")
        for tick, x_m in enumerate(rounded(_paths()).tolist()):
            recorder.state(tick, 1, {"x_m": x_m, "y_m": x_m, "z_m": x_m})
        recorder.end(400, "done")
    found = analyse_cell(cell_of([recorder.finish() for recorder in recorders], lossless=False))
    assert found.judgement.verdict == "identical-at-resolution"
    assert found.spread.resolution.step_m == pytest.approx(step_m, rel=1e-4)


def test_full_numbers_lie_on_no_grid_and_are_bit_identical_only_if_the_user_says_that_they_are_lossless():
    random = np.random.default_rng(0)
    for _ in range(500):
        walk = np.cumsum(random.normal(0, 0.3, int(random.integers(20, 300))))
        finder, single = LogResolutionFinder(), LogResolutionFinder()
        finder.add(walk)
        single.add(_single(walk))
        assert finder.result().kind is GridKind.FLOAT64
        assert single.result().kind is GridKind.FLOAT32
    walked = {(tick, actor): float(random.normal()) for tick in range(1, 21) for actor in (1, 2)}
    repeats = [straight_run(repeat, shift=lambda tick, actor: walked[tick, actor]) for repeat in range(3)]
    judged = analyse_cell(cell_of(repeats, lossless=False)).judgement
    assert (judged.verdict, "--lossless" in judged.reason) == ("identical-at-resolution", True)
    assert analyse_cell(cell_of(repeats)).judgement.verdict == "bit-identical"


def test_growth_shows_what_fewer_repeats_would_have_found():
    repeats = [straight_run(n, shift=lambda tick, actor, n=n: 0.2 if n == 60 else 0.0) for n in range(100)]
    growth = analyse_cell(cell_of(repeats)).spread.growth
    assert [point.repeats for point in growth] == [10, 20, 50, 100]
    assert [point.max_sigma_m > 0 for point in growth] == [False, False, False, True]


def test_growth_does_not_depend_on_how_blocks_fall():
    noise = np.random.default_rng(8).normal(0, 1e-3, (40, 21, 3))
    repeats = [straight_run(n, shift=lambda tick, actor, n=n: noise[n, tick, actor]) for n in range(40)]
    small = measure(MemoryCell(header(), repeats, block_values=1), [10, 20])
    large = measure(MemoryCell(header(), repeats), [10, 20])
    assert [point.repeats for point in small.growth] == [point.repeats for point in large.growth] == [10, 20, 40]
    for a, b in zip(small.growth, large.growth, strict=True):
        assert a.max_sigma_m == pytest.approx(b.max_sigma_m, rel=4e-16)


def test_restricted_and_unrestricted_columns_state_their_filters():
    cells = []
    for load, jitter in ((0.0, 0.0), (0.75, 0.001), (0.95, 0.5)):
        repeats = [colliding_run(number, jitter=jitter * number) for number in range(0, 8, 2)]
        cells.append(analyse_cell(cell(repeats, condition={"cpu_load": load}, cell=f"load {load}")))
    restriction = parse_restriction(["cpu_load<=75%"], ["cpu_load"])
    (row,) = table_one(cells, restriction)
    assert row.unrestricted_sigma_m > 1
    assert row.restricted_sigma_m < 0.01
    assert row.unrestricted == "exceeds-tolerance"
    assert row.restricted == "within-tolerance"
    assert str(restriction) == "cpu_load<=0.75"
    (row,) = table_one(cells, parse_restriction([], []))
    assert row.restricted_sigma_m == 0.0
    with pytest.raises(UnknownNameError, match="did you mean 'cpu_load'"):
        parse_restriction(["cpu_laod<=0.5"], ["cpu_load"])


def test_repeats_are_paired_as_they_come_and_blocks_do_not_matter():
    offsets = [0.0, 0.25, 1.0, 1.5, 4.0]
    repeats = [
        straight_run(n, shift=lambda tick, actor, n=n: offsets[n] if tick > 10 and actor == 2 else 0.0) for n in range(5)
    ]
    for block_values in (1, 1 << 22):
        pairs = analyse_cell(MemoryCell(header(), repeats, block_values)).pairs
        assert [(pair.first, pair.second) for pair in pairs] == [(0, 1), (2, 3)], "the last of an odd number has no partner"
        assert [pair.apart_m for pair in pairs] == pytest.approx([0.25, 0.5])
        assert [pair.apart_before_m for pair in pairs] == pytest.approx([0.25, 0.5]), "without a collision all is before"


def test_what_happens_after_a_collision_does_not_part_a_pair_before_it():
    result = analyse_cell(cell([colliding_run(number, jitter=0.05 * number) for number in range(0, 8, 2)]))
    assert [pair.apart_m for pair in result.pairs] == pytest.approx([0.1, 0.1])
    assert [pair.apart_before_m for pair in result.pairs] == [0.0, 0.0]
    assert not any(deviation.differs_before for deviation in result.deviations)


def test_a_repeat_that_differs_before_the_split_is_told_from_one_that_differs_after_it():
    repeats = [
        straight_run(n, shift=lambda tick, actor, n=n: 0.1 * n if tick >= (3 if n == 0 else 10) else 0.0) for n in range(4)
    ]
    result = analyse_cell(cell_of(repeats), AnalysisOptions(split=parse_split("tick=8", 0.1)))
    assert len(result.outcomes) == 4, "no two repeats are alike in the end"
    assert [deviation.differs_before for deviation in result.deviations] == [False] * 4, "the first is off by 0 times anything"
    repeats[0] = straight_run(0, shift=lambda tick, actor: 0.1 if tick >= 3 else 0.0)
    result = analyse_cell(cell_of(repeats), AnalysisOptions(split=parse_split("tick=8", 0.1)))
    assert [deviation.differs_before for deviation in result.deviations] == [True, False, False, False]


def silent_run(repeat):
    recorder = Recorder(repeat, ("x_m", "y_m", "z_m"), 0.1)
    recorder.end(0, "engine did not start", completed=False)
    return recorder.finish()


def test_a_cell_in_which_nothing_was_logged_is_refused_in_one_line():
    with pytest.raises(InputError, match="none of its 2 repeats logged a state"):
        analyse_cell(cell_of([silent_run(0), silent_run(1)]))


def test_outcomes_that_part_by_an_event_part_there_in_the_tree_too():
    result = analyse_cell(cell([colliding_run(0), colliding_run(2), colliding_run(4, collide=False)]))
    assert result.first_divergence.tick == result.tree.until_tick == 10


def test_the_tree_of_very_many_outcomes_parts_where_the_first_of_them_does():
    repeats = [
        straight_run(n, shift=lambda tick, actor, n=n: 1e-3 * n if tick >= (3 if n == 39 else 10) else 0.0) for n in range(40)
    ]
    result = analyse_cell(cell_of(repeats))
    assert result.tree.until_tick == 3
    assert result.tree.repeats == 40


def test_actors_whose_history_is_the_same_everywhere_are_identical_whatever_others_do():
    result = analyse_cell(cell([colliding_run(number, jitter=0.05 * number) for number in range(0, 8, 2)]))
    assert result.after_uninvolved.judgement.verdict == "bit-identical"


def test_a_split_at_a_tick_is_no_collision():
    result = analyse_cell(cell_of([straight_run(0), straight_run(1)]), AnalysisOptions(split=parse_split("tick=5", 0.1)))
    assert result.first_collision_tick is None
    assert table_one([result], parse_restriction([], []))[0].collision == "no"


def test_one_repeat_cannot_be_compared():
    with pytest.raises(InputError, match="at least 2 repeats"):
        analyse_cell(cell_of([straight_run(0)]))
