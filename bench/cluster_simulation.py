"""Whole clusters on virtual time, thousands of schedules a minute: nothing that a cluster promises may break in any of them.

``python -m bench cluster-simulation --schedules N --seed S`` plays the schedules S to S + N - 1 on all cores; what may happen
and what must hold is said in ``tests/support/cluster_world.py``. A schedule that breaks a promise is told in a line with the
command that plays it again, to the bit. Then every deliberate bug of ``bench/cluster_mutations.py`` must be found: a simulation
that does not see those proves nothing. ``--mutate NAME`` plays schedules with one of them; ``--json`` prints the counts alone.

A long run keeps what it has played (``bench/schedule_ledger.py``): killed and started again it goes on, ``--budget-s`` ends it
in good order after a time, ``--shard 2/4`` plays a quarter of it. Where the ledgers of all shards lie in one folder, the
command without ``--shard`` finds nothing left to play and writes the result of all.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.cluster_mutations import MUTATIONS, mutated
from bench.schedule_ledger import Found, Ledger, Played, Shard, rss_bytes
from bench.tools import code_measured, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError, unknown
from samepath.core.units import format_duration
from tests.support.cluster_world import run_schedule

SCHEDULES: Final = 20_000
# How many schedules a deliberate bug may stay hidden, from each of so many first seeds that lie far apart.
HIDDEN_MOST: Final = 3000
STARTS: Final = 5
_APART: Final = 1_000_000
# Figures of fewer schedules say little, and replaying one must not write over those of a whole run.
SAVED_FROM: Final = 1000
# A run of so many is kept chunk by chunk without being asked to: it takes minutes, and somebody may press Ctrl-C.
KEPT_FROM: Final = 100_000
KEPT_IN: Final = Path("runs/cluster-simulation")
LINES_MOST: Final = 10  # of schedules that broke a promise
_TELL_EVERY_S: Final = 15.0
_AHEAD: Final = 3  # chunks that wait for each process: enough that none is idle, few enough that a budget ends in time

Tell = Callable[[Played], None]


def play(mutation: str, seeds: range) -> Played:
    """Play schedules, in this process, with a deliberate bug or without (no name)."""
    start_s, events, ticks, broken = SYSTEM_CLOCK.monotonic_s(), 0, 0, []
    with mutated(mutation):
        for seed in seeds:
            outcome = run_schedule(seed)
            events += outcome.events
            ticks += outcome.ticks
            if outcome.violation is not None:
                broken.append((seed, outcome.violation))
    wall_s = SYSTEM_CLOCK.monotonic_s() - start_s
    return Played(seeds.start, len(seeds), events, ticks, tuple(broken), wall_s, _WORKER, rss_bytes())


# Which process this is: numbers of processes are used again, after a kill even at once.
_WORKER: Final = f"{os.getpid()}-{os.urandom(4).hex()}"


def schedules_until_found(mutation: str, first: int) -> Found:
    """How many schedules it takes until a deliberate bug breaks a promise, and which; None: it stays hidden."""
    with mutated(mutation):
        for count in range(1, HIDDEN_MOST + 1):
            violation = run_schedule(first + count - 1).violation
            if violation is not None:
                return Found(mutation, first, count, violation)
    return Found(mutation, first, None, "")


def main(arguments: Sequence[str] = ()) -> bool:
    """Play schedules; returns whether no promise was broken, or with ``--mutate`` whether one was."""
    options = _options(arguments)
    code = code_measured()  # what is measured is the code as it is now
    seeds = range(options.seed, options.seed + options.schedules)
    folder = options.out or (KEPT_IN if len(seeds) >= KEPT_FROM and not options.mutate else None)
    try:
        shard = Shard.read(options.shard)
        with Ledger(None if folder is None else folder / str(code["digest"])[:12], shard) as ledger:
            return _run(seeds, ledger, shard, options)
    except SamepathError as error:
        raise SystemExit(f"bench cluster-simulation: {error}") from None
    except BrokenProcessPool:
        kept = "; what was played is kept, start it again" if folder is not None else ""
        raise SystemExit(f"bench cluster-simulation: a process that plays was killed (memory?){kept}") from None
    except KeyboardInterrupt:
        kept = "; what was played is kept, started again it goes on" if folder is not None else ""
        raise SystemExit(f"bench cluster-simulation: stopped{kept}") from None


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench cluster-simulation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first one (default: %(default)s)")
    parser.add_argument("--mutate", default="", metavar="NAME", help=f"a deliberate bug: {', '.join(MUTATIONS)}")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON, and nothing else")
    parser.add_argument(
        "--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many play (default: one per core)"
    )
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="play every N-th chunk only, for several machines")
    parser.add_argument("--budget-s", type=float, metavar="S", help="end in good order after so many seconds; it goes on later")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help=f"keep what is played here (from {KEPT_FROM:,} on: {KEPT_IN})"
    )
    options = parser.parse_args(arguments)
    if options.mutate and options.mutate not in MUTATIONS:
        parser.error(str(unknown("mutation", options.mutate, list(MUTATIONS))))
    if options.schedules < 1 or options.seed < 0 or options.processes < 1:
        parser.error("at least one schedule and one process were wanted, and a seed that is not negative")
    if options.mutate and (options.out or options.shard != "1/1"):
        parser.error("--mutate plays some schedules and is over: leave --out and --shard out")
    if options.budget_s is not None and not 0.0 < options.budget_s < 1e9:
        parser.error(f"--budget-s: a number of seconds above 0 was wanted, but {options.budget_s} came")
    return options


def _run(seeds: range, ledger: Ledger, shard: Shard, options: argparse.Namespace) -> bool:
    start_s = SYSTEM_CLOCK.monotonic_s()
    end_s = None if options.budget_s is None else start_s + options.budget_s
    todo = ledger.missing(seeds, shard)
    processes = min(options.processes, max(len(todo), 1) if options.mutate or len(seeds) < SAVED_FROM else options.processes)
    with _pool(processes) as pool, _Progress(seeds, ledger, options) as progress:
        for part in _spread(pool, play, [(options.mutate, chunk) for chunk in todo], processes, end_s):
            ledger.add(part)
            progress.tell(part)
        counts = _counts(seeds, ledger)
        is_whole = not ledger.missing(seeds)
        hunts = is_whole and not options.mutate and not options.json and len(seeds) >= SAVED_FROM
        if hunts:
            wanted = [(name, start * _APART) for name in MUTATIONS for start in range(1, STARTS + 1)]
            jobs = [job for job in wanted if job not in ledger.found]
            for found in _spread(pool, schedules_until_found, jobs, processes, end_s):
                ledger.add(found)
            is_whole = all(job in ledger.found for job in wanted)
    if options.json:
        print(json.dumps(counts))
        return bool(counts["violations"]) == bool(options.mutate)
    figures = counts | _rates(ledger.of(seeds), progress.per_minute(), processes)
    _show(figures, len(seeds), ledger)
    if options.mutate:
        return bool(counts["violations"])
    if not is_whole:
        print(_what_is_left(seeds, ledger, shard))
        return not counts["violations"]
    if not hunts:
        return not counts["violations"]
    bugs = _bugs(ledger)
    _save(figures | {"mutations": bugs})
    return not counts["violations"] and not any(None in found for found in bugs.values())


# Processes.


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that play; with one this one does, and None comes."""
    if processes == 1:
        yield None
        return
    # Spawned, not forked: a child of a process with threads may inherit a lock that nobody gives back.
    pool = ProcessPoolExecutor(processes, get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _spread(
    pool: ProcessPoolExecutor | None,
    work: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    processes: int,
    end_s: float | None,
) -> Iterator[Any]:
    """Do jobs, and give what comes of each as it comes; none is begun after the end.

    Only some are handed out ahead: a million at once would wait in memory, and could not be called back in time.
    """

    def is_over() -> bool:
        return end_s is not None and SYSTEM_CLOCK.monotonic_s() >= end_s

    left = iter(jobs)
    if pool is None:
        for job in left:
            if is_over():
                return
            yield work(*job)
        return
    under_way: set[Future[Any]] = set()
    while True:
        while len(under_way) < _AHEAD * processes and not is_over() and (job := next(left, None)) is not None:
            under_way.add(pool.submit(work, *job))
        if is_over():
            under_way = {future for future in under_way if not future.cancel()}
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


class _Progress:
    """How far it is, on stderr: a line now and then, and one for each of the first schedules that broke a promise."""

    def __init__(self, seeds: range, ledger: Ledger, options: argparse.Namespace) -> None:
        self._seeds, self._options = seeds, options
        self._before = sum(part.schedules for part in ledger.of(seeds))
        self._played, self._broken = 0, 0
        self._start_s = self._told_s = self._last_s = SYSTEM_CLOCK.monotonic_s()

    def __enter__(self) -> "_Progress":
        if self._before and not self._options.json:
            self._say(f"{self._before:,} of {len(self._seeds):,} schedules were played before by this code; going on")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, part: Played) -> None:
        """Some more have been played."""
        self._last_s = SYSTEM_CLOCK.monotonic_s()
        self._played += part.schedules
        for seed, words in part.violations:
            self._broken += 1
            if self._broken <= LINES_MOST:
                mutation = f" --mutate {self._options.mutate}" if self._options.mutate else ""
                again = f"python -m bench cluster-simulation --schedules 1 --seed {seed}{mutation}"
                self._say(f"schedule {seed} of commit {code_measured()['commit']}: {words}: {again}")
        if self._last_s - self._told_s >= _TELL_EVERY_S and not self._options.json:
            self._told_s = self._last_s
            done, total = self._before + self._played, len(self._seeds)
            left_s = (self._last_s - self._start_s) * (total - done) / self._played
            self._say(
                f"{done:,} of {total:,} schedules, {self.per_minute():,.0f} a minute, "
                f"{self._broken} broke a promise, {format_duration(left_s)} left"
            )

    def per_minute(self) -> float | None:
        """Schedules a minute of this run, all processes together; None if it has played none."""
        return 60.0 * self._played / (self._last_s - self._start_s) if self._played else None

    @staticmethod
    def _say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)


# Results.


def _counts(seeds: range, ledger: Ledger) -> dict[str, object]:
    parts = ledger.of(seeds)
    broken = sorted(violation for part in parts for violation in part.violations)
    return {
        "schedules": sum(part.schedules for part in parts),
        "violations": len(broken),
        "events": sum(part.events for part in parts),
        "first_violation_seed": broken[0][0] if broken else None,
    }


def _rates(parts: Sequence[Played], per_minute: float | None, processes: int) -> dict[str, object]:
    """How fast, and whether the memory of those who played has grown: of each, after its first and its last chunk."""
    schedules, wall_s = sum(part.schedules for part in parts), sum(part.wall_s for part in parts)
    sizes: dict[str, list[int]] = {}
    played: Counter[str] = Counter()
    for part in sorted(parts, key=lambda part: part.first):
        sizes.setdefault(part.worker, []).append(part.rss_bytes)
        played[part.worker] += part.schedules
    # Those with few chunks have hardly begun: their caches still fill.
    long = {worker: found for worker, found in sizes.items() if len(found) >= 4} or sizes
    grown = max((found[-1] - found[len(found) // 4] for found in long.values()), default=0)
    return {
        "ticks": sum(part.ticks for part in parts),
        "schedules_per_minute": None if per_minute is None else round(per_minute),
        "processes": processes,
        "schedules_per_minute_and_process": round(60.0 * schedules / wall_s) if wall_s else None,
        "workers": len(sizes),
        "schedules_of_one_worker_most": max(played.values(), default=0),
        "worker_bytes_most": max((size for found in sizes.values() for size in found), default=0),
        "worker_bytes_grown_most": grown,
    }


def _show(figures: dict[str, Any], wanted: int, ledger: Ledger) -> None:
    rate = figures["schedules_per_minute"]
    each = figures["schedules_per_minute_and_process"]
    rows = [
        ["schedules", f"{figures['schedules']:,} of {wanted:,}, {figures['ticks']:,} ticks, {figures['events']:,} events"],
        ["promises broken", f"{figures['violations']}"],
        [
            "schedules a minute",
            f"{'-' if rate is None else f'{rate:,}'}, {figures['processes']} processes; one process: {each:,}",
        ],
        [
            "memory of a process",
            f"{figures['worker_bytes_most'] / 1e6:.0f} MB at most; {figures['worker_bytes_grown_most'] / 1e6:+.1f} MB "
            f"over the last three quarters of up to {figures['schedules_of_one_worker_most']:,} schedules",
        ],
    ]
    if ledger.path is not None:
        rows.append(["kept in", str(ledger.path)])
    show("Whole clusters on virtual time", ["", ""], rows)


def _what_is_left(seeds: range, ledger: Ledger, shard: Shard) -> str:
    own, left = (sum(map(len, chunks)) for chunks in (ledger.missing(seeds, shard), ledger.missing(seeds)))
    where = f" in {ledger.path.parent}" if ledger.path is not None else ""
    if own:
        return f"{own:,} schedules are left; started again it goes on"
    if left:
        return (
            f"this shard is done; {left:,} schedules of others are left. With all ledgers{where}, run it once without --shard"
        )
    return "all are played; some deliberate bugs are left to be looked for: start it again"


def _bugs(ledger: Ledger) -> dict[str, list[int | None]]:
    """After how many schedules each deliberate bug was found, from several first seeds on."""
    rows, bugs = [], {}
    for name in MUTATIONS:
        answers = [ledger.found[name, start * _APART] for start in range(1, STARTS + 1)]
        bugs[name] = [answer.schedules for answer in answers]
        counts = [count for count in bugs[name] if count is not None]
        typical, worst = (f"{median(counts):.0f}", f"{max(counts)}") if len(counts) == STARTS else ("-", "hidden")
        rows.append([name, typical, worst, verdict(met=len(counts) == STARTS), answers[0].words[:80]])
    title = f"Deliberate bugs: schedules until found, from {STARTS} first seeds"
    show(title, ["bug", "median", "most", f"within {HIDDEN_MOST}", "for example"], rows)
    return bugs


def _save(figures: dict[str, object]) -> None:
    if code_measured()["clean"]:
        save("cluster_simulation", figures)
    else:
        print("the results are not kept: figures belong to a commit, and there are changes that no commit holds")
