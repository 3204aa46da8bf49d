"""What a person sees while the instrument works: bars on a terminal or in a notebook, a line now and then elsewhere.

Whoever runs something long is given a :class:`Display`: a silent one, or one that writes to stderr, because stdout belongs to
results. The display moves at most once a second: drawing more often would be load on the very machine that is being measured.
"""

import html
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.units import format_duration, format_length
from samepath.instrument.study.levels import level_text

if TYPE_CHECKING:  # verbs that show a bar need not load what runs studies
    from samepath.instrument.execution.run import StudyProgress

_REFRESH_S: Final = 1.0
_LINE_S: Final = 10.0

Advance = Callable[[str, int | None], None]
"""Says what was done last, and how much in all; None means one step more."""
ShowStudy = Callable[["StudyProgress"], None]


class Display:
    """Shows nothing, but hands a study's progress to ``on_progress`` if there is one."""

    def __init__(self, on_progress: ShowStudy | None = None) -> None:
        self._on_progress = on_progress

    def say(self, line: str) -> None:
        """Tell the user something that is no result."""

    @contextmanager
    def steps(self, what: str, total: int) -> Iterator[Advance]:
        """Show a bar of ``total`` steps."""
        yield lambda description, completed: None

    @contextmanager
    def study(self, total: int) -> Iterator[ShowStudy]:
        """Show where a study of ``total`` repeats stands."""
        yield self._on_progress or (lambda now: None)


class StderrDisplay(Display):
    """Shows everything on stderr, or below the cell of a notebook."""

    def __init__(self) -> None:
        super().__init__()
        self._line = _NotebookLine()  # one for all stages: each of its own would leave an output in the notebook that is saved

    def say(self, line: str) -> None:
        sys.stderr.write(f"samepath: {line}\n")  # plain: names in it may look like rich's markup

    @contextmanager
    def steps(self, what: str, total: int) -> Iterator[Advance]:
        notebook = stderr_console().is_jupyter and total > 1
        with self._line.steps(what, total) if notebook else progress_bar(what, total) as advance:
            yield advance

    @contextmanager
    def study(self, total: int) -> Iterator[ShowStudy]:
        console = stderr_console()
        elsewhere = _moving(console, total) if console.is_terminal else _in_lines(console)
        with self._line.study(total) if console.is_jupyter else elsewhere as show:
            yield show


def display_for(progress: bool | ShowStudy) -> Display:
    """Return what the ``progress`` argument of the library's functions asks for."""
    if callable(progress):
        return Display(progress)
    return StderrDisplay() if progress else Display()


def stderr_console() -> Console:
    """Return the console for everything that is not the result."""
    return Console(stderr=True)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Advance]:
    """Show a bar on stderr where that is a terminal and there is more than one step."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = stderr_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal or total < 2) as bar:
        task = bar.add_task(what, total=total)

        def advance(description: str, completed: int | None = None) -> None:
            bar.update(task, description=f"{what} {description}", advance=1 if completed is None else None, completed=completed)

        yield advance


class _NotebookLine:
    """A bar and a line below the cell of a notebook, drawn again in place.

    By IPython's own display handle, which every notebook has, and not by rich, which needs ipywidgets to draw again: without
    them it appends, and a night's study left thousands of lines. What was drawn last stays in the notebook that is saved.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn_s = float("-inf")
        self._waiting: dict[str, str] | None = None

    @contextmanager
    def steps(self, what: str, total: int) -> Iterator[Advance]:
        done = 0

        def advance(description: str, completed: int | None = None) -> None:
            nonlocal done
            done = done + 1 if completed is None else completed
            self._show(f"{what} {description}, {done} of {total}", done, total)

        try:
            yield advance
        finally:
            self._draw()

    @contextmanager
    def study(self, total: int) -> Iterator[ShowStudy]:
        try:
            yield lambda now: self._show(", ".join([study_head(now), *parts(now)]), now.total_done, total)
        finally:
            self._draw()  # the last word, which may have come within a second of the one before

    def _show(self, words: str, done: int, total: int) -> None:
        line = f"samepath: {words}"
        bar = f'<progress value="{done}" max="{total}"></progress> {html.escape(line)}'
        self._waiting = {"text/plain": line, "text/html": bar}
        now_s = SYSTEM_CLOCK.monotonic_s()
        if now_s - self._drawn_s >= _REFRESH_S:
            self._drawn_s = now_s
            self._draw()

    def _draw(self) -> None:
        if self._waiting is None:
            return
        if self._handle is None:
            self._handle = import_module("IPython.display").display(self._waiting, raw=True, display_id=True)
        else:
            self._handle.update(self._waiting, raw=True)
        self._waiting = None


@contextmanager
def _moving(console: Console, total: int) -> Iterator[ShowStudy]:
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("running", total=total)
    words = Text("", style="dim", no_wrap=True, overflow="ellipsis")
    with Live(Group(bar, words), console=console, transient=True, refresh_per_second=1 / _REFRESH_S):

        def show(now: "StudyProgress") -> None:
            bar.update(task, completed=now.total_done, description=now.stage)
            words.plain = ", ".join(parts(now))

        yield show


@contextmanager
def _in_lines(console: Console) -> Iterator[ShowStudy]:
    last_s = SYSTEM_CLOCK.monotonic_s()

    def show(now: "StudyProgress") -> None:
        nonlocal last_s
        if SYSTEM_CLOCK.monotonic_s() - last_s >= _LINE_S:
            last_s = SYSTEM_CLOCK.monotonic_s()
            words = ", ".join([study_head(now), *parts(now)])
            console.print(f"samepath: {words}", soft_wrap=True, markup=False, highlight=False)

    yield show


def study_head(now: "StudyProgress") -> str:
    return f"{now.stage}, {now.total_done} of {now.total} repeats"


def parts(now: "StudyProgress") -> list[str]:
    """Say where a study stands: cells, the one at hand, loads, sigma so far, time left. What is not known is not said."""
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
    if now.wanted:
        words.append(now.wanted)
    if now.failed:
        words.append(f"{now.failed} failed")
    if now.left_s is not None:
        words.append(f"about {format_duration(now.left_s)} left")
    return words
