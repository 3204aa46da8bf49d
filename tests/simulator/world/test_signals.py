"""Traffic lights: who has green when, and who stands before them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import SimulatorError
from samepath.simulator.maps import load_map, parse_map
from samepath.simulator.world.signals import (
    Signals,
    StopLines,
    TrafficLightState,
    actor_yaw_deg,
    plan_of,
    sign_type,
    trigger_box,
)

STEP_S = 0.05


@pytest.fixture(scope="module")
def plan():
    return plan_of(load_map("town"))


def run(signals, seconds):
    for _ in range(round(seconds / STEP_S)):
        signals.tick(STEP_S)


def picture(signals, group):
    """What each phase of a group shows, one letter each."""
    return "".join("RYG"[signals.shows(lights[0])] for lights in signals.plan.groups[group].phases)


def test_the_town_has_its_lights_in_seven_junctions(plan):
    assert len(plan.lights) == 23
    phases = {group.junction_id: len(group.phases) for group in plan.groups}
    assert phases == {1000: 3, 1001: 3, 1002: 3, 1003: 3, 1004: 3, 1007: 4, 1008: 4}
    for number, light in enumerate(plan.lights):
        assert number in plan.groups[light.group].phases[light.phase]
        assert plan.number(light.signal.id) == number
    assert plan.number("nonsense") is None


def test_a_light_speaks_to_the_lanes_that_come_to_it(plan):
    road_map = load_map("town")
    for light in plan.lights:
        for stop in light.stops:
            point = road_map.waypoint(stop.x_m, stop.y_m)
            assert (point.road_id, point.lane_id) == (stop.road_id, stop.lane_id)
            assert not point.is_junction
            assert all(after.is_junction for after in road_map.next(point, 8.0))
            assert stop.yaw_deg == pytest.approx(light.signal.yaw_deg, abs=1e-4)
            assert np.hypot(stop.x_m - light.signal.x_m, stop.y_m - light.signal.y_m) < 10.0
    lanes = sorted(len(light.stops) for light in plan.lights)
    assert lanes == [1] * 13 + [2] * 10


def test_every_street_of_a_junction_has_a_phase_of_its_own(plan):
    for group in plan.groups:
        assert all(len(phase) == 1 for phase in group.phases)
        yaws = [round(plan.lights[phase[0]].signal.yaw_deg) % 360 for phase in group.phases]
        assert len(set(yaws)) == len(yaws)


def test_phases_take_their_turn(plan):
    signals = Signals(plan)
    assert picture(signals, 0) == "GRR"
    run(signals, 9.9)
    assert picture(signals, 0) == "GRR"
    run(signals, 0.2)
    assert picture(signals, 0) == "YRR"
    run(signals, 3.0)
    assert picture(signals, 0) == "RRR"
    run(signals, 2.1)
    assert picture(signals, 0) == "RGR"
    run(signals, 15.2)
    assert picture(signals, 0) == "RRG"
    run(signals, 15.2)
    assert picture(signals, 0) == "GRR"


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 22), st.floats(0.0, 20.0)), max_size=6), st.floats(0.01, 0.5))
def test_never_is_more_than_one_phase_of_a_junction_other_than_red(changes, step_s):
    plan_ = plan_of(load_map("town"))
    signals = Signals(plan_)
    for light, time_s in changes:
        signals.set_times(light, green_s=time_s)
    for _ in range(200):
        signals.tick(step_s)
        for group in range(len(plan_.groups)):
            shown = picture(signals, group)
            assert shown.count("R") >= len(shown) - 1


def test_times_belong_to_a_controller():
    together = '<controller id="c"><control signalId="5"/><control signalId="6"/></controller>'
    signals = Signals(plan_of(lit({1: SIGNAL.format(5, 10) + SIGNAL.format(6, 20)}, together)))
    first, second = signals.plan.groups[0].phases[0]
    signals.set_times(first, green_s=1.0, yellow_s=0.5, red_s=0.25)
    states = signals.states()
    assert states[first][1:4] == states[second][1:4] == (1.0, 0.5, 0.25)
    run(signals, 1.1)
    assert signals.shows(second) is TrafficLightState.YELLOW
    assert signals.states()[first].elapsed_s < 0.11
    with pytest.raises(SimulatorError, match="0 to 1e6 s"):
        signals.set_times(first, red_s=float("nan"))


def test_a_frozen_junction_keeps_what_it_shows_and_others_go_on(plan):
    signals = Signals(plan)
    light = plan.groups[0].phases[0][0]
    signals.freeze(light, frozen=True)
    signals.set_shown(light, TrafficLightState.OFF)
    run(signals, 12.0)
    assert signals.shows(light) is TrafficLightState.OFF
    assert [state.frozen for number, state in enumerate(signals.states()) if number in signals.together(light)] == [True] * 3
    assert picture(signals, 1) == "YRR"
    signals.freeze_all(frozen=True)
    before = signals.states()
    run(signals, 5.0)
    assert signals.states() == before
    signals.freeze_all(frozen=False)
    run(signals, 5.0)
    assert signals.states() != before


def test_a_reset_starts_the_turn_anew(plan):
    signals = Signals(plan)
    fresh = signals.states()
    run(signals, 17.0)
    light = plan.groups[1].phases[0][0]
    signals.reset_group(light)
    assert picture(signals, 1) == "GRR"
    assert picture(signals, 0) == "RGR"
    signals.reset_all()
    assert signals.states() == fresh


@pytest.mark.parametrize("light", [-1, 23, 99])
def test_a_light_that_is_not_there_is_named(plan, light):
    signals = Signals(plan)
    for call in (signals.shows, signals.together, signals.reset_group, lambda light: signals.freeze(light, frozen=True)):
        with pytest.raises(SimulatorError, match=f"no traffic light {light}"):
            call(light)


def test_a_snapshot_goes_on_to_the_same_states(plan):
    signals = Signals(plan)
    signals.set_times(0, green_s=4.0)
    signals.freeze(13, frozen=True)
    run(signals, 3.3)
    signals.set_shown(2, TrafficLightState.YELLOW)
    copy = Signals.restore(plan, json.loads(json.dumps(signals.snapshot())))
    for _ in range(400):
        assert copy.states() == signals.states()
        copy.tick(STEP_S)
        signals.tick(STEP_S)
    with pytest.raises(SimulatorError, match="the map has 0"):
        Signals.restore(plan_of(load_map("t-junction")), signals.snapshot())


def ahead(plan, light, back_m, speed_mps, aside_m=0.0, turned_deg=0.0):
    stop = plan.lights[light].stops[0]
    x_m = stop.x_m - back_m * stop.forward_x - aside_m * stop.forward_y
    y_m = stop.y_m - back_m * stop.forward_y + aside_m * stop.forward_x
    numbers = (x_m, y_m, stop.yaw_deg + turned_deg, 2.0, speed_mps)
    return StopLines(plan.lights).lights_ahead(*(np.array([number]) for number in numbers)).tolist()[0]


@pytest.mark.parametrize("light", range(23))
def test_a_vehicle_is_at_a_light_when_it_is_near_enough_to_have_to_brake(plan, light):
    assert ahead(plan, light, 4.0, 0.0) == light
    assert ahead(plan, light, 6.0, 0.0) == -1
    assert ahead(plan, light, 15.0, 13.9) == light  # 2 m to the front, 13 m to stop from 50 km/h
    assert ahead(plan, light, 25.0, 13.9) == -1
    assert ahead(plan, light, 1.0, 5.0) == -1  # its front is over the line
    assert ahead(plan, light, 4.0, 0.0, aside_m=1.5) == light
    assert ahead(plan, light, 4.0, 0.0, turned_deg=180.0) == -1
    assert ahead(plan, light, 4.0, 0.0, turned_deg=360.0) == light


def test_many_vehicles_are_told_apart(plan):
    rows = [(light.stops[-1], number) for number, light in enumerate(plan.lights)]
    x, y, yaw = (np.array([getattr(stop, name) for stop, _ in rows]) for name in ("x_m", "y_m", "yaw_deg"))
    half = np.full(len(rows), 0.1)
    assert StopLines(plan.lights).lights_ahead(x, y, yaw, half, half).tolist() == [number for _, number in rows]
    empty = np.empty(0)
    assert StopLines(plan.lights).lights_ahead(empty, empty, empty, empty, empty).size == 0
    dark = StopLines(plan_of(load_map("t-junction")).lights)
    assert dark.lights_ahead(x, y, yaw, half, half).tolist() == [-1] * len(rows)


def test_the_trigger_lies_across_all_lanes_before_the_line(plan):
    for light in (*plan.lights, *(sign for sign in plan.signs if sign.stops)):
        (x, y, _), half = trigger_box(light)
        yaw = np.radians(actor_yaw_deg(light))
        world_x = light.signal.x_m + x * np.cos(yaw) - y * np.sin(yaw)
        world_y = light.signal.y_m + x * np.sin(yaw) + y * np.cos(yaw)
        # As CARLA's clients look for lanes: along the actor's x axis, nine tenths of the box.
        for stop in light.stops:
            back = (stop.x_m - 3.0 * stop.forward_x - world_x, stop.y_m - 3.0 * stop.forward_y - world_y)
            assert abs(back[0] * np.cos(yaw) + back[1] * np.sin(yaw)) < 0.9 * half[0]
            assert abs(back[1] * np.cos(yaw) - back[0] * np.sin(yaw)) < 1e-3
        assert half == pytest.approx((1.75 * len(light.stops) - 0.875, 1.5, 1.0))


def test_a_light_looks_across_its_traffic(plan):
    for light in (*plan.lights, *(sign for sign in plan.signs if sign.stops)):
        along, across = np.radians(light.stops[0].yaw_deg), np.radians(actor_yaw_deg(light))
        assert np.cos(across - along) == pytest.approx(0.0, abs=1e-4)
        assert np.sin(across - along) == pytest.approx(1.0)
        assert -180.0 <= actor_yaw_deg(light) <= 180.0


def test_lanes_that_are_named_count_more_than_an_orientation_that_leaves_none():
    """RoadRunner's files, which CARLA's towns are, say of a signal where its face looks."""
    inside = '<signalReference id="5" s="4" t="0" orientation="{}"><validity fromLane="{}" toLane="{}"/></signalReference>'
    for orientation in ("+", "-", "none"):
        plan = plan_of(lit({1: NOBODYS, 2: inside.format(orientation, -1, -1)}))
        ((light,),) = (plan.lights,)
        assert [(stop.road_id, stop.lane_id, stop.s_m) for stop in light.stops] == [(1, -1, 49.5)]
    # A signal for lane 0 speaks to nobody; its references do.
    assert plan_of(lit({1: NOBODYS})).lights[0].stops == ()
    assert plan_of(lit({1: NOBODYS, 2: inside.format("-", 0, 0)})).lights[0].stops == ()
    # Where lanes of both sides are named, the orientation says which.
    both = plan_of(lit({1: SIGNAL.format(5, 40).replace("/>", '><validity fromLane="-9" toLane="9"/></signal>', 1)}))
    assert [stop.lane_id for stop in both.lights[0].stops] == [-1]


def test_signs_have_carlas_names():
    names = {sign_type(signal) for signal in load_map("town").signals}
    limits = {"traffic.speed_limit.30", "traffic.speed_limit.40"}
    assert names == {"traffic.traffic_light", "traffic.stop", "traffic.yield", *limits}


def lit(signals, top="", junction=""):
    """Two straight roads with a connecting road between; lights where the caller wants."""
    lane = '<lane id="-1" type="driving"><width sOffset="0" a="3" b="0" c="0" d="0"/></lane>'
    lanes = f'<lanes><laneSection s="0"><center><lane id="0" type="none"/></center><right>{lane}</right></laneSection></lanes>'
    roads = []
    for number, x, owner, links in (
        (1, 0, -1, '<successor elementType="junction" elementId="9"/>'),
        (2, 50, 9, '<predecessor elementType="road" elementId="1" contactPoint="end"/>'),
    ):
        plan_view = f'<planView><geometry s="0" x="{x}" y="0" hdg="0" length="50"><line/></geometry></planView>'
        body = f"<link>{links}</link>{plan_view}{lanes}<signals>{signals.get(number, '')}</signals>"
        roads.append(f'<road id="{number}" length="50" junction="{owner}">{body}</road>')
    link = (
        '<connection id="0" incomingRoad="1" connectingRoad="2" contactPoint="start"><laneLink from="-1" to="-1"/></connection>'
    )
    head = '<OpenDRIVE><header revMajor="1" revMinor="4"/>'
    return parse_map(f'{head}{"".join(roads)}<junction id="9">{link}{junction}</junction>{top}</OpenDRIVE>', "x")


SIGNAL = '<signal id="{}" dynamic="yes" type="1000001" s="{}" t="-4" orientation="+"/>'
NOBODYS = SIGNAL.format(5, 10).replace("/>", '><validity fromLane="0" toLane="0"/></signal>')


def test_a_reference_inside_a_junction_means_the_lanes_that_lead_there():
    road_map = lit({1: SIGNAL.format(5, 10), 2: '<signalReference id="5" s="1" t="0" orientation="+"/>'})
    stops = plan_of(road_map).lights[0].stops
    assert [(stop.road_id, stop.lane_id, stop.s_m) for stop in stops] == [(1, -1, 10.0)]
    road_map = lit({2: SIGNAL.format(5, 1)})
    assert [(stop.road_id, stop.s_m) for stop in plan_of(road_map).lights[0].stops] == [(1, 49.5)]


def test_lights_without_a_controller_or_a_junction_have_a_turn_of_their_own():
    two = {1: SIGNAL.format(5, 10) + SIGNAL.format(6, 20)}
    assert [group.phases for group in plan_of(lit(two)).groups] == [((0,),), ((1,),)]
    top = '<controller id="c"><control signalId="5"/><control signalId="6"/><control signalId="missing"/></controller>'
    assert [group.phases for group in plan_of(lit(two, top)).groups] == [((0, 1),)]
    held = plan_of(lit(two, top, '<controller id="c"/><controller id="missing"/>'))
    assert [(group.junction_id, group.phases) for group in held.groups] == [(9, ((0, 1),))]
