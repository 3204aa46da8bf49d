"""Explaining: where runs part, why, how they come apart and who follows, for a whole cell or for two runs.

Repeats fall into outcomes, classes of equal bits, and outcomes part in a tree: all are one until a tick, then some are not.
Each fork of that tree is a *parting* between its largest branch and another one; any two outcomes part at one of these, so that
they tell about every pair. Forks are found by bisection: a tick's name covers all that everybody did until then, so names that
are equal at a tick are equal before it.

What is bounded is said: of ``OUTCOMES_MOST`` outcomes a tree is grown, ``PARTINGS_MOST`` forks are explained, the earliest
first. Beside each stands what the host did at that moment: how busy it was, how long the tick took, and whether one before it
came late.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import link
from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument.analysis.causes import OUTSIDE, Cause, CauseFound, InputDifference, SensedDifference, find_cause
from samepath.instrument.analysis.divergence import compared_blocks, with_state_digests
from samepath.instrument.analysis.outcomes import Outcome, OutcomeTree, classify
from samepath.instrument.analysis.partings import (
    FieldDifference,
    Follower,
    Growth,
    Parting,
    Sampling,
    find_growth,
    find_parting,
    find_sampling,
)
from samepath.instrument.traces.cell import Block, CellTrace, MemoryCell, dense_block
from samepath.instrument.traces.records import Event, FrameTable, Header, HostLog, Repeat, SensorFrame

# A tick that took so many times as long as usual came late: its frame, or its command, is the next one's.
LATE: Final = 2.0
# A late tick acts on those right after it.
_NEAR: Final = 5


@dataclass(frozen=True)
class HostMoment:
    """The host at a tick of a repeat. ``usual_s`` is the median time of a tick; ``late_tick`` the last late one just before.

    None: nobody noted it.
    """

    repeat: int
    tick: int
    cpu_ratio: float | None = None
    busiest_core_ratio: float | None = None
    gpu_ratio: float | None = None
    latency_s: float | None = None
    usual_s: float | None = None
    late_tick: int | None = None
    late_s: float | None = None

    def words(self) -> str:
        """Say it in a line; empty where nothing is known."""
        parts = []
        if self.cpu_ratio is not None:
            parts.append(f"CPU {100 * self.cpu_ratio:.0f} % busy (busiest core {100 * (self.busiest_core_ratio or 0.0):.0f} %)")
        if self.gpu_ratio is not None:
            parts.append(f"GPU {100 * self.gpu_ratio:.0f} %")
        if self.latency_s is not None and self.usual_s is not None:
            parts.append(f"tick {self.tick} took {1e3 * self.latency_s:.3g} ms (usually {1e3 * self.usual_s:.3g} ms)")
        if self.late_tick is not None and self.late_s is not None:
            parts.append(f"tick {self.late_tick} came late, after {1e3 * self.late_s:.3g} ms")
        return f"repeat {self.repeat}: {', '.join(parts)}" if parts else ""


def host_at(repeat: int, log: HostLog, tick: int) -> HostMoment:
    """Look up what the host did at a tick."""
    sample = next((sample for sample in log.samples if sample.tick >= tick), log.samples[-1] if log.samples else None)
    ratios: tuple[float | None, float | None, float | None] = (None, None, None)
    if sample is not None:
        ratios = (sample.cpu_ratio, max(sample.core_ratios, default=sample.cpu_ratio), sample.gpu_ratio)
    if len(log.latency_s) < 2:
        return HostMoment(repeat, tick, *ratios)
    # The first tick has the time in which the run was set up: it is late by nature.
    usual_s = float(np.median(log.latency_s[1:]))
    at = int(np.searchsorted(log.latency_ticks, tick))
    there = at < len(log.latency_ticks) and int(log.latency_ticks[at]) == tick
    near = range(max(1, at - _NEAR), min(at + 1, len(log.latency_s)))
    late = [index for index in near if log.latency_s[index] > LATE * usual_s]
    return HostMoment(
        repeat,
        tick,
        *ratios,
        latency_s=float(log.latency_s[at]) if there and at > 0 else None,
        usual_s=usual_s,
        late_tick=int(log.latency_ticks[late[-1]]) if late else None,
        late_s=float(log.latency_s[late[-1]]) if late else None,
    )


Names = NDArray[np.uint64]
Ints = NDArray[np.int64]

# 16 bytes per outcome and tick: 64 MB for runs of 2000 ticks.
OUTCOMES_MOST: Final = 2000
PARTINGS_MOST: Final = 16
# So many other runs of each branch of a fork are asked which inputs differ without effect.
RUNS_LIKE_MOST: Final = 31
# Of a fork's fields, followers and inputs, so many are told in words; JSON has them all.
TOLD: Final = 6
_NODES_MOST: Final = 200
_FEW: Final = 64


@dataclass(frozen=True)
class ExplainedParting:
    """One fork: where, why, how it goes on. ``repeats_a`` and ``repeats_b`` are how many repeats are in the two branches."""

    parting: Parting
    growth: Growth
    cause: CauseFound
    host: tuple[HostMoment, ...]
    sampling: Sampling | None
    repeats_a: int
    repeats_b: int

    def words(self) -> str:
        """Say it in a few lines."""
        parting = self.parting
        who = "the run" if parting.actor is None else f"actor {parting.actor} ({parting.actor_type})"
        apart = "" if not parting.distance_m else f", {format_length(parting.distance_m)} apart"
        others = self.repeats_b - 1
        too = f" (as {others} other{'s' if others > 1 else ''} do{'es' if others == 1 else ''})" if others else ""
        lines = [
            f"Repeat {parting.b}{too} parts from repeat {parting.a} at tick {parting.tick} ({parting.time_s:g} s): "
            f"{who}{apart}, in {_fields(len(parting.fields) + parting.fields_left_out)}.",
        ]
        cause, *rest = self.sentences()
        lines.append(cause)
        if self.cause.to_record:
            lines.append(rest.pop(0))
        if parting.fields:
            lines.append("What differs, in causal order:")
            lines += [f"  {field.words()}" for field in parting.fields[:TOLD]]
            more = len(parting.fields) + parting.fields_left_out - TOLD
            lines += [f"  and {more} more"] if more > 0 else []
        lines.append(f"Last common event: {parting.last_common_event}.")
        return "\n".join([*lines, *rest])

    def sentences(self) -> list[str]:
        """Say why and what follows, a sentence or two each: what a report has room for."""
        lines = [f"Cause: {self.cause.cause.value}. {_sentences(self.cause.evidence)}"]
        if self.cause.to_record:
            lines.append(f"To be able to tell: {self.cause.to_record}.")
        lines.append(f"After that {self.growth.words()}.")
        followers = [follower for follower in self.parting.followers if follower.actor != self.parting.actor]
        if followers:
            told = "; ".join(_follower_words(follower, self.parting.tick) for follower in followers[:TOLD])
            lines.append(f"Who follows: {told}{f'; {len(followers) - TOLD} more' if len(followers) > TOLD else ''}.")
        host = [moment.words() for moment in self.host if moment.words()]
        if host:
            lines.append(f"The host then: {'; '.join(host)}.")
        return lines

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        parting = self.parting
        return {
            "repeats": [parting.a, parting.b],
            "repeats_in_branches": [self.repeats_a, self.repeats_b],
            "tick": parting.tick,
            "time_s": parting.time_s,
            "last_common_tick": parting.last_common_tick,
            "actor": parting.actor,
            "actor_type": parting.actor_type,
            "distance_m": parting.distance_m,
            "fields": [_field_json(field) for field in parting.fields],
            "fields_left_out": parting.fields_left_out,
            "last_common_event": parting.last_common_event,
            "cause": self.cause.cause.value,
            "evidence": list(self.cause.evidence),
            "to_record": self.cause.to_record,
            "inputs": [_input_json(difference) for difference in self.cause.differences],
            "growth": {name: value for name, value in vars(self.growth).items() if value not in (None, "")},
            "followers": [vars(follower) for follower in parting.followers],
            "host": [vars(moment) for moment in self.host],
            "sampling": None if self.sampling is None else {**vars(self.sampling), "same_paths": self.sampling.same_paths},
        }


@dataclass(frozen=True)
class Explanation:
    """Why the runs of a cell part. ``same_inputs`` are two repeats that had the same inputs to the bit and part all the same.

    ``sensed``: where states are equal, the first sensor frame that is not. ``tree`` is None where all runs are one.
    """

    header: Header
    repeats: int
    outcomes: tuple[Outcome, ...]
    outcomes_left_out: int
    tree: OutcomeTree | None
    partings: tuple[ExplainedParting, ...]
    partings_left_out: int
    inputs_recorded: int
    same_inputs: tuple[int, int] | None = None
    sensed: SensedDifference | None = None

    @property
    def cause(self) -> str:
        """Why the first runs part: one of :class:`Cause`; ``none`` where all are the same."""
        if self.partings:
            return self.partings[0].cause.cause.value
        return (Cause.SENSOR_DATA if self.sensed is not None else Cause.NONE).value

    @property
    def causes(self) -> dict[str, int]:
        """How many of the forks that were explained each cause has, most frequent first."""
        return dict(Counter(fork.cause.cause.value for fork in self.partings).most_common())

    def words(self) -> str:
        """Say it in plain sentences, the first parting in full."""
        name = f"{self.header.cell}: {self.repeats} repeats"
        if not self.partings:
            if self.sensed is not None:
                where = f"sensor {self.sensed.sensor} differs from tick {self.sensed.tick} on"
                return f"{name} with the same states to the bit, but {where}.\nCause: {Cause.SENSOR_DATA.value}."
            return f"{name} are the same to the bit: nothing to explain."
        lines = [f"{name} fall into {len(self.outcomes) + self.outcomes_left_out} outcomes.", *self._tree_lines(), ""]
        lines.append(self.partings[0].words())
        if self.same_inputs is not None:
            a, b = self.same_inputs
            lines += ["", f"Repeats {a} and {b} had the same inputs to the bit and part: the simulator is a source by itself."]
        rest = self.partings[1:]
        if rest:
            lines += ["", "Later partings:" if len(rest) > 1 else "A later parting:"]
            lines += [
                f"  tick {fork.parting.tick}: repeats {fork.parting.a} and {fork.parting.b}, {fork.cause.cause.value}"
                for fork in rest[:TOLD]
            ]
            more = Counter(fork.cause.cause.value for fork in rest[TOLD:])
            lines += [f"  {sum(more.values())} more: {', '.join(f'{cause} {n}' for cause, n in more.items())}"] if more else []
        if self.partings_left_out:
            lines.append(f"  {self.partings_left_out} later ones were left out (at most {PARTINGS_MOST} are explained)")
        return "\n".join(lines)

    def _tree_lines(self) -> list[str]:
        """The tree over time, as far as it fits a screen."""
        lines: list[str] = []
        for depth, node in _walk(self.tree):
            if node.children and len(lines) < TOLD + TOLD:
                sizes = " + ".join(str(child.repeats) for child in node.children[:TOLD])
                more = " + ..." if len(node.children) > TOLD else ""
                when = "at their ends" if node.until_tick is None else f"at tick {node.until_tick}"
                lines.append(f"{'  ' * (depth + 1)}{node.repeats} repeats part {when} into {sizes}{more}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """As plain data; ``cause`` is that of the first parting."""
        return {
            "cell": self.header.cell,
            "experiment": self.header.experiment,
            "simulator": self.header.simulator,
            "cause": self.cause,
            "causes": self.causes,
            "words": self.words(),
            "repeats": self.repeats,
            "inputs_recorded": self.inputs_recorded,
            "outcomes": [
                {"repeats": list(outcome.repeats), "digest": outcome.digest} for outcome in self.outcomes[:_NODES_MOST]
            ],
            "outcomes_left_out": self.outcomes_left_out + max(0, len(self.outcomes) - _NODES_MOST),
            "tree": _tree_json(self.tree),
            "partings": [fork.to_json() for fork in self.partings],
            "partings_left_out": self.partings_left_out,
            "same_inputs": None if self.same_inputs is None else list(self.same_inputs),
            "sensed": None if self.sensed is None else vars(self.sensed),
        }


def explain_cell(cell: CellTrace) -> Explanation:
    """Explain where and why the repeats of a cell part."""
    every = classify(cell)
    outcomes = every[:OUTCOMES_MOST]
    digests = cell.input_digests()
    blank = Explanation(cell.header, len(cell.runs), outcomes, len(every) - len(outcomes), None, (), 0, len(digests))
    if len(every) == 1:
        return replace(blank, sensed=_any_sensed(cell.sensor_tables(), [run.repeat for run in cell.runs]))
    tree = grow(outcomes, cell)
    forks = list(_forks(tree, outcomes))
    loaded: dict[int, Repeat] = {}
    tables = cell.sensor_tables()  # read once: every pair is looked up in them
    partings = []
    for _, a, b, branches in forks[:PARTINGS_MOST]:
        for repeat in (a, b):
            if repeat not in loaded:
                loaded[repeat] = cell.load(repeat)
        partings.append(_explain_pair(cell, tables, loaded[a], loaded[b], *branches))
    partings.sort(key=lambda fork: (fork.parting.is_of_resampling, fork.parting.tick, fork.parting.b))
    return replace(
        blank,
        tree=tree,
        partings=tuple(partings),
        partings_left_out=max(0, len(forks) - PARTINGS_MOST),
        same_inputs=_same_inputs(cell, digests),
    )


def explain_pair(cell: CellTrace, a: int, b: int) -> Explanation:
    """Explain where and why two repeats of a cell part."""
    known = {run.repeat: run for run in cell.runs}
    for repeat in (a, b):
        if repeat not in known:
            few = ", ".join(map(str, sorted(known)[:8])) + (", ..." if len(known) > 8 else "")
            raise InputError(f"cell {cell.header.cell!r}: a repeat among {few} was wanted, but {repeat} came")
    if a == b:
        raise InputError(f"two repeats were wanted, but {a} came twice: a run never parts from itself")
    digests = {repeat: name for repeat, name in cell.input_digests().items() if repeat in (a, b)}
    outcomes = tuple(Outcome(known[repeat].digest, (repeat,)) for repeat in (a, b))
    blank = Explanation(cell.header, 2, outcomes, 0, None, (), 0, len(digests))
    if known[a].digest == known[b].digest:
        return replace(blank, outcomes=(Outcome(known[a].digest, (a, b)),), sensed=_sensed(cell.sensor_tables(), a, b))
    found = explain_first(cell, a, b)
    children = tuple(OutcomeTree((index,), 1, None) for index in range(2))
    tree = OutcomeTree((0, 1), 2, found.parting.tick, children)
    alike = len(digests) == 2 and len(set(digests.values())) == 1 and _knows_the_outside(cell, a)
    same = (a, b) if alike else None
    return replace(blank, tree=tree, partings=(found,), same_inputs=same)


def explain_first(cell: CellTrace, a: int, b: int) -> ExplainedParting:
    """Explain one parting, of two repeats that are known to part: what a report tells.

    Other repeats with the same outcomes are read for what their inputs say about the cause.
    """
    digests = {run.repeat: run.digest for run in cell.runs}
    branches = [[repeat for repeat, digest in digests.items() if digest == digests[chosen]] for chosen in (a, b)]
    found = _explain_pair(cell, cell.sensor_tables(), cell.load(a), cell.load(b), *branches)
    return replace(found, repeats_a=1, repeats_b=1)


def pair_of(first: CellTrace, second: CellTrace) -> MemoryCell:
    """Put the first run of each of two cells into one cell, as repeats 0 and 1, to be explained."""
    if first.header.channels != second.header.channels or first.header.step_s != second.header.step_s:
        raise InputError(
            f"traces with the same channels and step were wanted, but {first.header.cell!r} has {first.header.step_s:g} s and "
            f"{len(first.header.channels)} channels, {second.header.cell!r} {second.header.step_s:g} s and "
            f"{len(second.header.channels)}"
        )
    return MemoryCell(first.header, [_whole(cell, number) for number, cell in enumerate((first, second))])


def _whole(cell: CellTrace, number: int) -> Repeat:
    repeat = classify(cell)[0].repeats[0]
    frames = [
        SensorFrame(tick, table.sensor, table.kind, digest.tobytes())
        for table in cell.sensor_tables()
        if repeat in table.by_repeat
        for tick, digest in zip(
            table.tick[table.by_repeat[repeat]].tolist(), table.digest[table.by_repeat[repeat]], strict=True
        )
    ]
    return replace(cell.load(repeat), repeat=number, sensors=tuple(frames), inputs=cell.inputs(repeat))


def _explain_pair(
    cell: CellTrace,
    tables: Sequence[FrameTable],
    a: Repeat,
    b: Repeat,
    branch_a: Sequence[int],
    branch_b: Sequence[int],
) -> ExplainedParting:
    """Explain where two repeats diverge; the branches are all repeats that are equal to each of them until then."""
    header = cell.header
    parting = find_parting(a, b, header.step_s)
    if parting is None:  # digests of runs differ, so something does
        raise InputError(
            f"cell {header.cell!r}: repeats {a.repeat} and {b.repeat} differ in their digests alone: run them again"
        )
    sensed = _sensed(tables, a.repeat, b.repeat)
    like_a, like_b = (
        [log for repeat in others[:RUNS_LIKE_MOST] if (log := cell.inputs(repeat)) is not None]
        for others in ([repeat for repeat in branch if repeat != run.repeat] for branch, run in ((branch_a, a), (branch_b, b)))
    )
    cause = find_cause(header, parting, cell.inputs(a.repeat), cell.inputs(b.repeat), sensed, like_a, like_b)
    sampling = find_sampling(a, b) if cause.cause is Cause.UNKNOWN else None
    if sampling is not None:
        cause = replace(cause, evidence=(sampling.words(), *cause.evidence))
        if sampling.same_paths:
            to_record = "log at moments of simulated time, such as every second tick, not whenever the script gets round to it"
            cause = replace(cause, evidence=(sampling.words(),), to_record=to_record)
    growth = find_growth(parting, a.events, b.events, header.step_s)
    host = tuple(host_at(run.repeat, run.host, parting.tick) for run in (a, b))
    known = tuple(moment for moment in host if moment.words())
    return ExplainedParting(parting, growth, cause, known, sampling, len(branch_a), len(branch_b))


def _same_inputs(cell: CellTrace, digests: dict[int, str]) -> tuple[int, int] | None:
    """Two repeats whose inputs were the same to the bit and whose states are not, the lowest of them."""
    first: dict[str, tuple[int, str]] = {}
    for run in cell.runs:
        name = digests.get(run.repeat)
        if name is not None:
            repeat, digest = first.setdefault(name, (run.repeat, run.digest))
            if digest != run.digest and _knows_the_outside(cell, repeat):
                return repeat, run.repeat
    return None


def _knows_the_outside(cell: CellTrace, repeat: int) -> bool:
    """Does a log have all that comes from outside? Otherwise equal logs are no equal inputs."""
    log = cell.inputs(repeat)
    return log is not None and log.covers >= OUTSIDE


def _sensed(tables: Sequence[FrameTable], a: int, b: int) -> SensedDifference | None:
    """The first frame that two runs sensed otherwise, by tick, then by name."""
    found = []
    for table in tables:
        slices = [table.by_repeat.get(repeat, slice(0, 0)) for repeat in (a, b)]
        ticks = [table.tick[rows] for rows in slices]
        digests = [table.digest[rows] for rows in slices]
        shared = min(map(len, ticks))
        unlike = np.any(digests[0][:shared] != digests[1][:shared], axis=1) | (ticks[0][:shared] != ticks[1][:shared])
        where = np.flatnonzero(unlike)
        if len(where):
            found.append((min(int(of_run[where[0]]) for of_run in ticks), table.sensor))
        elif len(ticks[0]) != len(ticks[1]):
            found.append((int(max(ticks, key=len)[shared]), table.sensor))
    return SensedDifference(min(found)[1], min(found)[0]) if found else None


def _any_sensed(tables: Sequence[FrameTable], repeats: Sequence[int]) -> SensedDifference | None:
    """The first frame at which any repeat sensed something else than the first one."""
    if not tables:
        return None
    found = [sensed for repeat in repeats[1:] if (sensed := _sensed(tables, repeats[0], repeat)) is not None]
    return min(found, key=lambda sensed: (sensed.tick, sensed.sensor), default=None)


def grow(outcomes: tuple[Outcome, ...], cell: CellTrace) -> OutcomeTree:
    """Grow the tree of how outcomes part over time, by bisection over the names of ticks."""
    names = _names(outcomes, cell)
    ticks = cell.ticks
    ends = {run.repeat: run.end.tick for run in cell.runs}
    # Deep trees of a thousand outcomes are no rarity: not by recursion. Groups are cut in the order found, built from the last.
    groups: list[tuple[list[int], int | None, list[int]]] = []
    waiting: list[tuple[list[int], int, int | None]] = [(list(range(len(outcomes))), 0, None)]
    while waiting:
        group, start, parent = waiting.pop()
        place = len(groups)
        groups.append((group, None, []))
        if parent is not None:
            groups[parent][2].append(place)
        if len(group) == 1:
            continue
        position = _first_split(names, group, start)
        if position is None:
            # Equal to the last logged tick: they differ in how the run ended.
            until = min(ends[outcomes[index].repeats[0]] for index in group)
            parts, after = [[index] for index in group], len(ticks)
        else:
            until, after = int(ticks[position]), position
            found: dict[bytes, list[int]] = {}
            for index in group:
                found.setdefault(names[index, position].tobytes(), []).append(index)
            parts = list(found.values())
        groups[place] = (group, until, [])
        waiting += [(part, after, place) for part in parts]
    trees: dict[int, OutcomeTree] = {}
    for place, (group, cut, children) in reversed(list(enumerate(groups))):
        grown = sorted(
            (trees.pop(child) for child in children), key=lambda tree: (-tree.repeats, outcomes[tree.outcomes[0]].repeats[0])
        )
        trees[place] = OutcomeTree(tuple(group), sum(len(outcomes[index].repeats) for index in group), cut, tuple(grown))
    return trees[0]


def _first_split(names: Names, group: list[int], start: int) -> int | None:
    """The first tick at which not all of a group have the same name: names that are equal at a tick are equal before it."""
    low, high = start, names.shape[1]
    while low < high:
        middle = (low + high) // 2
        # One tick of the group, never all of them: a thousand forks would copy everything a thousand times.
        there = names[group, middle]
        if np.all(there == there[0]):
            low = middle + 1
        else:
            high = middle
    return None if low == names.shape[1] else low


def _names(outcomes: tuple[Outcome, ...], cell: CellTrace) -> Names:
    """Name everything until each tick, by outcome: u64[outcome, tick, 2] from the chained digests of actors and the events.

    A sum of digests, each times an odd number of its own: a false «equal» is as unlikely as between two digests.
    """
    ticks, actors = len(cell.ticks), len(cell.actor_ids)
    place = {outcome.repeats[0]: index for index, outcome in enumerate(outcomes)}
    names = np.zeros((len(outcomes), ticks, 2), np.uint64)
    odd = np.arange(1, 4 * actors + 1, 2, dtype=np.uint64).reshape(actors, 2) * np.uint64(0x9E3779B97F4A7C15)
    for block in _blocks(cell, list(place)):
        for row, repeat in enumerate(block.repeats):
            if repeat in place:
                names[place[repeat]] = np.sum(_carried(block, row, ticks, actors) * odd, axis=1)
    for run in cell.runs:
        if run.repeat in place and run.events:
            names[place[run.repeat]] += _event_names(run.events, cell.ticks)
    return names


def _blocks(cell: CellTrace, repeats: list[int]) -> Iterator[Block]:
    """The digests of some repeats: a few are read one by one, many with all that lie between them."""
    if len(repeats) > _FEW:
        yield from compared_blocks(cell, [])
        return
    for repeat in repeats:
        yield dense_block(cell, [with_state_digests(cell.load(repeat))], [], digests=True)


def _carried(block: Block, row: int, ticks: int, actors: int) -> Names:
    """The digests of a run, [tick, actor, 2]; where an actor has no row, its last one: what it did until then stays."""
    if block.digests is None:
        raise InputError("blocks with digests were wanted")
    raw: Names = block.digests[row].reshape(ticks, actors, 2)
    if block.present is None or bool(block.present[row].all()):
        return raw
    there = block.present[row].reshape(ticks, actors)
    last = np.maximum.accumulate(np.where(there, np.arange(ticks)[:, None], 0), axis=0)
    carried: Names = np.take_along_axis(raw, last[:, :, None], axis=0)
    return carried


def _event_names(events: tuple[Event, ...], ticks: Ints) -> Names:
    names = np.zeros((len(ticks), 2), np.uint64)
    chain = b""
    for event in events:
        chain = link(chain, event.to_bytes())
        # An event belongs to the first logged tick at or after it; one after the last, to the last.
        names[min(int(np.searchsorted(ticks, event.tick)), len(ticks) - 1) :] = np.frombuffer(chain, np.uint64)
    return names


def _forks(tree: OutcomeTree, outcomes: tuple[Outcome, ...]) -> Iterator[tuple[int, int, int, tuple[list[int], list[int]]]]:
    """Yield every fork as tick, the two repeats that stand for its branches, and all repeats of these; the earliest first."""
    found = []
    for _, node in _walk(tree):
        if not node.children:
            continue
        # The branch of the largest outcome is the reference, and the lowest repeat stands for another branch: as in reports.
        usual = min(node.outcomes)
        reference = next(child for child in node.children if usual in child.outcomes)
        for child in node.children:
            if child is not reference:
                a, b = outcomes[usual].repeats[0], min(outcomes[index].repeats[0] for index in child.outcomes)
                branches = tuple(
                    sorted(repeat for outcome in branch.outcomes for repeat in outcomes[outcome].repeats)
                    for branch in (reference, child)
                )
                found.append((node.until_tick or 0, a, b, (branches[0], branches[1])))
    first = min(found, key=lambda fork: (fork[0], fork[2]), default=None)
    return iter(sorted(found, key=lambda fork: (fork is not first, fork[0], -len(fork[3][1]), fork[2])))


def _walk(tree: OutcomeTree | None) -> Iterator[tuple[int, OutcomeTree]]:
    """All nodes with their depth, each before its children."""
    waiting = [(0, tree)] if tree is not None else []
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(node.children)]


def _tree_json(tree: OutcomeTree | None) -> list[dict[str, Any]]:
    """The nodes, each before its children: a list, because a tree of a thousand forks is deeper than JSON can be read."""
    nodes: list[dict[str, Any]] = []
    parents: dict[int, int] = {}
    for depth, node in _walk(tree):
        if len(nodes) == _NODES_MOST:
            break
        parents[depth] = len(nodes)
        nodes.append(
            {
                "parent": parents[depth - 1] if depth else None,
                "until_tick": node.until_tick,
                "repeats": node.repeats,
                "outcomes": len(node.outcomes),
            }
        )
    return nodes


def _field_json(field: FieldDifference) -> dict[str, Any]:
    return {**vars(field), "part": field.part.value}


def _input_json(difference: InputDifference) -> dict[str, Any]:
    sides = {
        name: None if entry is None else {"values": list(entry.values), "text": entry.text, "decided_step": entry.decided_step}
        for name, entry in (("a", difference.a), ("b", difference.b))
    }
    plain = {"step": difference.step, "kind": difference.kind.value, "name": difference.name, "actor": difference.actor}
    return {**plain, **sides}


def _follower_words(follower: Follower, tick: int) -> str:
    later = follower.tick - tick
    when = "at once" if later == 0 else f"{later} tick{'s' if later > 1 else ''} later, at tick {follower.tick}"
    far = "" if follower.max_distance_m is None else f" (up to {format_length(follower.max_distance_m)})"
    return f"actor {follower.actor} {when}{far}"


def _fields(count: int) -> str:
    return f"{count} field{'' if count == 1 else 's'}"


def _sentences(evidence: Sequence[str]) -> str:
    """Sentences out of clauses: a capital first, a full stop last."""
    return " ".join(f"{words[:1].upper()}{words[1:]}." for words in evidence)
