"""Explaining a large cell from disk: 1000 repeats x 10 actors x 2000 ticks, of one outcome, of eight, and all different."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.tools import best_s, save, show, verdict
from samepath.core.channels import POSITION
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.core.streams import stream
from samepath.instrument.analysis.explain import explain_cell
from samepath.instrument.traces.records import Actor, Header, Repeat, RunEnd, row_digests
from samepath.instrument.traces.store import StoredCell, store_repeats

REPEATS, ACTORS, TICKS, STEP_S = 1000, 10, 2000, 0.05
AIM_S = 10.0
# A difference of 1e-9 m that grows by this factor in a tick: from 1 nm to metres within 20 s.
GROWTH = 1.05


def main() -> bool:
    """Measure; return whether every cell was explained in time, and rightly."""
    rows, figures, good = [], {}, True
    for name, outcomes in (("identical", 1), ("8 outcomes", 8), ("every repeat another", REPEATS)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cell"
            store_repeats(path, Header("bench", name, "none", POSITION, STEP_S, simulator="bench"), _repeats(outcomes))
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            seconds = best_s(partial(_explain, path), 1)
            before = os.times()
            explained = _explain(path)
            after = os.times()
            cpu_s = after.user + after.system - before.user - before.system
        found = len(explained.outcomes)
        right = found == outcomes and set(explained.causes) <= {"random-stream"}
        ticks = {fork.parting.b: fork.parting.tick for fork in explained.partings}
        right = right and all(tick == _parts_at(repeat, outcomes) for repeat, tick in ticks.items())
        met = right and seconds <= AIM_S
        good = good and met
        figures[name] = {
            "seconds": seconds,
            "cpu_s": cpu_s,
            "outcomes": found,
            "partings": len(explained.partings),
            "bytes": size,
        }
        told = f"{len(explained.partings)} of {len(explained.partings) + explained.partings_left_out}"
        time = f"{seconds:.2f} s (aim {AIM_S:g} s)"
        rows.append([name, f"{size / 1e6:.0f} MB", str(found), told, time, f"{cpu_s:.2f} s", verdict(met=met)])
    columns = ["1000 repeats x 10 actors x 2000 ticks", "on disk", "outcomes", "partings explained", "time", "of a core", ""]
    show("samepath explain", columns, rows)
    save("explain", figures)
    return good


def _explain(path: Path):  # noqa: ANN202 - a benchmark's own
    return explain_cell(StoredCell(path))


def _parts_at(repeat: int, outcomes: int) -> int:
    """When a repeat leaves the first outcome: each outcome at a tick of its own."""
    return 100 + 1800 * (repeat % outcomes) // outcomes


def _repeats(outcomes: int) -> Iterator[Repeat]:
    random = stream(1, "bench", "explain")
    ids = tuple(Actor(number, "car") for number in range(1, ACTORS + 1))
    tick = np.repeat(np.arange(1, TICKS + 1), ACTORS)
    actor = np.tile(np.arange(1, ACTORS + 1), TICKS)
    base = random.uniform(-150, 150, (TICKS * ACTORS, len(POSITION)))
    kinds: dict[int, Repeat] = {}
    for number in range(REPEATS):
        outcome = number % outcomes
        if outcome not in kinds:
            kinds[outcome] = _repeat(outcome, outcomes, ids, tick, actor, base)
        yield replace(kinds[outcome], repeat=number)
        if outcomes == REPEATS:
            kinds.clear()  # each is used once: a thousand of them would not fit


def _repeat(
    outcome: int, outcomes: int, ids: tuple[Actor, ...], tick: np.ndarray, actor: np.ndarray, base: np.ndarray
) -> Repeat:
    """A run that leaves the first one by chance: an actor first, the others a hundred ticks later each."""
    values, log = base, InputLog()
    if outcome:
        at = _parts_at(outcome, outcomes)
        since = tick - (at + 100 * (actor - 1))
        values = base.copy()
        values[:, 0] += np.where(since >= 0, 1e-9 * (1 + outcome) * GROWTH ** np.clip(since, 0, 400), 0.0)
        log.add(Input(at - 1, InputKind.DRAW, "chance", 1, (float(outcome),)))
    digests = row_digests(ids, POSITION, tick, actor, tick * STEP_S, values)
    return Repeat(0, ids, POSITION, tick, actor, tick * STEP_S, values, (), RunEnd(TICKS, "done"), digests, inputs=log)
