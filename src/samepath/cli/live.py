"""Live progress of a study on stderr: a bar and a line of figures on a terminal, a line now and then anywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from samepath.cli.options import stderr_console
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.units import format_length
from samepath.instrument.execution.run import Progress as StudyProgress
from samepath.instrument.study.levels import level_text

# On a terminal the display moves by itself once a second; more often would be load beside what is measured.
_REFRESH_S: Final = 1.0
_LINE_S: Final = 10.0


@contextmanager
def live_progress(total: int) -> Iterator[Callable[[StudyProgress], None]]:
    """Show where a study of ``total`` repeats stands."""
    console = stderr_console()
    with _on_terminal(console, total) if console.is_terminal else _in_lines(console) as show:
        yield show


@contextmanager
def _on_terminal(console: Console, total: int) -> Iterator[Callable[[StudyProgress], None]]:
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("running", total=total)
    words = Text("", style="dim", no_wrap=True, overflow="ellipsis")
    with Live(Group(bar, words), console=console, transient=True, refresh_per_second=1 / _REFRESH_S):

        def show(now: StudyProgress) -> None:
            bar.update(task, completed=now.total_done, description=now.stage)
            words.plain = ", ".join(parts(now))

        yield show


@contextmanager
def _in_lines(console: Console) -> Iterator[Callable[[StudyProgress], None]]:
    last_s = SYSTEM_CLOCK.monotonic_s()

    def show(now: StudyProgress) -> None:
        nonlocal last_s
        if SYSTEM_CLOCK.monotonic_s() - last_s >= _LINE_S:
            last_s = SYSTEM_CLOCK.monotonic_s()
            head = f"samepath: {now.stage}, {now.total_done} of {now.total} repeats"
            console.print(", ".join([head, *parts(now)]), soft_wrap=True, markup=False, highlight=False)

    yield show


def parts(now: StudyProgress) -> list[str]:
    """Say where a study stands: cells, the one at hand, loads, sigma so far, time left."""
    words = [f"cells {now.cells_done} of {now.cells}", f"now {now.cell.name}: {now.done} of {now.cell.repeats}"]
    for name in dict.fromkeys((*now.asked, *now.measured)):
        found = now.measured.get(name)
        shown = "?" if found is None else level_text(name, round(found, 2) if isinstance(found, float) else found)
        asked = f" (asked {level_text(name, now.asked[name])})" if name in now.asked else ""
        words.append(f"{name} {shown}{asked}")
    if len(now.at_hosts) > 1:
        words.append("; ".join(f"{host}: {cell}" for host, cell in now.at_hosts))
    if now.max_sigma_m is not None:
        words.append(f"max sigma so far {format_length(now.max_sigma_m)} (preliminary)")
    if now.failed:
        words.append(f"{now.failed} failed")
    if now.left_s is not None:
        words.append(f"about {duration(now.left_s)} left")
    return words


def duration(seconds: float) -> str:
    """Write a time for people: 40 s, 3 min, 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
