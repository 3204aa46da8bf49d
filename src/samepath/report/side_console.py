"""Variants side by side on the terminal: a conclusion per simulator, and a row per variant and scenario."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from samepath.analysis.side_by_side import SideBySide, SideRow, SideVariant, level_list
from samepath.base.units import format_length
from samepath.report.side_view import pace_words, tone

_ENDLESS: Final = 10_000
# A row has the figures of so many cells beside each other, else the worst of them.
_MOST_LEVELS: Final = 4
_NONE: Final = "-"


def print_side(console: Console, side: SideBySide, styles: dict[str, str]) -> None:
    """Print what is concluded of each simulator, then the figures of every variant."""
    console.print()
    console.print(Text("Side by side", style="bold"))
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for one in side.conclusions:
        lines.add_row(Text(f"  {one.simulator or 'not named'}", style=styles.get(tone(one, side), "dim")), Text(f"{one.text}."))
    console.print(lines)
    if side.variants:
        console.print()
        every = _table(side, each=True)
        # A table that is too wide would be pressed until names and figures are gone.
        fits = console.measure(every, options=console.options.update(width=_ENDLESS)).maximum <= console.width
        console.print(every if fits else _table(side, each=False))


def _table(side: SideBySide, *, each: bool) -> Table:
    """One row per variant and scenario: the figures of its cells beside each other, if all have the same few, or the worst."""
    levels = {tuple(level_list(one.rows)) for one in side.variants}
    each = each and len(levels) == 1 and all(len(one.rows) <= _MOST_LEVELS for one in side.variants)
    several = any(len(side.names(one)) > 1 for one in side.variants)
    split = side.variants[0].split
    title = f"Max sigma before and after the first {split}, outcomes, repeats that collide"
    if each and any(next(iter(levels))):
        title += f", at {' / '.join(next(iter(levels)))}"
    elif any(len(one.rows) > 1 for one in side.variants):
        title += "; the worst of each variant's cells"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for name in ("variant", *(("scenario",) if several else ())):
        table.add_column(name, overflow="fold")
    for name in ("before", "after", "outcomes", "collide", "steps/s"):
        table.add_column(name, justify="right", no_wrap=True)
    last = None
    for one in side.variants:
        table.add_row(
            Text(one.variant if one.variant != last else ""),
            *((Text(one.scenario),) if several else ()),
            *(_cells(one) if each else _worst(one)),
        )
        last = one.variant
    return table


def _cells(variant: SideVariant) -> Sequence[str]:
    def every(words: Callable[[SideRow], str]) -> str:
        return " / ".join(words(row) for row in variant.rows)

    return (
        every(lambda row: _length(row.before_sigma_m)),
        every(lambda row: _length(row.after_sigma_m)),
        every(lambda row: str(row.outcomes)),
        f"{every(lambda row: str(row.collided))} of {variant.rows[0].repeats}",
        every(lambda row: pace_words(row.pace)[0] or _NONE),
    )


def _worst(variant: SideVariant) -> Sequence[str]:
    hit = [row.collided for row in variant.rows]
    paces = [row.pace for row in variant.rows if row.pace is not None]
    slowest = min(paces, key=lambda one: one.steps_per_s, default=None)
    return (
        _length(variant.before_sigma_m),
        _length(variant.after_sigma_m),
        str(max(row.outcomes for row in variant.rows)),
        f"{_span(hit)} of {_span([row.repeats for row in variant.rows])}",
        pace_words(slowest)[0] or _NONE,
    )


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _length(value_m: float | None) -> str:
    return _NONE if value_m is None else format_length(value_m)
