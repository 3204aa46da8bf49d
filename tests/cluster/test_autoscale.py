"""How many nodes: held on worlds of which the rule knows only what it measures, fitting its predictions or not."""

from collections import deque
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.cluster.autoscale import NODES_MOST, Say, ScaleRule, ScaleState, Seen, SetNodes, decide, measured, read_scale
from samepath.core.errors import InputError

RULE = ScaleRule(1, 8, 0.020)
BETWEEN_S = 0.001  # between two ticks, whatever they take


@dataclass
class World:
    """A cluster in virtual time: ``n`` nodes take ``rest + load / min(n, cores)``, give or take noise, and join after a while.

    ``cores`` bounds how many of them really draw at the same time; the time that a node says it drew grows beyond that.
    """

    load_s: float
    rest_s: float = 0.002
    cores: float = 64.0
    joining_ticks: int = 40
    noise: tuple[float, ...] = (0.0,)
    placed: int = 1
    every: int = 7  # ticks between two looks

    def __post_init__(self):
        self.drawing, self.ready_tick = self.placed, 0
        self.ticks, self.now_s, self.recent_s = 0, 0.0, deque(maxlen=100)
        self.drawn_s, self.steps_s = [0.0] * NODES_MOST, [0.0] * NODES_MOST
        self.state, self.actions = ScaleState(), []

    def step_s(self):
        return self.rest_s + self.load_s / min(self.drawing, self.cores)

    def advance(self, ticks):
        if self.drawing < self.placed and self.ticks >= self.ready_tick:
            self.drawing = self.placed
        each_s, mean_s = self.load_s / min(self.drawing, self.cores), self.step_s()
        took_s = [mean_s * (1.0 + self.noise[(self.ticks + k) % len(self.noise)]) for k in range(ticks)]
        for number in range(self.drawing):
            self.drawn_s[number] += ticks * each_s
            self.steps_s[number] += sum(took_s)
        self.ticks += ticks
        self.now_s += sum(took_s) + ticks * BETWEEN_S
        self.recent_s.extend(took_s)

    def seen(self):
        drawn, steps = ({f"node-{k}": total[k] for k in range(self.drawing)} for total in (self.drawn_s, self.steps_s))
        return Seen(self.placed, self.drawing, self.ticks, tuple(self.recent_s), drawn, steps)

    def run(self, ticks, rule=RULE):
        """Returns the numbers of nodes that were asked for meanwhile."""
        asked = []
        for _ in range(-(-ticks // self.every)):
            self.advance(self.every)
            self.state, actions = decide(rule, self.state, self.seen(), self.now_s)
            self.actions += actions
            for action in actions:
                if isinstance(action, SetNodes):
                    assert rule.nodes_least <= action.nodes <= rule.nodes_most
                    assert action.nodes != self.placed
                    asked.append(action.nodes)
                    self.placed = action.nodes
                    self.drawing = min(self.drawing, self.placed)
                    self.ready_tick = self.ticks + self.joining_ticks
        return asked


def test_a_heavy_load_gets_as_many_nodes_as_it_needs_and_keeps_them():
    world = World(load_s=0.080)
    assert world.run(4000)[-1] >= 5  # 80 ms of drawing in 20 ms, less 2 ms for the rest
    assert world.step_s() <= RULE.target_s
    assert not world.run(20_000)


def test_nodes_are_let_go_one_by_one_when_the_load_is_gone_and_not_at_once():
    world = World(load_s=0.080)
    world.run(4000)
    before = world.placed
    world.load_s = 0.004
    calm_ticks = int(RULE.calm_s / 0.007)
    assert not world.run(calm_ticks // 2)
    assert world.run(40 * calm_ticks) == list(range(before - 1, 0, -1))


def test_a_light_load_needs_no_more_than_the_least():
    assert World(load_s=0.005).run(20_000) == []
    assert World(load_s=0.005, placed=3).run(20_000, replace(RULE, nodes_least=3)) == []


def test_nodes_that_bring_nothing_are_let_go_and_that_is_said_once():
    world = World(load_s=0.060, cores=1.0)
    asked = world.run(20_000)
    assert world.placed == 1
    assert len(asked) <= 2
    assert [action.line for action in world.actions if isinstance(action, Say)] == [
        "steps take longer than the target of 20 ms, and more nodes bring nothing"
    ]


def test_what_brought_nothing_is_tried_again_when_the_load_has_grown():
    world = World(load_s=0.040, cores=1.0)
    world.run(20_000)
    assert world.placed == 1
    world.load_s, world.cores = 0.060, 64.0  # and now there are cores
    world.run(4000)
    assert world.step_s() <= RULE.target_s


def test_the_most_is_the_most_and_that_is_said_once():
    world = World(load_s=1.0)
    world.run(20_000)
    assert world.placed == RULE.nodes_most
    assert [action.line for action in world.actions if isinstance(action, Say)] == [
        "steps take longer than the target of 20 ms, and there may be no more than 8 nodes"
    ]


def test_a_number_outside_the_bounds_is_brought_back():
    for placed, wanted in ((0, 1), (12, 8)):
        seen = Seen(placed, placed, 100, (0.01,) * 100, {}, {})
        _, actions = decide(RULE, ScaleState(), seen, 5.0)
        assert [action.nodes for action in actions] == [wanted]


def test_nothing_is_judged_while_nodes_are_on_their_way():
    world = World(load_s=0.080, placed=2, joining_ticks=3000)
    world.drawing, world.ready_tick = 1, 3000
    assert world.run(3000) == []
    assert world.run(RULE.reaction_ticks + 3 * world.every)


def test_in_real_time_frames_that_were_left_out_ask_for_nodes():
    begin = Seen(1, 1, 100, (), {"node-1": 1.0}, {"node-1": 1.0})
    end = replace(begin, ticks=132, drawn_s={"node-1": 1.0 + 32 * 0.03}, steps_s={"node-1": 1.0 + 32 * 0.031}, dropped=5)
    window = measured(begin, end)
    assert window.step_s == pytest.approx(0.031)
    assert window.load_s == pytest.approx(0.030)
    state = ScaleState(window=begin, settled_from_tick=90, nodes=1)
    _, (action,) = decide(RULE, state, end, 10.0)
    assert action.nodes == 2
    calm = replace(end, steps_s={"node-1": 1.2}, drawn_s={"node-1": 1.1})
    _, (action,) = decide(RULE, state, calm, 10.0)
    assert (action.nodes, action.why) == (2, "5 frames were left out")


WORLDS = st.builds(
    World,
    load_s=st.floats(0.0, 0.4),
    rest_s=st.floats(0.0, 0.04),
    cores=st.floats(1.0, 12.0),
    joining_ticks=st.integers(0, 200),
    noise=st.lists(st.floats(-0.08, 0.08), min_size=1, max_size=11).map(tuple),
    placed=st.integers(1, 8),
    every=st.integers(3, 40),
)


@settings(max_examples=60)
@given(WORLDS)
def test_under_a_constant_load_it_comes_to_rest_within_the_bounds(world):
    rule = replace(RULE, calm_s=0.5)  # so that it need not run for minutes
    around = rule.reaction_ticks + world.joining_ticks + 3 * world.every + int(rule.calm_s / BETWEEN_S)
    # Every number of nodes is given up at most once on the way up and once on the way down.
    assert len(world.run(2 * rule.nodes_most * around, rule)) <= 2 * rule.nodes_most
    assert world.run(2 * around, rule) == []


@given(WORLDS)
def test_it_reacts_within_the_ticks_it_states(world):
    """Also after it has come to rest: a load that grows beyond the target is answered."""
    world.noise, world.rest_s, world.cores = (0.0,), min(world.rest_s, 0.004), 64.0
    world.load_s, world.placed, world.drawing = 0.002, 1, 1
    world.run(500)
    world.load_s = 0.050
    assert world.run(RULE.reaction_ticks + 3 * world.every)


@settings(max_examples=40)
@given(st.floats(0.021, 0.14), st.integers(1, 20))
def test_where_nodes_help_the_target_is_met_and_not_by_far_too_many(load_s, every):
    world = World(load_s=load_s, every=every)
    world.run(6000)
    least = next(nodes for nodes in range(1, 9) if 0.002 + load_s / nodes <= RULE.target_s)
    assert least <= world.placed <= least + 1


@pytest.mark.parametrize("text", ["", "3", "1-8", "0..4", "5..2", "1..2000", "a..b", "1..", "..4", "1...4", "1..99999"])
def test_a_range_that_is_none_is_refused_in_one_line(text):
    with pytest.raises(InputError, match="--scale: "):
        read_scale(text, 20.0)


@pytest.mark.parametrize("target_ms", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_target_that_is_none_is_refused_in_one_line(target_ms):
    with pytest.raises(InputError, match="--target-step-ms: above 0"):
        read_scale("1..8", target_ms)


def test_a_range_is_read():
    assert read_scale("2..6", 12.5) == ScaleRule(2, 6, 0.0125)
