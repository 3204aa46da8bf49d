"""Who may go first: drivers put at gates by hand, without physics, and asked."""

import pytest

from samepath.core.catalogue import actor_type
from samepath.core.states import ActorState, Pose, Vector
from samepath.core.trig import heading_deg
from samepath.simulator.maps import load_map
from samepath.simulator.traffic.drivers import Drivers
from samepath.simulator.traffic.roads import road_net
from samepath.simulator.world.signals import TrafficLightState

RED, YELLOW, GREEN = TrafficLightState.RED, TrafficLightState.YELLOW, TrafficLightState.GREEN
NOBODY = frozenset()


@pytest.fixture(scope="module")
def net():
    return road_net(load_map("town"))


class Street:
    """Cars on lanes, where the test puts them."""

    def __init__(self, net):
        self.net = net
        self.drivers = Drivers(net, 0, 0.05, destinations=False)
        self.states = {}
        self.lights = tuple([RED] * len(net.plan.lights))

    def put(self, lane, at_m, speed_mps=0.0, via=None):
        """A car on a lane; ``via``: the way it wants to take through the junction."""
        number = len(self.states) + 1
        self.drivers.add(number, actor_type("vehicle.audi.tt"), lane, at_m)
        car = self.drivers.cars[number]
        car.point = max(0, sum(point_m <= at_m for point_m in self.net.lanes[lane].at_m) - 2)
        if via is not None:
            car.ahead = [via, self.net.after[via][0]]
        self.move(number, at_m, speed_mps)
        return car

    def move(self, number, at_m, speed_mps):
        lane = self.net.lanes[self.drivers.cars[number].lane]
        (x_m, y_m), (to_x, to_y) = lane.place(at_m), lane.direction(at_m)
        pose = Pose(x_m, y_m, 0.0, yaw_deg=heading_deg(to_x, to_y))
        velocity = Vector(speed_mps * to_x, speed_mps * to_y)
        self.states[number] = ActorState(number, pose, velocity, Vector(), Vector())

    def decide(self, ticks=1, shut=NOBODY):
        for _ in range(ticks):
            self.drivers.look(self.states, ())
            self.drivers.settle(self.lights)
            self.drivers.give_leave(self.lights, shut)

    def at_line(self, gate, speed_mps=0.0, via=None):
        return self.put(gate.lane, gate.stop_m - 2.6, speed_mps, via)


def gates(net, **wanted):
    return [gate for gate in net.gates if all(getattr(gate, name) == value for name, value in wanted.items())]


def lit(net):
    return next(gate for gate in net.gates if gate.light >= 0 and len(net.after[gate.lane]) > 1)


def test_at_a_red_light_nobody_gets_leave_and_at_a_green_one_the_first_does(net):
    gate = lit(net)
    street = Street(net)
    first, second = street.at_line(gate), street.put(gate.lane, gate.stop_m - 10.0)
    street.decide(3)
    assert (first.gate, second.gate) == (-1, -1)
    street.lights = tuple(GREEN if number == gate.light else RED for number in range(len(street.lights)))
    street.decide()
    assert first.gate == gate.number


def test_yellow_stops_who_can_stop_and_lets_go_who_cannot(net):
    gate = lit(net)
    for speed_mps, has_leave in ((3.0, False), (11.0, True)):
        street = Street(net)
        street.lights = (GREEN,) * len(street.lights)
        car = street.put(gate.lane, gate.stop_m - 10.0, speed_mps)
        street.decide()
        assert car.gate == gate.number
        street.lights = (YELLOW,) * len(street.lights)
        street.decide()
        assert (car.gate >= 0) is has_leave


def test_at_a_stop_sign_one_stands_for_a_second_first(net):
    (gate,) = gates(net, stops_always=True)
    street = Street(net)
    car = street.at_line(gate, speed_mps=0.0)
    street.decide(19)
    assert car.gate == -1
    street.decide(2)
    assert car.gate == gate.number


def conflicting(net):
    """A gate that yields, one that does not, and ways from both that meet."""
    for low in gates(net, yields=True, stops_always=False):
        for via in net.after[low.lane]:
            for conflict in net.conflicts[via]:
                for lane in net.before[conflict.other]:
                    for number in net.gates_of[lane]:
                        high = net.gates[number]
                        if not high.yields and high.light < 0 and lane != low.lane:
                            return low, via, high, conflict.other
    raise AssertionError("the town has such a corner")


def test_who_must_yield_waits_for_who_need_not_and_then_goes(net):
    low, low_via, high, high_via = conflicting(net)
    street = Street(net)
    yielding, other = street.at_line(low, via=low_via), street.put(high.lane, high.stop_m - 20.0, 8.0, via=high_via)
    street.decide()
    assert (other.gate, yielding.gate) == (high.number, -1)
    street.decide(20)
    assert yielding.gate == -1, "the other one is still coming"
    other.lane, other.behind, other.ahead = net.after[high_via][0], [high.lane, high_via], []
    street.move(other.id, 20.0, 8.0)
    other.point = 30
    street.decide(2)
    assert yielding.gate == low.number


def test_who_has_waited_very_long_goes_before_those_with_priority(net):
    low, low_via, high, high_via = conflicting(net)
    street = Street(net)
    yielding, other = street.at_line(low, via=low_via), street.put(high.lane, high.stop_m - 20.0, 8.0, via=high_via)
    yielding.waited = 401
    street.decide()
    assert (yielding.gate, other.gate) == (low.number, -1)


def test_nobody_drives_into_a_junction_without_room_behind_it(net):
    gate = lit(net)
    via = net.after[gate.lane][0]
    behind = net.after[via][0]
    street = Street(net)
    street.lights = (GREEN,) * len(street.lights)
    car = street.at_line(gate, via=via)
    jam = street.put(behind, 9.0)
    street.decide()
    assert car.gate == -1
    street.move(jam.id, 20.0, 5.0)
    jam.point = 35
    street.decide()
    assert car.gate == gate.number


def test_walkers_on_the_crossing_are_waited_for(net):
    gate = lit(net)
    street = Street(net)
    street.lights = (GREEN,) * len(street.lights)
    car = street.at_line(gate)
    street.decide(shut=frozenset({(gate.crossings[0], gate.lane)}))
    assert car.gate == -1
    street.decide()
    assert car.gate == gate.number
    assert gate.crossings[0] in street.drivers.claims(), "and walkers wait for who has leave"


def test_two_ways_that_meet_are_never_given_at_once(net):
    """At every gate of the town somebody stands and all lights are green: whoever gets leave gets it alone where ways meet."""
    street = Street(net)
    street.lights = (GREEN,) * len(street.lights)
    for gate in net.gates:
        street.at_line(gate)
    street.decide(30)
    cars = [car for car in street.drivers.cars.values() if car.vias]
    assert len(cars) > 10
    for car in cars:
        for other in cars:
            if other is not car:
                met = {conflict.other for via in car.vias for conflict in net.conflicts[via]}
                assert not met & set(other.vias)


def test_an_empty_lane_beside_a_slow_one_is_taken_and_a_taken_one_is_not(net):
    lane = next(lane for lane in net.lanes if net.left[lane.number] >= 0 and lane.length_m > 120.0)
    beside = net.left[lane.number]
    for hindered in (False, True):
        street = Street(net)
        car = street.put(lane.number, 40.0, 8.0)
        street.put(lane.number, 58.0, 2.0)
        if hindered:
            street.put(beside, 38.0, 8.0)
        street.decide()
        street.drivers.drive(1000)
        assert car.lane == (lane.number if hindered else beside)
        if not hindered:
            assert car.beside == lane.number
            assert {body.owner for number in (lane.number, beside) for body in street.drivers.bodies(number)} >= {car.id}
            assert abs(car.aside_m) == pytest.approx(3.5, abs=0.2)
