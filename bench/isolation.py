"""What it costs to keep repeats apart: the same runs inline, in batches, in fresh processes and in new interpreters."""

import sys
from collections.abc import Iterator

from bench.tools import save, show
from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.execution.hosts import LocalHost, RepeatFinished, Work
from samepath.instrument.execution.job import Job
from samepath.instrument.study.records import Isolation

REPEATS = {Isolation.INLINE: 60, Isolation.BATCH: 60, Isolation.PROCESS: 60, Isolation.COLD: 12}
RUNS = (("control-exact", "crossing"), ("samepath", "table1-test1"))


def main() -> bool:
    """Measure; there is no aim but «milliseconds for a fresh process»."""
    rows, figures = [], {}
    with LocalHost() as runner:
        for simulator, scenario in RUNS:
            for isolation, repeats in REPEATS.items():
                job = Job(simulator, scenario, path=tuple(sys.path))
                shared = isolation in (Isolation.INLINE, Isolation.BATCH)
                work = Work(job, isolation, repeats_per_process=repeats if shared else 1)
                list(runner.run(work, [0]))  # starts the fork server, fills the caches of this process
                each_s = sorted(_each(runner, work, repeats))  # the fastest is the one least disturbed by other work
                digests = {event.repeat.digest for event in runner.run(work, [0, 1]) if isinstance(event, RepeatFinished)}
                best_s, middle_s = each_s[0], each_s[len(each_s) // 2]
                name = f"{simulator} {scenario} {isolation.value}"
                figures[name] = {"best_s": best_s, "median_s": middle_s, "outcomes": len(digests)}
                times = [f"{1e3 * took_s:.1f} ms" for took_s in (best_s, middle_s)]
                rows.append([simulator, scenario, isolation.value, *times, str(len(digests))])
    show("a repeat, from asking to having it", ["simulator", "scenario", "isolation", "best", "median", "outcomes"], rows)
    save("isolation", figures)
    return all(row[-1] == "1" for row in rows)


def _each(runner: LocalHost, work: Work, repeats: int) -> Iterator[float]:
    since_s = SYSTEM_CLOCK.monotonic_s()
    for outcome in runner.run(work, range(repeats)):
        if not isinstance(outcome, RepeatFinished):
            raise SystemExit(outcome.reason)
        now_s = SYSTEM_CLOCK.monotonic_s()
        yield now_s - since_s
        since_s = now_s
