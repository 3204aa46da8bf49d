"""The part of the page that puts variants side by side: a conclusion per simulator, figures, a row per cell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from samepath.analysis.mean_shift import MeanShift
from samepath.analysis.pace import Pace
from samepath.analysis.side_by_side import Conclusion, SideBySide, SideRow, SideVariant
from samepath.base.units import format_length
from samepath.report.cell_view import FigureView, VerdictView, view_figure, view_verdict
from samepath.report.side_figures import MAX_ROWS, SMALLEST_M, collision_strip, rows_of, shared_axis, sigma_rows
from samepath.report.words import length, sentence


@dataclass(frozen=True)
class SideRowView:
    """A cell in words; ``flips`` says how repeats disagree on what the test came to."""

    levels: str
    anchor: str
    repeats: int
    before: str
    after: str
    outcomes: str
    collided: str
    flips: str
    shift_before: str
    shift_after: str
    steps: str
    real_time: str
    verdict: VerdictView


@dataclass(frozen=True)
class SideGroup:
    """A variant on one scenario."""

    variant: str
    scenario: str
    permissible: str
    verdict: VerdictView
    rows: tuple[SideRowView, ...]


@dataclass(frozen=True)
class SideView:
    """Everything the part says."""

    conclusions: tuple[tuple[str, str, str], ...]  # simulator, what is concluded, class of its tone
    groups: tuple[SideGroup, ...]
    absent: tuple[tuple[str, str], ...]
    figures: tuple[FigureView, ...]
    note: str
    split: str
    scenarios: tuple[str, ...]


def view_side(side: SideBySide, anchors: Mapping[str, str], tolerance_m: float) -> SideView:
    """Put variants side by side in words and figures; ``anchors`` says where on the page each cell is."""
    return SideView(
        conclusions=tuple((one.simulator or "not named", sentence(one.text), tone(one, side)) for one in side.conclusions),
        groups=tuple(_group(one, anchors) for one in side.variants),
        absent=tuple((one.variant, one.reason or one.kind) for one in side.absent),
        figures=tuple(_figures(side, tolerance_m)),
        note=_note(side),
        split=_split(side),
        scenarios=side.scenarios,
    )


def tone(conclusion: Conclusion, side: SideBySide) -> str:
    """How good a conclusion is: the worst verdict of the simulator's variants; none where nothing was measured."""
    found = [one.verdict for one in side.variants if one.simulator == conclusion.simulator]
    return max(found, key=lambda one: one.rank).value if found else ""


def shift_words(shift: MeanShift | None) -> str:
    """Print a shift of the mean with its standard error: ``3.1 cm ± 1.2 cm``."""
    if shift is None:
        return ""
    if shift.error_m == 0:
        return length(shift.shift_m)
    return f"{format_length(shift.shift_m)} ± {format_length(shift.error_m)}"


def pace_words(pace: Pace | None) -> tuple[str, str]:
    """Print steps in a second, and how many times as fast as real time that is."""
    return ("", "") if pace is None else (_three(pace.steps_per_s), _three(pace.times_real_time))


def _group(variant: SideVariant, anchors: Mapping[str, str]) -> SideGroup:
    domain = variant.domain
    return SideGroup(
        variant=variant.variant or "not named",
        scenario=variant.scenario,
        permissible="nowhere" if domain.empty else domain.region(),
        verdict=view_verdict(variant.verdict),
        rows=tuple(_row(one, anchors) for one in variant.rows),
    )


def _row(row: SideRow, anchors: Mapping[str, str]) -> SideRowView:
    steps, real_time = pace_words(row.pace)
    shift = row.shift
    return SideRowView(
        levels=row.where() or row.cell,
        anchor=anchors.get(row.cell, ""),
        repeats=row.repeats,
        before=length(row.before_sigma_m),
        after="" if row.after_sigma_m is None else length(row.after_sigma_m),
        outcomes=f"{row.outcomes}",
        collided=f"{row.collided} of {row.repeats}",
        flips=sentence(row.flip_words()),
        shift_before="base" if shift is None else shift_words(shift.before),
        shift_after="" if shift is None else shift_words(shift.after),
        steps=steps,
        real_time=real_time,
        verdict=view_verdict(row.verdict),
    )


def _figures(side: SideBySide, tolerance_m: float) -> Iterator[FigureView]:
    if not side.variants:
        return
    rows, axis = rows_of(side), shared_axis(side, tolerance_m)
    split = _split(side)
    apart = any(row.after_sigma_m is not None for one in side.variants for row in one.rows)
    before = f"max sigma before the first {split}" if apart else "max sigma"
    yield view_figure(sigma_rows(rows, before, lambda row: row.before_sigma_m, axis, tolerance_m), "")
    if apart:
        yield view_figure(
            sigma_rows(rows, f"max sigma after the first {split}", lambda row: row.after_sigma_m, axis, tolerance_m), ""
        )
    if any(row.collided for one in side.variants for row in one.rows):
        yield view_figure(collision_strip(rows), "")


def _split(side: SideBySide) -> str:
    return side.variants[0].split if side.variants else "collision"


def _note(side: SideBySide) -> str:
    notes = [
        "Each row of the figures is a variant; exact zeros lie in the shaded band.",
        "A frame marks cells in which the test's verdict flips: repeats disagree on who collides or on how the run ends.",
    ]
    sizes = [size for one in side.variants for row in one.rows for size in (row.before_sigma_m, row.after_sigma_m) if size]
    if any(size < SMALLEST_M for size in sizes):
        notes.append(f"What is below {format_length(SMALLEST_M)} and not zero is drawn there.")
    if len(side.variants) > MAX_ROWS:
        notes.append(f"The first {MAX_ROWS} of {len(side.variants)} are drawn.")
    return " ".join(notes)


def _three(value: float) -> str:
    """Print three figures, never as a power of ten."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if rounded >= 100 else f"{rounded:g}"
