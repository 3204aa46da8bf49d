"""Whole clusters on virtual time, thousands of schedules a minute: nothing that a cluster promises may break in any of them.

``python -m bench cluster-simulation --schedules N --seed S`` plays the schedules S to S + N - 1 on all cores; what may happen
and what must hold is said in ``tests/support/cluster_world.py``. A schedule that breaks a promise is told in a line with the
command that plays it again, to the bit. Then every deliberate bug of ``bench/cluster_mutations.py`` must be found: a simulation
that does not see those proves nothing. ``--mutate NAME`` plays schedules with one of them; ``--json`` prints the counts alone.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import NamedTuple

from rich.progress import Progress

from bench.cluster_mutations import MUTATIONS, mutated
from bench.tools import code_measured, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import unknown
from tests.support.cluster_world import run_schedule

SCHEDULES = 20_000
# What a process is given at a time: half a second of work.
CHUNK = 50
# How many schedules a deliberate bug may stay hidden, from each of so many first seeds that lie far apart.
HIDDEN_MOST = 3000
STARTS = 5
_APART = 1_000_000
# Figures of fewer schedules say little, and replaying one must not write over those of a whole run.
SAVED_FROM = 1000
LINES_MOST = 10  # of schedules that broke a promise


class Played(NamedTuple):
    """What came of some schedules; ``violations`` are seeds and what was broken."""

    schedules: int
    events: int
    ticks: int
    violations: tuple[tuple[int, str], ...]


def play(mutation: str, seeds: range) -> Played:
    """Play schedules, in this process, with a deliberate bug or without (no name)."""
    with mutated(mutation):
        outcomes = [run_schedule(seed) for seed in seeds]
    broken = tuple((outcome.seed, outcome.violation) for outcome in outcomes if outcome.violation is not None)
    return Played(
        len(outcomes), sum(outcome.events for outcome in outcomes), sum(outcome.ticks for outcome in outcomes), broken
    )


def schedules_until_found(mutation: str, first: int) -> tuple[int | None, str]:
    """How many schedules it takes until a deliberate bug breaks a promise, and which; None: it stays hidden."""
    with mutated(mutation):
        for count in range(1, HIDDEN_MOST + 1):
            violation = run_schedule(first + count - 1).violation
            if violation is not None:
                return count, violation
    return None, ""


def main(arguments: Sequence[str] = ()) -> bool:
    """Play schedules; returns whether no promise was broken, or with ``--mutate`` whether one was."""
    parser = argparse.ArgumentParser(prog="python -m bench cluster-simulation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first one (default: %(default)s)")
    parser.add_argument("--mutate", default="", metavar="NAME", help=f"a deliberate bug: {', '.join(MUTATIONS)}")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON, and nothing else")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many play (default: one per core)")
    options = parser.parse_args(arguments)
    if options.mutate and options.mutate not in MUTATIONS:
        parser.error(str(unknown("mutation", options.mutate, list(MUTATIONS))))
    if options.schedules < 1 or options.seed < 0 or options.processes < 1:
        parser.error("at least one schedule and one process were wanted, and a seed that is not negative")
    code_measured()  # what is measured is the code as it is now
    seeds = range(options.seed, options.seed + options.schedules)
    processes = min(options.processes, -(-len(seeds) // CHUNK))
    # Spawned, not forked: a child of a process with threads may inherit a lock that nobody gives back.
    with ProcessPoolExecutor(processes, get_context("spawn")) if processes > 1 else nullcontext() as pool:
        start_s = SYSTEM_CLOCK.monotonic_s()
        played = _played(pool, seeds, options)
        wall_s = SYSTEM_CLOCK.monotonic_s() - start_s
        violations = sorted(broken for part in played for broken in part.violations)
        counts: dict[str, object] = {
            "schedules": len(seeds),
            "violations": len(violations),
            "events": sum(part.events for part in played),
            "first_violation_seed": violations[0][0] if violations else None,
        }
        if options.json:
            print(json.dumps(counts))
            return bool(violations) == bool(options.mutate)
        ticks, per_minute = sum(part.ticks for part in played), len(seeds) / wall_s * 60.0
        rows = [
            ["schedules", f"{len(seeds):,}, {ticks:,} ticks, {counts['events']:,} events"],
            ["promises broken", f"{len(violations)}"],
            ["schedules a minute", f"{per_minute:,.0f}, {processes} processes"],
        ]
        show("Whole clusters on virtual time", ["", ""], rows)
        if options.mutate:
            return bool(violations)
        found = _hunt(pool) if pool is not None and len(seeds) >= SAVED_FROM else {}
    if found:
        _save({**counts, "ticks": ticks, "schedules_per_minute": round(per_minute), "mutations": found})
    return not violations and not any(None in counts for counts in found.values())


def _played(pool: ProcessPoolExecutor | None, seeds: range, options: argparse.Namespace) -> list[Played]:
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    work = partial(play, options.mutate)
    played, told = [], 0
    with Progress(disable=options.json, transient=True) as progress:
        task = progress.add_task("schedules", total=len(seeds))
        for part in pool.map(work, chunks) if pool is not None else map(work, chunks):
            played.append(part)
            progress.advance(task, part.schedules)
            for seed, words in part.violations[: max(0, LINES_MOST - told)]:
                told += 1
                mutation = f" --mutate {options.mutate}" if options.mutate else ""
                again = f"python -m bench cluster-simulation --schedules 1 --seed {seed}{mutation}"
                print(f"schedule {seed} of commit {code_measured()['commit']}: {words}: {again}", file=sys.stderr)
    return played


def _hunt(pool: ProcessPoolExecutor) -> dict[str, list[int | None]]:
    """Look for every deliberate bug from several first seeds on; after how many schedules each was found."""
    jobs = {
        name: [pool.submit(schedules_until_found, name, start * _APART) for start in range(1, STARTS + 1)] for name in MUTATIONS
    }
    rows, found = [], {}
    for name, asked in jobs.items():
        answers = [job.result() for job in asked]
        found[name] = [count for count, _ in answers]
        counts = [count for count in found[name] if count is not None]
        typical, worst = (f"{median(counts):.0f}", f"{max(counts)}") if len(counts) == STARTS else ("-", "hidden")
        rows.append([name, typical, worst, verdict(met=len(counts) == STARTS), answers[0][1][:80]])
    title = f"Deliberate bugs: schedules until found, from {STARTS} first seeds"
    show(title, ["bug", "median", "most", f"within {HIDDEN_MOST}", "for example"], rows)
    return found


def _save(figures: dict[str, object]) -> None:
    if code_measured()["clean"]:
        save("cluster_simulation", figures)
    else:
        print("the results are not kept: figures belong to a commit, and there are changes that no commit holds")
