"""The CARLA adapter without CARLA: settings, places, controllers, late and unordered reports, frames and ticks."""

import math
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError, SamepathError, SimulatorError
from samepath.engines import registry
from samepath.engines.carla import Carla
from samepath.engines.carla.engine import (
    CarlaFrame,
    CollisionReport,
    DelayedRemovals,
    first_contacts,
    read_anchor,
    read_script,
    ticks_from,
)
from samepath.engines.carla.simulator import SETTINGS, read_settings
from samepath.engines.conformance import run_once
from samepath.engines.resampling import RESAMPLING
from samepath.scenarios.scripts import Chassis, PlanarState, Pose2D, VehicleController, WalkerController, moved


def settings_with(**changes):
    return read_settings({**SETTINGS, **changes})


def test_it_can_be_described_without_client_and_server_and_says_what_is_missing_when_it_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "carla", None)
    with registry.create("carla") as simulator:
        assert simulator.info().capabilities.lossless
        assert not simulator.info().capabilities.deterministic
        assert simulator.unavailable({}) == "CARLA's Python client is not installed: pip install 'samepath[carla]'"
        with pytest.raises(SimulatorError, match=r"pip install 'samepath\[carla\]'$"):
            run_once(simulator, "table1-test2")


def test_nobody_at_the_door_is_known_at_once():
    pytest.importorskip("carla")
    with pytest.raises(SimulatorError, match=r"^no CARLA server answers at 127\.0\.0\.1:1 \(Connection refused\): start one"):
        run_once(Carla({"port": 1}), "autopilot")
    assert Carla().unavailable({"port": 1}).startswith("no CARLA server answers at 127.0.0.1:1 (Connection refused): start one")


def test_the_defaults_are_what_carla_asks_for():
    held = settings_with()
    assert held.synchronous
    assert held.fixed_delta_s == 0.05
    assert held.substeps * held.max_substep_s >= held.fixed_delta_s
    assert (held.reload, held.batch, held.deterministic_ragdolls, held.hybrid_physics) == ("world", True, True, False)


def test_every_setting_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "carla.md").read_text("utf-8")
    for name in SETTINGS:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"substeps": 4}, "at least fixed_delta_s, but 4 \\* 0.01 s is less than 0.05 s: raise one of the first two"),
        ({"max_substep_s": 0.004}, "10 \\* 0.004 s is less than 0.05 s"),
        ({"fixed_delta_s": 0.0}, "synchronous mode needs a fixed step"),
        ({"fixed_delta_s": 0.03}, "a whole part of 0.05 s"),
        ({"fixed_delta_s": 0.1}, "fixed_delta_s: a number from 0 to 0.05"),
        ({"fixed_delta_s": math.nan}, "fixed_delta_s: a number"),
        ({"port": 0}, "port: a whole number from 1"),
        ({"port": "here"}, "port: a whole number"),
        ({"synchronous": "yes"}, "synchronous: true or false was wanted, but 'yes' came"),
        ({"reload": "wrold"}, "reload: world or none was wanted, but 'wrold' came; did you mean world"),
        ({"vehicles": 0}, "vehicles: a whole number from 1"),
        ({"map": ""}, "map: a word"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(changes, words):
    with pytest.raises(InputError, match=words) as caught:
        settings_with(**changes)
    assert "\n" not in str(caught.value)


def test_substeps_that_cover_the_step_are_enough_whatever_the_last_digit():
    for delta_s, substeps in ((0.05, 5), (0.025, 5), (0.01, 1), (0.05, 0)):
        read = settings_with(fixed_delta_s=delta_s, substeps=substeps, max_substep_s=0.01 if delta_s != 0.025 else 0.005)
        assert (read.fixed_delta_s, read.substeps) == (delta_s, substeps)


@pytest.mark.parametrize("text", ["spawn:-1", "spawn:", "1,2", "1,2,3,4", "a,b,c", "nan,0,0", "0,0,inf", "1e9,0,0"])
def test_an_anchor_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="anchor: spawn:12 or x,y,yaw"):
        read_anchor(text)


def test_anchors_are_read():
    assert read_anchor(" ") is None
    assert read_anchor("spawn: 12") == 12
    assert read_anchor("10.5, -3, 90") == Pose2D(10.5, -3.0, 90.0)


@given(st.floats(-500, 500), st.floats(-500, 500), st.floats(-360, 360))
def test_a_moved_scenario_starts_at_its_anchor_and_keeps_all_distances(x_m, y_m, yaw_deg):
    script = read_script("table1-test4")
    there = moved(script, Pose2D(x_m, y_m, yaw_deg))
    first = there.roles[0].start
    assert (first.x_m, first.y_m) == (x_m, y_m)
    assert math.cos(math.radians(first.yaw_deg - yaw_deg)) == pytest.approx(1.0, abs=1e-12)
    points = [point for role in script.roles for point in role.path]
    after = [point for role in there.roles for point in role.path]
    for a, b in zip(points, after, strict=True):
        assert math.dist(points[0], a) == pytest.approx(math.dist(after[0], b), abs=1e-9)
    # Left stays left: the area between two waypoints and the first keeps its sign.
    (ax, ay), (bx, by) = ((p[0] - points[0][0], p[1] - points[0][1]) for p in (points[5], points[12]))
    (cx, cy), (dx, dy) = ((p[0] - after[0][0], p[1] - after[0][1]) for p in (after[5], after[12]))
    assert ax * by - ay * bx == pytest.approx(cx * dy - cy * dx, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"end": "first-collision"}, "CARLA tells of collisions late"),
        ({"actors": [{"id": 1, "type": "vehicle.tesla.model3", "path": [[0, 0]], "controller": "a:b"}]}, "of your own"),
        (
            {
                "actors": [
                    {"id": 1, "type": "walker.pedestrian.0001", "path": [[0, 0], [1, 0]], "after_collision": "fall"},
                ]
            },
            "how to fall is CARLA's",
        ),
    ],
)
def test_what_a_foreign_server_cannot_be_asked_for_is_refused(tmp_path, change, words):
    import yaml

    plain = {"name": "mine", "actors": [{"id": 1, "type": "vehicle.tesla.model3", "path": [[0, 0], [9, 0]]}], **change}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(plain))
    with pytest.raises(SamepathError, match=words):
        read_script(str(tmp_path / "mine.yaml"))


def walk(role, steps, step_s=0.05):
    controller, x, y = WalkerController(role, step_s), *role.path[0]
    track = []
    for number in range(steps):
        command = controller.decide(PlanarState(x, y, 0.0, 0.0, 0.0), number * step_s)
        x += command.direction_x * command.speed_mps * step_s
        y += command.direction_y * command.speed_mps * step_s
        track.append((x, y, controller.finished))
    return track


def test_a_pedestrian_waits_walks_by_every_waypoint_and_stops_at_the_last():
    role = read_script("table1-test3").roles[2]
    track = walk(role, 400)
    assert track[int(role.start_s / 0.05) - 1][:2] == role.path[0]
    for waypoint in role.path[1:]:
        assert min(math.dist(waypoint, (x, y)) for x, y, _ in track) < 0.11
    lengths = sum(math.dist(a, b) for a, b in pairwise(role.path))
    assert track.index(next(point for point in track if point[2])) == pytest.approx(
        (role.start_s + lengths / role.speed_mps) / 0.05, abs=6
    )
    assert track[-1] == track[-20]


def test_a_pedestrian_who_was_pushed_past_a_waypoint_does_not_turn_back():
    role = read_script("table1-test5").roles[0]
    controller = WalkerController(role, 0.05)
    (ax, ay), (bx, by) = role.path[0], role.path[1]
    beyond = controller.decide(PlanarState(bx + 0.1 * (bx - ax), by + 0.1 * (by - ay), 0.0, 0.0, 0.0), 1.0)
    assert beyond.direction_x * (bx - ax) + beyond.direction_y * (by - ay) > 0.0


def test_a_driver_follows_its_path_whatever_the_wheels_of_the_server_are_like():
    """Two vehicles, a bicycle model each: the geometry the server tells is the geometry that is steered by."""
    role = read_script("table1-test3").roles[1]
    for chassis in (Chassis(2.8, 1.4, 36.0), Chassis(4.5, 2.0, 70.0)):
        controller, step_s = VehicleController(role, chassis, 0.05), 0.05
        yaw_deg, speed_mps = role.start.yaw_deg, 0.0
        x, y = role.path[0]
        off_m = 0.0
        for number in range(600):
            rad = math.radians(yaw_deg)
            seen = PlanarState(x, y, yaw_deg, speed_mps * math.cos(rad), speed_mps * math.sin(rad))
            command = controller.decide(seen, number * step_s)
            speed_mps = max(0.0, speed_mps + (3.0 * command.throttle - 6.0 * command.brake) * step_s)
            turn = math.tan(math.radians(command.steer * chassis.max_steer_deg)) / chassis.wheel_base_m
            rear_x, rear_y = x - chassis.rear_m * math.cos(rad), y - chassis.rear_m * math.sin(rad)
            rear_x, rear_y = rear_x + speed_mps * math.cos(rad) * step_s, rear_y + speed_mps * math.sin(rad) * step_s
            yaw_deg += math.degrees(speed_mps * turn * step_s)
            rad = math.radians(yaw_deg)
            x, y = rear_x + chassis.rear_m * math.cos(rad), rear_y + chassis.rear_m * math.sin(rad)
            off_m = max(off_m, distance_to_path_m(role.path, x, y))
        assert controller.finished
        assert math.dist((x, y), role.path[-1]) < 0.3
        assert off_m < 0.5


def distance_to_path_m(path, x, y):
    best = math.inf
    for (ax, ay), (bx, by) in pairwise(path):
        dx, dy = bx - ax, by - ay
        share = min(max(((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy), 0.0), 1.0)
        best = min(best, math.dist((x, y), (ax + share * dx, ay + share * dy)))
    return best


def report(frame, actor, other, detail="", impulse=1.0):
    return CollisionReport(frame, frame * 0.05, actor, other, detail, (impulse, 0.0, 0.0))


REPORTS = [
    report(100, 3, None, "static.road"),  # before the run: no collision of it, nor of later
    report(120, 3, None, "static.road"),
    report(130, 2, 1, impulse=-7.0),
    report(130, 1, 2, impulse=7.0),
    report(131, 1, 2, impulse=9.0),
    report(150, 2, None, "static.wall"),
    report(150, 2, None, "static.pole"),
    report(151, 2, None, "static.wall"),
    report(900, 3, 1),  # after it
]


@given(st.permutations(REPORTS))
def test_collisions_do_not_depend_on_the_order_in_which_sensors_speak(reports):
    found = first_contacts(reports, lambda report: report.frame - 100, last_tick=200)
    assert [(contact.tick, contact.actor, contact.other, contact.detail, contact.impulse_ns[0]) for contact in found] == [
        (30, 1, 2, "", 7.0),
        (50, 2, None, "static.pole", 1.0),
        (50, 2, None, "static.wall", 1.0),
    ]


@given(arrival=st.integers(0, 10), other=st.integers(0, 10))
def test_who_was_hit_goes_at_the_same_frame_however_late_the_sensors_speak(arrival, other):
    removals, reports, gone = DelayedRemovals([2], 10, strict=True), [], []
    for frame in range(100, 130):
        if frame == 105 + arrival:
            reports.append(report(105, 2, 1))
        if frame == 105 + other:
            reports.append(report(105, 1, 2))
        gone += [(frame, number) for number in removals.due(reports, 100, frame)]
    assert gone == [(115, 2)]


def test_a_report_that_comes_too_late_to_act_on_is_an_error_and_not_another_run():
    removals = DelayedRemovals([2], 10, strict=True)
    with pytest.raises(SimulatorError, match=r"told of 11 frames after it happened.*raise remove_after_s"):
        removals.due([report(105, 1, 2)], 100, 116)
    assert DelayedRemovals([2], 10, strict=False).due([report(105, 1, 2)], 100, 116) == [2]
    assert DelayedRemovals([3], 10, strict=True).due([report(105, 1, 2)], 100, 116) == []
    assert DelayedRemovals([2], 10, strict=True).due([report(99, 1, 2)], 100, 116) == [], "before the run began"


def frame_at(number, time_s, x_m):
    return CarlaFrame(number, time_s, {1: {"x_m": x_m, "y_m": 0.0, "z_m": 0.0, "yaw_deg": 0.0}})


def test_finer_steps_make_the_same_ticks():
    ticks = ticks_from(frame_at(7, 1.0, 0.0), settings_with(fixed_delta_s=0.01))
    frames = [frame_at(7 + n, 1.0 + n * 0.01, float(n)) for n in range(1, 16)]
    taken = [tick for frame in frames for tick in ticks.take(frame)]
    assert [(tick, states[1]["x_m"]) for tick, states in taken] == [(1, 5.0), (2, 10.0), (3, 15.0)]
    assert ticks.of_report(report(8, 1, None)) == 1
    assert ticks.of_report(report(12, 1, None)) == 1
    assert ticks.of_report(report(13, 1, None)) == 2
    assert ticks.time_s(frames[2]) == 0.03


def test_a_clock_that_does_not_keep_the_step_is_noticed():
    ticks = ticks_from(frame_at(0, 0.0, 0.0), settings_with())
    with pytest.raises(SimulatorError, match=r"went 0\.1 s in 1 frames of 0\.05 s"):
        ticks.take(frame_at(1, 0.1, 0.0))


@given(st.lists(st.floats(0.004, 0.2), min_size=3, max_size=30))
def test_steps_of_any_length_are_interpolated_to_every_tick_once(steps):
    """On steady motion that is exact."""
    ticks = ticks_from(frame_at(0, 3.0, 0.0), settings_with(synchronous=False, fixed_delta_s=0.0))
    time_s, taken = 0.0, []
    for number, step_s in enumerate(steps, start=1):
        time_s += step_s
        taken += ticks.take(frame_at(number, 3.0 + time_s, 8.0 * time_s))
    assert [tick for tick, _ in taken] == list(range(1, len(taken) + 1))
    assert len(taken) == pytest.approx((time_s - steps[-1]) / 0.05, abs=1), "a bound needs the frame after"
    for tick, states in taken:
        assert states[1]["x_m"] == pytest.approx(8.0 * tick * 0.05, abs=1e-9)
        assert states[1][RESAMPLING] == pytest.approx(0.0, abs=1e-9)
    assert ticks.note.startswith("resampled from the engine's frames")


def test_only_a_fixed_step_is_called_lossless_and_a_variable_one_has_its_bound():
    for delta_s in (0.05, 0.01):
        fixed = Carla().described({"fixed_delta_s": delta_s})
        assert fixed.capabilities.lossless
        assert RESAMPLING not in fixed.channels
        assert ticks_from(frame_at(0, 3.0, 0.0), settings_with(fixed_delta_s=delta_s)).note == ""
    variable = Carla().described({"synchronous": False, "fixed_delta_s": 0.0})
    assert not variable.capabilities.lossless
    assert variable.channels[-1] == RESAMPLING
