"""Every kind of monitor on drives whose margins are known on paper; files with mistakes; functions; coverage."""

import math

import numpy as np
import pytest

from samepath.core.errors import SamepathError
from samepath.instrument.evaluation import analyse, monitor_set
from samepath.instrument.monitors.file import KINDS, read_file, read_monitors
from samepath.instrument.monitors.monitor import watch_cell
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header
from samepath.simulator.maps import load_map

CHANNELS = ("x_m", "y_m", "z_m", "yaw_deg", "vx_mps", "vy_mps", "vz_mps", "light_index")
STEP_S = 0.1
LENGTH_M, WIDTH_M = 4.5, 1.8
SIZES = {"car": [LENGTH_M, WIDTH_M], "person": 0.6}


def drive(repeat, *paths, ticks=100, events=(), kinds=None):
    """Each path gives (x, y, yaw in degrees, vx, vy) or None at a time; actors are 1, 2, ..."""
    recorder = Recorder(repeat, CHANNELS, STEP_S)
    for actor in range(1, len(paths) + 1):
        recorder.actor(actor, (kinds or {}).get(actor, "car"))
    for tick in range(ticks + 1):
        for actor, path in enumerate(paths, start=1):
            found = path(tick * STEP_S)
            if found is not None:
                x, y, yaw, vx, vy, *light = found
                state = {"x_m": x, "y_m": y, "z_m": 0.0, "yaw_deg": yaw, "vx_mps": vx, "vy_mps": vy, "vz_mps": 0.0}
                recorder.state(tick, actor, state | ({"light_index": light[0]} if light else {}))
    for tick, actor, other in events:
        recorder.event(tick, "collision", actor, other, (1.0, 0.0, 0.0))
    recorder.end(ticks, "done")
    return recorder.finish()


def cell(*repeats):
    return MemoryCell(Header("test", "cell", "s", CHANNELS, STEP_S), repeats)


def judged(spec, *repeats, **extra):
    data = {"monitors": [spec], "sizes": SIZES, **extra}
    (trace,) = watch_cell(cell(*repeats), monitor_set(data)).traces
    assert not trace.not_applicable, trace.not_applicable
    return trace


def margin(spec, *repeats, **extra):
    return judged(spec, *repeats, **extra).verdicts[0].margin


def straight(speed, start=0.0, y=0.0):
    return lambda t: (start + speed * t, y, 0.0, speed, 0.0)


def standing(x, y=0.0, yaw=0.0):
    return lambda t: (x, y, yaw, 0.0, 0.0)


def braking(t, speed=20.0, rate=4.0):
    stop = speed / rate
    at = min(t, stop)
    return speed * at - rate * at * at / 2, 0.0, 0.0, max(0.0, speed - rate * t), 0.0


def test_distance_and_gap_to_a_car_that_is_passed():
    run = drive(0, straight(10.0), standing(50.0, 4.0))
    assert margin({"kind": "distance", "at_least": "3 m"}, run) == pytest.approx(1.0)
    assert margin({"kind": "gap", "at_least": "1 m"}, run) == pytest.approx(4.0 - WIDTH_M - 1.0)


def test_time_to_collision_falls_by_a_second_each_second():
    run = drive(0, straight(10.0), standing(150.0))
    trace = judged({"kind": "ttc", "at_least": "1.5 s"}, run)
    # After 10 s the car is at 100 m, with 50 m less a car's length to go, at 10 m/s.
    assert trace.verdicts[0].margin == pytest.approx((50.0 - LENGTH_M) / 10.0 - 1.5)
    assert trace.verdicts[0].tick == 100
    np.testing.assert_allclose(np.diff(trace.low), -STEP_S, atol=1e-9)


def test_who_never_meets_has_a_margin_without_bound_and_passes():
    (verdict,) = judged({"kind": "ttc", "at_least": "1.5 s"}, drive(0, straight(10.0), standing(-20.0))).verdicts
    assert (verdict.passes, verdict.margin) == (True, math.inf)


def test_speed_braking_and_jerk_of_a_car_that_brakes():
    assert margin({"kind": "speed", "at_most": "90 km/h"}, drive(0, braking)) == pytest.approx(5.0)
    run = drive(0, braking, ticks=40)
    assert margin({"kind": "braking", "at_most": "5 m/s2"}, run) == pytest.approx(1.0, abs=1e-9)
    assert margin({"kind": "jerk", "at_most": 2}, run) == pytest.approx(2.0, abs=1e-6)


def test_velocities_that_are_not_logged_come_from_positions():
    channels = ("x_m", "y_m")
    recorder = Recorder(0, channels, STEP_S)
    recorder.actor(1, "car")
    for tick in range(50):
        recorder.state(tick, 1, {"x_m": 3.0 * tick * STEP_S, "y_m": 4.0 * tick * STEP_S})
    recorder.end(50, "done")
    found = MemoryCell(Header("test", "cell", "s", channels, STEP_S), [recorder.finish()])
    (trace,) = watch_cell(found, monitor_set({"monitors": ["speed(1) <= 6"]})).traces
    assert trace.verdicts[0].margin == pytest.approx(1.0)


def test_a_way_point_is_reached_when_its_circle_is():
    spec = {"kind": "way-point", "at": [50, 0], "radius": "5 m", "within": "6 s"}
    assert margin(spec, drive(0, straight(10.0))) == pytest.approx(6.0 - 4.5)
    (verdict,) = judged(spec, drive(0, straight(1.0))).verdicts
    assert (verdict.passes, verdict.margin) == (False, -math.inf)


LINE = [[50, -3], [50, 3]]


def test_a_stop_line_wants_a_stop_before_it():
    def stops(t):  # at 48 m, for a second, then goes on
        if t < 4.8:
            return 10.0 * t, 0.0, 0.0, 10.0, 0.0
        return (48.0, 0.0, 0.0, 0.0, 0.0) if t < 5.8 else (48.0 + 10.0 * (t - 5.8), 0.0, 0.0, 10.0, 0.0)

    spec = {"kind": "stop-line", "line": LINE}
    assert margin(spec, drive(0, stops)) == pytest.approx(0.1)
    assert margin(spec, drive(0, straight(10.0))) == pytest.approx(0.1 - 10.0)
    # Who stops far before the line has not stopped at it; who never comes to it is not judged by it.
    assert margin({**spec, "before": "1 m"}, drive(0, stops)) == pytest.approx(0.1 - 10.0)
    assert margin(spec, drive(0, straight(1.0))) == math.inf
    assert margin(spec, drive(0, straight(10.0, y=5.0))) == math.inf


def test_a_red_light_is_a_matter_of_seconds():
    run = drive(0, straight(9.9))  # at the line after 5.05 s: seen at 5.1 s
    assert margin({"kind": "red-light", "line": LINE, "red": [[0, 4], ["7 s", "20 s"]]}, run) == pytest.approx(1.1)
    assert margin({"kind": "red-light", "line": LINE, "red": [["4 s", "9 s"]]}, run) == pytest.approx(-1.1)
    assert margin({"kind": "red-light", "line": LINE, "red": [[10 * k, 10 * k + 4] for k in range(50)]}, run) == pytest.approx(
        1.1
    )


def test_a_light_that_was_logged_is_red_when_the_log_says_so():
    def light(t):
        return 50.0, 8.0, 0.0, 0.0, 0.0, 1.0 if t < 5 else 0.0

    spec = {"kind": "red-light", "line": LINE, "red": {"of": 2, "channel": "light_index", "value": 0}}
    assert judged(spec, drive(0, straight(9.9), light)).verdicts[0].passes is False
    assert judged(spec, drive(0, straight(10.5), light)).verdicts[0].passes is True


def test_no_collision_counts_collisions():
    hit, free = drive(0, straight(5.0), standing(20.0), events=[(40, 1, 2)]), drive(1, straight(5.0), standing(20.0))
    trace = judged({"kind": "no-collision"}, hit, free)
    assert [(verdict.passes, verdict.margin) for verdict in trace.verdicts] == [(False, -1.0), (True, 0.0)]
    (with_two,) = watch_cell(cell(hit, free), monitor_set({"monitors": ["collisions(1, 2) < 1"], "sizes": SIZES})).traces
    assert [verdict.passes for verdict in with_two.verdicts] == [False, True]


def along(name, offset_m, speed=8.0, start_m=0.0):
    """Drives a lane of a map, so far to the right of its middle."""
    lanes = [line for line in load_map(name).lanes if line.kind == "driving" and not line.is_junction]
    line = max(lanes, key=lambda lane: len(lane.points))
    yaw = np.deg2rad(line.yaw_deg)
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line.points[:, :2], axis=0).T))])

    def path(t):
        at = min(start_m + speed * t, lengths[-1] - 1.0)
        x, y, turn = (
            float(np.interp(at, lengths, values)) for values in (line.points[:, 0], line.points[:, 1], np.unwrap(yaw))
        )
        x, y = x - math.sin(turn) * offset_m, y + math.cos(turn) * offset_m
        return x, y, math.degrees(turn), speed * math.cos(turn), speed * math.sin(turn)

    return path, float(line.width_m[0])


def test_lane_keeping_is_half_the_lane_less_half_the_car_and_the_offset():
    path, width = along("t-junction", 0.3)
    run = drive(0, path, ticks=30)
    spec = {"kind": "lane-keeping", "of": 1}
    assert margin(spec, run, map="t-junction") == pytest.approx(width / 2 - WIDTH_M / 2 - 0.3, abs=0.01)


def test_off_the_road_is_beyond_its_edge():
    # From 5 m behind the end of the road on, so that bumpers are on it; the right border of the lane is the road's edge.
    path, width = along("t-junction", 0.0, start_m=5.0)
    edge = width / 2 - WIDTH_M / 2
    for right in (0.0, 0.5, width / 2):
        path, _ = along("t-junction", right, start_m=5.0)
        found = margin({"kind": "on-road", "of": 1}, drive(0, path, ticks=30), map="t-junction")
        assert found == pytest.approx(edge - right, abs=0.01)


def test_the_speed_limit_of_the_map_is_kept_by_as_much_as_the_ruler_says():
    limit_mps = 30 * 1609.344 / 3600  # 30 mph on every road of this map
    path, _ = along("t-junction", 0.0, speed=12.0)
    run = drive(0, path, ticks=30)
    spec = {"kind": "speed-limit", "of": 1}
    assert margin(spec, run, map="t-junction") == pytest.approx(limit_mps - 12.0)
    fast, _ = along("t-junction", 0.0, speed=15.0)
    assert margin(spec, drive(0, fast, ticks=30), map="t-junction") == pytest.approx(limit_mps - 15.0)
    # So much faster is allowed.
    assert margin({**spec, "at_most": "2 m/s"}, drive(0, fast, ticks=30), map="t-junction") == pytest.approx(limit_mps - 13.0)


def test_jerk_is_that_of_the_cubic_and_sideways_acceleration_that_of_the_circle():
    jerk = 1.5
    cubic = drive(0, lambda t: (jerk * t**3 / 6, 0.0, 0.0, jerk * t**2 / 2, 0.0), ticks=60)
    (trace,) = watch_cell(cell(cubic), monitor_set({"monitors": ["jerk(1) < 2"], "sizes": SIZES})).traces
    # Central differences of a parabola are exact; at the ends differences are one-sided.
    np.testing.assert_allclose(trace.low[2:-2], 2 - jerk, atol=1e-9)
    speed, radius = 6.0, 20.0

    def circle(t):
        turn = speed * t / radius
        x, y = radius * math.sin(turn), radius * (1 - math.cos(turn))
        return x, y, math.degrees(turn), speed * math.cos(turn), speed * math.sin(turn)

    found = margin("abs(lateral_acceleration(1)) < 3", drive(0, circle, ticks=60))
    assert found == pytest.approx(3 - speed**2 / radius, abs=0.01)


def test_every_kind_has_a_test_here():
    from pathlib import Path

    text = Path(__file__).read_text("utf-8")
    assert [kind for kind in KINDS if f'"kind": "{kind}"' not in text] == []


def test_for_judges_each_of_several_and_the_worst_counts():
    data = {"monitors": [{"expression": "speed(actor) < 12", "for": "vehicles"}], "sizes": SIZES}
    run = drive(0, straight(10.0), straight(11.0, y=9.0), standing(3.0, 20.0), kinds={3: "person"})
    (trace,) = watch_cell(cell(run), monitor_set(data)).traces
    assert trace.verdicts[0].margin == pytest.approx(1.0)


def test_an_actor_that_comes_later_is_judged_from_then_on():
    run = drive(0, lambda t: None if t < 5 else (1.0, 0.0, 0.0, 3.0, 0.0), standing(30.0))
    (verdict,) = judged("speed(1) < 4", run).verdicts
    assert (verdict.passes, verdict.margin) == (True, 1.0)


def test_a_monitor_that_fits_no_cell_is_an_error_that_says_why():
    runs = cell(drive(0, straight(5.0)), drive(1, straight(5.0)))
    for text, says in (
        ("speed(7) < 3", "no actor 7"),
        ("heat_ratio(1) < 3", "no channel 'heat_ratio'"),
        ("gap(1, 2) > 1", "no actor 2"),
    ):
        with pytest.raises(SamepathError, match=says):
            analyse(runs, monitors={"monitors": [text]}, progress=False)
    with pytest.raises(SamepathError, match="its scenarios are elsewhere"):
        analyse(runs, monitors={"monitors": [{"expression": "speed(1) < 9", "scenarios": "elsewhere"}]}, progress=False)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "monitors: Field required"),
        ({"monitors": []}, "at least 1"),
        ({"monitors": [{}]}, "monitors[0]: one of kind, expression and function"),
        ({"monitors": [{"kind": "tcc", "at_least": 1}]}, "did you mean 'ttc'"),
        ({"monitors": [{"kind": "ttc"}]}, "monitors[0]: ttc needs at_least"),
        ({"monitors": [{"kind": "ttc", "at_least": "1 parsec"}]}, "monitors[0].at_least: a duration"),
        ({"monitors": [{"kind": "ttc", "at_least": 1, "line": [[0, 0], [1, 1]]}]}, "leave line out"),
        ({"monitors": [{"expresion": "1 < 2"}]}, "did you mean 'expression'"),
        ({"monitors": [{"expression": "spede(1) < 2"}]}, "monitors[0].expression, column 1, at 'spede'"),
        ({"monitors": [{"expression": "speed(1) < 2", "of": 1}]}, "it belongs to a kind"),
        ({"monitors": [{"expression": "speed(actor) < 2"}]}, "say of whom"),
        (
            {"monitors": [{"expression": "speed(actor) < 2", "for": "lorris"}], "actors": {"lorries": "vehicle.*"}},
            "did you mean 'lorries'",
        ),
        ({"monitors": ["1 < 2", "1 < 2"]}, "is taken"),
        ({"monitors": ["1 < 2"], "actors": {"speed": 1}}, "actors.speed: a name"),
        ({"monitors": ["1 < 2"], "sizes": {"car": [1, 2, 3]}}, "sizes.car: [length, width]"),
        ({"monitors": ["1 < 2"], "map": "nowhere"}, "unknown map 'nowhere'"),
        ({"monitors": [{"kind": "stop-line", "line": [[0, 0], [0, 0]]}]}, "has only one"),
        ({"monitors": [{"kind": "red-light", "line": LINE, "red": [[4, 2]]}]}, "does not go forward"),
    ],
)
def test_a_bad_file_is_one_line_with_the_place(data, says):
    with pytest.raises(SamepathError) as error:
        monitor_set(data)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_functions_of_the_users_own_give_margins(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def calm(run):\n    return 12 - run.speed(1)\n"
        "def odd(run):\n    return run.repeat % 2 == 0\n"
        "def wrong(run):\n    return [1, 2]\n"
        "def broken(run):\n    return 1 / 0\n"
    )
    path = tmp_path / "m.yaml"
    path.write_text("monitors:\n  - {function: 'mine.py:calm'}\n  - {function: 'mine.py:odd'}\n")
    runs = cell(drive(0, straight(10.0)), drive(1, straight(11.0)))
    calm, odd = watch_cell(runs, read_file(path)).traces
    assert [verdict.margin for verdict in calm.verdicts] == pytest.approx([2.0, 1.0])
    assert [verdict.passes for verdict in odd.verdicts] == [True, False]
    for name, says in (("wrong", "one for each of 101 ticks"), ("broken", "ZeroDivisionError"), ("absent", "has no function")):
        path.write_text(f"monitors:\n  - {{function: 'mine.py:{name}'}}\n")
        with pytest.raises(SamepathError, match=says) as error:
            watch_cell(runs, read_file(path))
        assert "\n" not in str(error.value)


def test_a_study_may_not_bring_functions():
    from samepath.instrument.study.plan import make_plan

    text = (
        "name: s\ndesign: {simulators: control-exact, scenarios: crossing}\nanalysis: {monitors: [{function: 'os:getpid'}]}\n"
    )
    with pytest.raises(SamepathError, match="functions belong into a file"):
        make_plan(text, "here")


def test_functions_are_not_imported_from_data_that_may_come_from_anybody(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('run')\n")
    found = read_monitors({"monitors": [{"function": "evil.py:f"}]}, "here")
    assert found.monitors[0].function is not None
    with pytest.raises(SamepathError, match="not run from a study's folder"):
        watch_cell(cell(drive(0, straight(1.0))), found)


def test_coverage_counts_situations_and_names_the_rare_one():
    same = [drive(number, straight(4.0), standing(30.0, 8.0)) for number in range(4)]
    other = drive(4, straight(11.0), standing(30.0, 8.0), events=[(30, 1, None)])
    report = analyse(cell(*same, other), monitors={"monitors": ["speed(1) < 20"]}, progress=False)
    coverage = report.cells[0].assertions.coverage
    counts = {(situation.kind, situation.actor, situation.what): count for situation, count in coverage.situations}
    assert counts["speed", 1, "0.1 to 5 m/s"] == 4
    assert counts["speed", 1, "10 to 15 m/s"] == 1
    assert counts["collision", 1, "with scenery"] == 1
    assert not coverage.stable
    calm = analyse(cell(*same), monitors={"monitors": ["speed(1) < 20"]}, progress=False).cells[0].assertions.coverage
    assert calm.stable
