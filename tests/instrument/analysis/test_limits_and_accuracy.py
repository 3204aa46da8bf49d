"""Limits of single quantities and actors, accuracy against a reference: drives whose figures are known on paper."""

import json
import math

import pytest

from samepath.core.channels import QUANTITIES, parse_limit
from samepath.core.errors import SamepathError
from samepath.core.verdicts import Verdict
from samepath.instrument.evaluation import analyse
from samepath.instrument.study.plan import make_plan
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header
from tests.conftest import cell_of, straight_run

CHANNELS = ("x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps", "vz_mps", "ax_mps2", "throttle_ratio")
STEP_S = 0.1


def drive(repeat, *, yaw=0.0, vx=5.0, ax=0.0, throttle=0.5, walker_m=0.0, hit=10):
    recorder = Recorder(repeat, CHANNELS, STEP_S)
    recorder.actor(1, "vehicle.audi.tt")
    recorder.actor(2, "walker.pedestrian.0001")
    for tick in range(1, 21):
        odd = tick > 5
        rest = {"vy_mps": 0.0, "vz_mps": 0.0}
        state = {
            "yaw_deg": 179.9 + yaw * odd,
            "vx_mps": 5.0 + (vx - 5.0) * odd,
            "ax_mps2": ax * odd,
            "throttle_ratio": throttle,
        }
        recorder.state(tick, 1, {"x_m": 0.5 * tick, "y_m": 0.0, **state, **rest})
        recorder.state(tick, 2, {"x_m": 3.0 + walker_m * odd, "y_m": 0.1 * tick, "yaw_deg": 0.0, "vx_mps": 0.0, **rest})
    recorder.event(hit, "collision", 1, 2, (1.0, 0.0, 0.0))
    recorder.end(20, "done")
    return recorder.finish()


def judged(limits, changes, tolerance="1 cm", **options):
    cell = MemoryCell(Header("test", "cell", "s", CHANNELS, STEP_S), [drive(0), drive(1), drive(2), drive(3, **changes)])
    return analyse(cell, limits=limits, tolerance=tolerance, progress=False, **options).cells[0]


@pytest.mark.parametrize(
    ("limit", "value", "changes", "found"),
    [
        ("speed", "0.1 m/s", {"vx": 6.0}, 0.75),
        ("orientation", "0.5 deg", {"yaw": 2.0}, 1.5),
        ("acceleration", "0.2 m/s2", {"ax": 1.0}, 0.75),
        ("commands", "0.05", {"throttle": 0.9}, 0.3),
        ("walkers position", "1 cm", {"walker_m": 0.2}, 0.15),
        ("2 position", "1 cm", {"walker_m": 0.2}, 0.15),
        ("event-time", "50 ms", {"hit": 14}, 0.3),
    ],
)
def test_a_quantity_beyond_its_limit_exceeds_and_says_which(limit, value, changes, found):
    cell = judged({limit: value}, changes, tolerance="1 m")
    assert cell.judgement.verdict is Verdict.EXCEEDS_TOLERANCE
    (result,) = cell.limits
    assert result.found == pytest.approx(found)
    assert result.name == limit
    assert limit in cell.judgement.reason
    assert 3 in cell.beyond
    wide = judged({limit: f"{found * 1.01}"}, changes, tolerance="1 m")
    assert wide.judgement.verdict is Verdict.WITHIN_TOLERANCE
    assert f"{limit}: " in wide.judgement.reason
    assert not wide.beyond


def test_every_quantity_has_a_case_above_or_below():
    assert set(QUANTITIES) == {"speed", "orientation", "acceleration", "commands", "position", "event-time", "sensors"}


def test_without_limits_nothing_but_positions_counts():
    cell = judged(None, {"vx": 9.0, "yaw": 5.0})
    assert cell.judgement.verdict is Verdict.WITHIN_TOLERANCE
    assert cell.limits == ()


def test_a_limit_for_some_stands_in_place_of_the_tolerance_for_them_alone():
    assert judged({"walkers position": "1 m"}, {"walker_m": 0.2}).judgement.verdict is Verdict.WITHIN_TOLERANCE
    assert judged({"vehicles position": "1 m"}, {"walker_m": 0.2}).judgement.verdict is Verdict.EXCEEDS_TOLERANCE
    both = {"position": "1 mm", "2 position": "1 m"}  # the last that names an actor counts
    assert judged(both, {"walker_m": 0.2}).judgement.verdict is Verdict.WITHIN_TOLERANCE


def test_a_quantity_that_was_not_logged_is_said_not_to_be():
    cell = analyse(
        cell_of([straight_run(0), straight_run(1, shift=lambda t, a: 1e-3)]), limits={"speed": 1}, progress=False
    ).cells[0]
    assert cell.judgement.verdict is Verdict.WITHIN_TOLERANCE
    assert "speed: not logged" in cell.judgement.reason


def test_before_the_split_only_what_is_before_it_counts():
    cell = judged({"speed": "0.1 m/s"}, {"vx": 6.0}, tolerance="1 m", split_at="tick=5")
    assert cell.before.judgement.verdict.passes
    assert not cell.judgement.verdict.passes
    assert not cell.beyond_before


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [("sped", 1, "did you mean 'speed'"), ("speed", "fast", "limit of speed"), ("sensors", "alike", "same was wanted"),
     ("walkers event-time", 1, "for all together"), ("speed", "-1 m/s", "at least 0"), ("a b c", 1, "a limit such as")],
)  # fmt: skip
def test_a_bad_limit_is_one_line(key, value, says):
    with pytest.raises(SamepathError, match=says) as error:
        parse_limit(key, value)
    assert "\n" not in str(error.value)


def test_a_study_has_limits_and_refuses_bad_ones():
    head = "name: s\ndesign: {simulators: control-exact, scenarios: crossing}\n"
    plan = make_plan(f"{head}analysis: {{limits: {{speed: 0.1 m/s, walkers position: 5 cm}}}}\n", "here")
    assert plan.judging.limits == {"speed": "0.1 m/s", "walkers position": "5 cm"}
    with pytest.raises(SamepathError, match="did you mean 'speed'"):
        make_plan(f"{head}analysis: {{limits: {{sped: 1}}}}\n", "here")


def reference(bias_m, step_s=0.1, ticks=20):
    recorder = Recorder(0, ("x_m", "y_m", "z_m"), step_s)
    recorder.actor(1, "car")
    for tick in range(1, ticks + 1):
        recorder.state(tick, 1, {"x_m": 7.0 * tick * step_s, "y_m": 3.3 + bias_m, "z_m": 0.0})
    recorder.end(ticks, "done")
    return MemoryCell(Header("test", "truth", "s", ("x_m", "y_m", "z_m"), step_s), [recorder.finish()])


def test_bias_and_spread_are_told_apart():
    shifts = (-0.02, 0.0, 0.02)
    runs = [straight_run(number, shift=lambda tick, actor, d=shift: d) for number, shift in enumerate(shifts)]
    report = analyse(cell_of(runs), reference=reference(0.3), tolerance="1 m", progress=False)
    (actor,) = report.cells[0].accuracy.actors
    assert actor.bias_max_m == pytest.approx(0.3)
    assert actor.bias_rms_m == pytest.approx(0.3)
    assert actor.spread_rms_m == pytest.approx(0.02)
    assert actor.error_rms_m == pytest.approx(math.hypot(0.3, 0.02))
    assert report.cells[0].accuracy.left_out == (2,)
    plain = json.loads(report.to_json())["cells"][0]["accuracy"]
    assert plain["actors"][0]["bias_max_m"] == pytest.approx(0.3)


def test_a_reference_at_other_moments_is_read_between_them_and_not_beyond():
    (actor,) = (
        analyse(cell_of([straight_run(0), straight_run(1)]), reference=reference(0.0, 0.25, 4), progress=False)
        .cells[0]
        .accuracy.actors
    )
    assert actor.bias_max_m == pytest.approx(0.0, abs=1e-12)
    assert actor.moments == 8  # 0.25 s to 1 s, every 0.1 s


def test_a_reference_without_a_common_actor_is_refused_in_a_line():
    runs = [straight_run(0), straight_run(1)]
    truth = reference(0.0, 100.0)
    with pytest.raises(SamepathError, match="share no moment") as error:
        analyse(cell_of(runs), reference=truth, progress=False)
    assert "\n" not in str(error.value)
