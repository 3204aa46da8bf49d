"""What a file asks for is what the plan does. Expected numbers come from paper: v t, half a t squared, widths of lanes."""

import math
from itertools import pairwise

import pytest

from samepath.openscenario import plan_file, scenario_data
from samepath.simulator.maps import load_map
from tests.support.xosc import (
    after,
    at,
    by_entity,
    by_value,
    document,
    event,
    init,
    lane,
    pedestrian,
    speed,
    story,
    vehicle,
    world,
    write,
)

ROAD = 1  # of the oval: 330 m, straight along y
STEP_S = 0.05


def played(tmp_path, text):
    _, plan = plan_file(write(tmp_path, text))
    return dict(plan.tracks), plan


def moved_m(track, start_s=0.0, end_s=None):
    end = len(track.points) - 1 if end_s is None else round(end_s / STEP_S)
    (ax, ay), (bx, by) = track.points[round(start_s / STEP_S)], track.points[end]
    return math.hypot(bx - ax, by - ay)


def test_a_car_starts_where_its_lane_is_and_goes_as_fast_as_it_should(tmp_path):
    tracks, plan = played(tmp_path, document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 50)), speed(20)]), end_s=5.0))
    middle = load_map("oval").waypoint_at(ROAD, 0, -1, 50.0)
    assert tracks["ego"].points[0] == pytest.approx((middle.x_m, middle.y_m), abs=1e-6)
    assert tracks["ego"].start_mps == 20.0
    assert moved_m(tracks["ego"], 0.0, 5.0) == pytest.approx(100.0, abs=1e-3)
    assert plan.ended == "its stop trigger"


def test_lanes_with_positive_numbers_are_driven_against_the_reference_line(tmp_path):
    entities = vehicle("right") + vehicle("left")
    actions = init(right=[at(lane(ROAD, -1, 150)), speed(10)], left=[at(lane(ROAD, 1, 150)), speed(10)])
    tracks, _ = played(tmp_path, document(entities, actions, end_s=2.0))
    directions = [tracks[name].points[-1][1] - tracks[name].points[0][1] for name in ("right", "left")]
    assert directions[0] * directions[1] < 0.0


@pytest.mark.parametrize("shape", ["linear", "sinusoidal", "cubic"])
def test_a_change_of_speed_takes_its_time_and_its_mean_is_in_the_middle(tmp_path, shape):
    change = event("faster", speed(20, shape, 4.0), after(1.0))
    text = document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 20)), speed(10)]), story("ego", change), end_s=7.0)
    tracks, _ = played(tmp_path, text)
    # 1.05 s is the first tick after 1 s. All three shapes are symmetric: 15 m/s in the mean.
    assert moved_m(tracks["ego"], 1.05, 5.05) == pytest.approx(60.0, abs=0.6)
    assert moved_m(tracks["ego"], 5.5, 6.5) == pytest.approx(20.0, abs=1e-3)


def test_a_rate_is_an_acceleration(tmp_path):
    change = event("stop", speed(0, "linear", 5.0, "rate"), after(1.0))
    text = document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 20)), speed(20)]), story("ego", change), end_s=9.0)
    tracks, _ = played(tmp_path, text)
    assert moved_m(tracks["ego"], 1.05, 9.0) == pytest.approx(20 * 20 / (2 * 5), abs=0.6)
    assert moved_m(tracks["ego"], 6.0, 9.0) == 0.0


def test_left_is_left_in_both_directions_of_travel(tmp_path):
    def change(entity):
        return (
            '<LateralAction><LaneChangeAction><LaneChangeActionDynamics dynamicsShape="sinusoidal" value="3" '
            f'dynamicsDimension="time"/><LaneChangeTarget><RelativeTargetLane entityRef="{entity}" value="1"/>'
            "</LaneChangeTarget></LaneChangeAction></LateralAction>"
        )

    for start in (-2, 2):
        text = document(
            vehicle("ego"),
            init(ego=[at(lane(ROAD, start, 150)), speed(10)]),
            story("ego", event("change", change("ego"), after(1.0))),
            end_s=6.0,
        )
        tracks, _ = played(tmp_path, text)
        end = tracks["ego"].points[-1]
        near = load_map("oval").waypoint(*end)
        assert near.lane_id == start + (1 if start < 0 else -1)
        assert math.hypot(near.x_m - end[0], near.y_m - end[1]) < 1e-3
        # Half of the way across at half of the time: a sine is symmetric.
        first, middle = tracks["ego"].points[20], tracks["ego"].points[round(2.55 / STEP_S)]
        assert abs(middle[0] - first[0]) == pytest.approx(abs(end[0] - first[0]) / 2, abs=0.05)


def beside(entity, distance_m, side="", *, freespace=False, continuous=True, limits='maxSpeed="2" maxAcceleration="1"'):
    displacement = f'displacement="{side}ToReferencedEntity"' if side else ""
    return (
        f'<LateralAction><LateralDistanceAction entityRef="{entity}" distance="{distance_m}" {displacement} '
        f'freespace="{str(freespace).lower()}" continuous="{str(continuous).lower()}" coordinateSystem="road">'
        f"<DynamicConstraints {limits}/></LateralDistanceAction></LateralAction>"
    )


def right_m(one, other, at_s):
    """How far right of one, as it drives, another is."""
    index = round(at_s / STEP_S)
    (ax, ay), (bx, by) = one.points[0], one.points[20]
    length_m = math.hypot(bx - ax, by - ay)
    dx, dy = other.points[index][0] - one.points[index][0], other.points[index][1] - one.points[index][1]
    return (dy * (bx - ax) - dx * (by - ay)) / length_m


@pytest.mark.parametrize(("start", "side", "sign"), [(-1, "left", -1), (-1, "right", 1), (1, "left", -1), (1, "right", 1)])
def test_a_distance_to_the_side_is_on_that_side_of_the_other_whichever_way_it_drives(tmp_path, start, side, sign):
    change = event("beside", beside("lead", 2, side, freespace=True), after(1.0))
    places = [at(lane(ROAD, start, 150 - 20 * (1 if start < 0 else -1))), speed(10)]
    text = document(
        vehicle("ego") + vehicle("lead"),
        init(ego=places, lead=[at(lane(ROAD, start, 150)), speed(10)]),
        story("ego", change),
        end_s=9.0,
    )
    tracks, _ = played(tmp_path, text)
    assert right_m(tracks["lead"], tracks["ego"], 0.9) == pytest.approx(0.0, abs=1e-6)
    assert right_m(tracks["lead"], tracks["ego"], 9.0) == pytest.approx(sign * (2.0 + 1.7), abs=0.02)
    steps = [right_m(tracks["lead"], tracks["ego"], index * STEP_S) for index in range(round(9.0 / STEP_S))]
    speeds_mps = [(after_m - before_m) / STEP_S for before_m, after_m in pairwise(steps)]
    assert 1.0 < max(map(abs, speeds_mps)) <= 2.0 + 1e-4  # points are on a grid
    assert max(abs(b - a) for a, b in pairwise(speeds_mps)) <= 10.0 * STEP_S + 1e-4  # of braking the file says nothing


@pytest.mark.parametrize("continuous", [True, False])
def test_a_distance_to_the_side_is_kept_only_if_it_is_continuous(tmp_path, continuous):
    keep = event("beside", beside("lead", 2.0, continuous=continuous), after(0.5))
    ended = (
        '<StoryboardElementStateCondition storyboardElementType="event" storyboardElementRef="beside" state="endTransition"/>'
    )
    slower = event("slower", speed(5), by_value(ended, edge="rising"))
    shift = (
        '<LateralAction><LaneOffsetAction continuous="false"><LaneOffsetActionDynamics dynamicsShape="sinusoidal" '
        'maxLateralAcc="0.5"/><LaneOffsetTarget><AbsoluteTargetLaneOffset value="1"/></LaneOffsetTarget></LaneOffsetAction>'
        "</LateralAction>"
    )
    text = document(
        vehicle("ego") + vehicle("lead"),
        init(ego=[at(lane(ROAD, -1, 30)), speed(10)], lead=[at(lane(ROAD, -1, 60)), speed(10)]),
        story("ego", keep, slower) + story("lead", event("shift", shift, after(6.0))).replace("story", "other"),
        end_s=14.0,
    )
    tracks, _ = played(tmp_path, text)
    before_m, after_m = (right_m(tracks["lead"], tracks["ego"], at_s) for at_s in (5.9, 14.0))
    assert before_m == pytest.approx(2.0, abs=0.02)
    assert after_m == pytest.approx(2.0 if continuous else 3.0, abs=0.02)
    assert moved_m(tracks["ego"], 13.0, 14.0) == pytest.approx(10.0 if continuous else 5.0, abs=0.1)


@pytest.mark.parametrize("distance_m", [-2.0, 2.0])
def test_scenario_runners_distances_to_the_side_say_the_side_by_their_sign(tmp_path, distance_m):
    text = document(
        vehicle("ego") + vehicle("lead"),
        init(ego=[at(lane(ROAD, -1, 30)), speed(10)], lead=[at(lane(ROAD, -1, 60)), speed(10)]),
        story("ego", event("beside", beside("lead", distance_m), after(0.5))),
        end_s=8.0,
        description="CARLA:beside",
    )
    tracks, _ = played(tmp_path, text)
    assert right_m(tracks["lead"], tracks["ego"], 8.0) == pytest.approx(distance_m, abs=0.02)


def test_a_trigger_by_distance_fires_where_the_distance_is(tmp_path):
    condition = (
        '<RelativeDistanceCondition entityRef="lead" relativeDistanceType="longitudinal" value="40" freespace="false" '
        'rule="lessThan"/>'
    )
    text = document(
        vehicle("ego") + vehicle("lead"),
        init(ego=[at(lane(ROAD, -1, 20)), speed(10)], lead=[at(lane(ROAD, -1, 100))]),
        story("lead", event("go", speed(10), by_entity("ego", condition, edge="rising"))),
        end_s=8.0,
    )
    tracks, _ = played(tmp_path, text)
    # 80 m apart, 10 m/s: below 40 m just after 4 s; from then on the distance stays.
    assert moved_m(tracks["lead"], 0.0, 4.0) == 0.0
    assert moved_m(tracks["lead"], 4.15, 7.15) == pytest.approx(30.0, abs=1e-3)
    (_, ay), (_, by) = tracks["ego"].points[-1], tracks["lead"].points[-1]
    assert abs(by - ay) == pytest.approx(40.0, abs=1.1)


def test_what_follows_an_event_begins_when_that_ends(tmp_path):
    ended = (
        '<StoryboardElementStateCondition storyboardElementType="event" storyboardElementRef="first" state="endTransition"/>'
    )
    first = event("first", speed(10, "linear", 2.0), after(1.0))
    second = event("second", speed(0, "step"), by_value(ended, edge="rising", delay_s=1.0))
    text = document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 20))]), story("ego", first, second), end_s=None)
    tracks, plan = played(tmp_path, text)
    assert plan.ended == "its stories are over"
    # 2 s at a mean of 5 m/s, 1 s at 10 m/s.
    assert moved_m(tracks["ego"]) == pytest.approx(20.0, abs=1.1)
    assert plan.ticks * STEP_S == pytest.approx(4.1, abs=0.15)


def test_an_event_that_overwrites_stops_the_one_before(tmp_path):
    slow = event("slowly", speed(20, "linear", 100.0), after(0.0))
    quick = event("quickly", speed(5, "step"), after(2.0), priority="overwrite")
    text = document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 20))]), story("ego", slow, quick), end_s=4.0)
    tracks, _ = played(tmp_path, text)
    assert moved_m(tracks["ego"], 3.0, 4.0) == pytest.approx(5.0, abs=1e-3)


def test_a_walker_follows_a_trajectory_by_its_times_over_the_grass(tmp_path):
    vertices = "".join(
        f'<Vertex time="{time_s}"><Position>{world(x, y)}</Position></Vertex>'
        for time_s, x, y in ((0, 0, 0), (2, 4, 0), (4, 4, -2))
    )
    follow = (
        "<RoutingAction><FollowTrajectoryAction><TrajectoryRef><Trajectory name='way' closed='false'><Shape><Polyline>"
        f"{vertices}</Polyline></Shape></Trajectory></TrajectoryRef><TimeReference><Timing domainAbsoluteRelative='relative' "
        "scale='1' offset='0'/></TimeReference><TrajectoryFollowingMode followingMode='position'/>"
        "</FollowTrajectoryAction></RoutingAction>"
    )
    text = document(pedestrian("walker"), init(walker=[at(world(0, 0)), follow]), end_s=5.0, road_map="")
    tracks, _ = played(tmp_path, text)
    points = tracks["walker"].points
    assert points[round(1.0 / STEP_S)] == pytest.approx((2.0, 0.0), abs=1e-6)
    # The file's y is to the left, ours to the right.
    assert points[round(3.0 / STEP_S)] == pytest.approx((4.0, 1.0), abs=1e-6)
    assert points[-1] == pytest.approx((4.0, 2.0), abs=1e-6)


def test_a_route_decides_where_to_turn(tmp_path):
    road_map = load_map("t-junction")
    ends = {}
    for goal in (2, 3):
        places = "".join(
            f'<Waypoint routeStrategy="shortest"><Position>{place}</Position></Waypoint>'
            for place in (lane(1, 1, 80), lane(goal, -1, 40))
        )
        way = f'<Route name="way" closed="false">{places}</Route>'
        route = f"<RoutingAction><AssignRouteAction>{way}</AssignRouteAction></RoutingAction>"
        text = document(vehicle("ego"), init(ego=[at(lane(1, 1, 30)), speed(10), route]), end_s=7.0, road_map="t-junction")
        tracks, _ = played(tmp_path, text)
        ends[goal] = road_map.waypoint(*tracks["ego"].points[-1]).road_id
    assert ends == {2: 2, 3: 3}


def test_who_is_driven_from_outside_keeps_its_distance(tmp_path):
    controller = (
        '<ControllerAction><AssignControllerAction><Controller name="agent"><Properties><Property name="module" '
        'value="external_control"/></Properties></Controller></AssignControllerAction></ControllerAction>'
    )
    middle = load_map("oval").waypoint_at(ROAD, 0, -1, 50.0)
    ahead = load_map("oval").waypoint_at(ROAD, 0, -1, 150.0)
    text = document(
        vehicle("hero") + vehicle("wreck"),
        init(
            hero=[at(world(middle.x_m, middle.y_m, math.radians(middle.yaw_deg))), controller],
            wreck=[at(world(ahead.x_m, ahead.y_m, math.radians(ahead.yaw_deg)))],
        ),
        end_s=30.0,
        description="CARLA:Wreck",
    )
    tracks, _ = played(tmp_path, text)
    gap_m = math.dist(tracks["hero"].points[-1], tracks["wreck"].points[-1]) - 3.7
    assert 2.0 < gap_m < 8.0


def test_conditions_of_scenario_runners_files_stay_met(tmp_path):
    """A distance that is met at 2 s and a time that was met at 0 s: by the standard never together, there at 2 s."""
    both = (
        '<ConditionGroup><Condition name="far" delay="0" conditionEdge="rising"><ByEntityCondition><TriggeringEntities '
        'triggeringEntitiesRule="any"><EntityRef entityRef="ego"/></TriggeringEntities><EntityCondition>'
        '<TraveledDistanceCondition value="20"/></EntityCondition></ByEntityCondition></Condition>'
        '<Condition name="start" delay="0" conditionEdge="rising"><ByValueCondition><SimulationTimeCondition value="0" '
        'rule="equalTo"/></ByValueCondition></Condition></ConditionGroup>'
    )
    moved = {}
    for description in ("plain", "CARLA:latched"):
        text = document(
            vehicle("ego"),
            init(ego=[at(lane(ROAD, -1, 20)), speed(10)]),
            story("ego", event("stop", speed(0), both)),
            end_s=5.0,
            description=description,
        )
        moved[description] = moved_m(played(tmp_path, text)[0]["ego"])
    assert moved["plain"] == pytest.approx(50.5, abs=0.6)
    assert moved["CARLA:latched"] == pytest.approx(20.5, abs=0.6)


def test_parameters_and_expressions_are_filled_in(tmp_path):
    declared = '<ParameterDeclaration name="kmh" parameterType="double" value="72"/>'
    text = document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 20)), speed("${$kmh / 3.6}")]), end_s=2.0, parameters=declared)
    tracks, _ = played(tmp_path, text)
    assert tracks["ego"].start_mps == pytest.approx(20.0)


def test_a_plan_is_the_same_every_time(tmp_path):
    change = event("faster", speed(20, "sinusoidal", 4.0), after(1.0))
    path = write(tmp_path, document(vehicle("ego"), init(ego=[at(lane(ROAD, -1, 250)), speed(15)]), story("ego", change)))
    assert scenario_data(path) == scenario_data(path)
