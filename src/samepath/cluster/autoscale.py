"""How many nodes a cluster should have: ``decide(state, seen, now_s) -> state, actions``. No clock, no thread, no node.

What is held is the time of a step. Ticks are looked at in windows, and a window counts only when all nodes that are wanted have
been there from its beginning to its end. Of each window two things are known: how long its steps took (their median), and how
long nodes drew for one step, all of them together. The rest of the step is what no further node takes away (the link, packing,
the slowest sensor). So ``n`` nodes would take about ``rest + drawn / n``.

**Up** when steps take longer than the target: to as many nodes as should do, at most twice as many as there are. **Down**, one
node at a time, when one fewer should still stay a quarter below the target, and that has been so for a while. The two are a
quarter apart, so that noise does not go back and forth between them.

A prediction can be wrong: nodes that share a core add nothing, one heavy sensor cannot be divided. Therefore what was tried is
remembered together with the load it was tried at. A number of nodes that missed the target is not gone back to, and nodes that
made steps no shorter are let go and not asked for again, until the load has changed by a quarter. Under a constant load each
number of nodes is given up at most once, so the changes come to an end (``tests/cluster/test_autoscale.py`` tries it on worlds
that predictions do not fit).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import ceil
from statistics import median
from typing import Final

from samepath.cluster.monitor.status import ClusterStatus
from samepath.core.errors import InputError

NODES_MOST: Final = 1024


@dataclass(frozen=True)
class ScaleRule:
    """What is to be held, and within which bounds.

    ``margin_ratio`` is how far below the target a step with one node fewer must stay, and by how much a load must change before
    something that failed is tried again. ``gain_ratio`` is what more nodes must bring at least.
    """

    nodes_least: int
    nodes_most: int
    target_s: float
    margin_ratio: float = 0.25
    gain_ratio: float = 0.1
    # Ticks of a window. The balance looks for better places every 16 ticks: after a change as many pass before one begins.
    window_ticks: int = 32
    settle_ticks: int = 32
    # How long a node must have been one too many.
    calm_s: float = 10.0

    def __post_init__(self) -> None:
        if not 1 <= self.nodes_least <= self.nodes_most <= NODES_MOST:
            raise InputError(
                f"--scale: a least and a most number of nodes from 1 to {NODES_MOST} was wanted, such as 1..8, "
                f"but {self.nodes_least}..{self.nodes_most} came"
            )
        if not 0.0 < self.target_s <= 60.0:
            raise InputError(f"--target-step-ms: above 0 and up to 60000 was wanted, but {1e3 * self.target_s:g} came")

    @property
    def reaction_ticks(self) -> int:
        """Within how many ticks more nodes are asked for once steps take too long, while all nodes are there."""
        return self.settle_ticks + 2 * self.window_ticks


def read_scale(text: str, target_ms: float) -> ScaleRule:
    """A rule from the command line: ``1..8``."""
    least, dots, most = text.partition("..")
    if not dots or not (least.isdecimal() and most.isdecimal()) or len(least) > 4 or len(most) > 4:
        raise InputError(f"--scale: LEAST..MOST nodes was wanted, such as 1..8, but {text!r} came")
    return ScaleRule(int(least), int(most), 1e-3 * target_ms)


@dataclass(frozen=True)
class Seen:
    """How a cluster stands. ``placed``: the nodes that are wanted; ``drawing``: those of them that are given work.

    Totals count from any start: ``ticks``, ``dropped`` frames, and by node the seconds it drew and the seconds its steps took.
    ``recent_s`` are the last tick times, in lockstep; in real time, where a tick waits for nobody, it is empty.
    """

    placed: int
    drawing: int
    ticks: int
    recent_s: tuple[float, ...]
    drawn_s: Mapping[str, float]
    steps_s: Mapping[str, float]
    dropped: int = 0


@dataclass(frozen=True)
class Tried:
    """What came of a number of nodes, and the load (seconds drawn for a step, by all nodes) it was tried at."""

    nodes: int
    load_s: float


@dataclass(frozen=True)
class ScaleState:
    """What is remembered between two looks. Dictionaries are never changed, only replaced."""

    window: Seen | None = None  # as it was when the present window began
    settled_from_tick: int | None = None  # from then on a window may begin
    nodes: int = 0  # that were wanted then
    too_few: Tried | None = None
    no_gain: Tried | None = None  # more than these brought nothing
    before: tuple[Tried, float] | None = None  # the last step up: from how many nodes, and what a step took there
    spare_since_s: float | None = None
    said: str = ""


@dataclass(frozen=True)
class SetNodes:
    """Have so many nodes; ``why`` is a line for the log."""

    nodes: int
    why: str


@dataclass(frozen=True)
class Say:
    """A line for the log: what is wanted cannot be had."""

    line: str


Action = SetNodes | Say


@dataclass(frozen=True)
class Window:
    """What a window of ticks was like."""

    nodes: int
    step_s: float
    load_s: float
    dropped: int

    @property
    def rest_s(self) -> float:
        """The part of a step that further nodes do not take away."""
        return max(self.step_s - self.load_s / self.nodes, 0.0)

    def predicted_s(self, nodes: int) -> float:
        return self.rest_s + self.load_s / nodes


def decide(rule: ScaleRule, state: ScaleState, seen: Seen, now_s: float) -> tuple[ScaleState, tuple[Action, ...]]:
    """Look at how the cluster stands, and say what is to be changed."""
    bounded = min(max(seen.placed, rule.nodes_least), rule.nodes_most)
    if bounded != seen.placed:
        # Somebody else has asked for another number, or a node was given up for good.
        return _set(state, bounded, f"{seen.placed} nodes are outside {rule.nodes_least}..{rule.nodes_most}")
    if seen.drawing < seen.placed:
        # Some are on their way, or fail: their placement goes on trying, and how fewer do says nothing about how all would.
        return replace(state, window=None, settled_from_tick=None), ()
    begin, tick = state.settled_from_tick, seen.ticks
    if begin is None or state.nodes != seen.drawing or tick < begin - rule.settle_ticks:
        state = replace(state, window=None, nodes=seen.drawing, settled_from_tick=tick + rule.settle_ticks)
    elif tick >= begin and state.window is None:
        state = replace(state, window=seen)
    elif state.window is not None and tick >= state.window.ticks + rule.window_ticks:
        return _judge(rule, replace(state, window=seen), measured(state.window, seen), now_s)
    return state, ()


def measured(begin: Seen, end: Seen) -> Window:
    """What happened between two looks."""
    ticks = end.ticks - begin.ticks
    nodes = [name for name in sorted(end.drawn_s) if name in begin.drawn_s]
    load_s = sum(max(end.drawn_s[name] - begin.drawn_s[name], 0.0) for name in nodes) / ticks
    if end.recent_s:
        step_s = median(end.recent_s[-ticks:])
    else:
        # Nobody waits in real time: the node that takes longest for its share of a tick says how far one is from keeping up.
        step_s = max((max(end.steps_s[name] - begin.steps_s.get(name, 0.0), 0.0) / ticks for name in nodes), default=0.0)
    return Window(end.drawing, step_s, load_s, max(end.dropped - begin.dropped, 0))


def _judge(rule: ScaleRule, state: ScaleState, window: Window, now_s: float) -> tuple[ScaleState, tuple[Action, ...]]:
    nodes = window.nodes
    missed = window.step_s > rule.target_s or window.dropped > 0
    if state.before is not None:
        # The first window after a step up: did it help?
        (fewer, before_s), state = state.before, replace(state, before=None)
        if missed and nodes > fewer.nodes and window.step_s > (1.0 - rule.gain_ratio) * before_s:
            # The load is the one measured with fewer: nodes that share cores wait for each other, and that counts as drawing.
            state = replace(state, no_gain=fewer, spare_since_s=None)
            why = f"{nodes} nodes take {_ms(window.step_s)} for a step, {fewer.nodes} took {_ms(before_s)}: more bring nothing"
            return _set(state, fewer.nodes, why)
    if missed:
        return _up(rule, state, window)
    fewer_s = window.predicted_s(nodes - 1) if nodes > rule.nodes_least else window.step_s
    if nodes <= rule.nodes_least or fewer_s > (1.0 - rule.margin_ratio) * rule.target_s or _is_too_few(rule, state, window):
        return replace(state, spare_since_s=None), ()
    since_s = now_s if state.spare_since_s is None else state.spare_since_s
    if now_s < since_s + rule.calm_s:
        return replace(state, spare_since_s=since_s), ()
    why = f"a step takes {_ms(window.step_s)}, with {nodes - 1} nodes it should take {_ms(fewer_s)} of {_ms(rule.target_s)}"
    return _set(replace(state, spare_since_s=None), nodes - 1, why)


def _up(rule: ScaleRule, state: ScaleState, window: Window) -> tuple[ScaleState, tuple[Action, ...]]:
    nodes, load_s = window.nodes, window.load_s
    state = replace(state, too_few=Tried(nodes, load_s), spare_since_s=None)
    blocked = state.no_gain
    if blocked is not None and (load_s > blocked.load_s * (1.0 + rule.margin_ratio) or nodes < blocked.nodes):
        state, blocked = replace(state, no_gain=None), None
    if nodes >= rule.nodes_most or blocked is not None:
        reason = "more nodes bring nothing" if blocked is not None else f"there may be no more than {rule.nodes_most} nodes"
        line = f"steps take longer than the target of {_ms(rule.target_s)}, and {reason}"
        return (state, ()) if state.said == line else (replace(state, said=line), (Say(line),))
    left_s = rule.target_s - window.rest_s
    enough = ceil(load_s / left_s) if left_s > 0.0 else nodes + 1
    wanted = min(max(enough, nodes + 1), 2 * nodes, rule.nodes_most)
    why = (
        f"a step takes {_ms(window.step_s)} instead of {_ms(rule.target_s)}"
        if window.step_s > rule.target_s
        else f"{window.dropped} frames were left out"
    )
    return _set(replace(state, before=(Tried(nodes, load_s), window.step_s), said=""), wanted, why)


def _is_too_few(rule: ScaleRule, state: ScaleState, window: Window) -> bool:
    """Has one node fewer missed the target at a load like this?"""
    known = state.too_few
    return known is not None and window.nodes - 1 <= known.nodes and window.load_s >= known.load_s * (1.0 - rule.margin_ratio)


def _set(state: ScaleState, nodes: int, why: str) -> tuple[ScaleState, tuple[Action, ...]]:
    return replace(state, window=None, settled_from_tick=None), (SetNodes(nodes, why),)


def _ms(value_s: float) -> str:
    return f"{1e3 * value_s:.3g} ms"


def seen_of(status: ClusterStatus, placed: Collection[str]) -> Seen:
    """How a cluster stands, from its status and the names of the nodes that are wanted."""
    drawing = [node for node in status.nodes if node.state == "working" and node.name in placed]
    return Seen(
        placed=len(placed),
        drawing=len(drawing),
        ticks=status.ticks,
        recent_s=status.recent_tick_s if status.mode == "lockstep" else (),
        drawn_s={node.name: node.busy_s for node in drawing},
        steps_s={node.name: node.steps_s for node in drawing},
        dropped=status.dropped_frames,
    )


def leaving(status: ClusterStatus, placed: Collection[str], nodes: int) -> tuple[str, ...]:
    """Who goes when only so many are to stay: first who has not come, then the fewest clients, then the last ones."""
    known = {node.name: node for node in status.nodes}

    def rank(name: str) -> tuple[int, int, str]:
        node = known.get(name)
        return (-1, 0, name) if node is None else (node.clients, -node.ordinal, name)

    return tuple(sorted(placed, key=rank)[: max(len(placed) - nodes, 0)])
