"""The canvas: figures as inline SVG, equal byte for byte whenever the numbers are equal.

Text stays text. It is laid out with the metrics of DejaVu Sans, which comes with matplotlib and is wider than the sans-serif
fonts of today's systems, so that what fits here fits in the reader's font too.
"""

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.report.words import clean, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

WIDTH_PX: Final = 480.0
INK, MUTED, FAINT = "#1f2933", "#5f6b7a", "#d9dee4"
ZERO_BAND: Final = "#edf1f5"
# Okabe and Ito's palette, told apart with any colour vision; yellow is too faint on white.
PALETTE: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SIGMA_COLOUR, DEVIATION_COLOUR = PALETTE[0], PALETTE[1]

_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "samepath",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 12.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelsize": 12.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "legend.frameon": False,
    "legend.fontsize": 11.5,
    "legend.handlelength": 2.0,
    "legend.labelspacing": 0.35,
    "legend.columnspacing": 1.2,
    "legend.borderpad": 0.0,
    "lines.linewidth": 1.6,
}

_TAG: Final = re.compile(r"<[^>]*>")
_LONG_NUMBER: Final = re.compile(r"\d+\.\d{3,}")
_FONT: Final = re.compile(r" font-family: [^;\"]*;?")


def draw(name: str, key: str, label: str, height_px: float, paint: Callable[["Figure"], None]) -> str:
    """Let ``paint`` fill a figure and return it as inline SVG.

    ``name`` and ``key`` (the cell) make the ids of the figure unlike those of any other on the page; ``label`` is what a
    screen reader says.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        # A glyph that DejaVu Sans lacks is still in the reader's fonts: the text is kept as text.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure = Figure(figsize=(WIDTH_PX / 72, height_px / 72), dpi=72, facecolor="none")
        paint(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), name, key, label, height_px)


def _inline(svg: str, name: str, key: str, label: str, height_px: float) -> str:
    """Make a whole SVG file fit for the middle of a page: no prolog, no style that leaks, ids of its own."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    for leak in (r"<metadata>.*?</metadata>", r"<style.*?</style>", r"<!--.*?-->"):
        body = re.sub(leak, "", body, flags=re.DOTALL)
    body = _TAG.sub(_tidy_tag, body)
    body = re.sub(r">\s+<", "><", body).replace("<defs></defs>", "")
    mark = hashlib.sha256("\x1f".join((name, key, body)).encode("utf-8", "replace")).hexdigest()[:10]
    body = re.sub(r'( id="|="#|url\(#)', rf"\g<1>{name}-{mark}-", body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX:g} {height_px:g}" role="img" '
        f"aria-label=\"{escape(clean(label))}\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', "
        f'Arial, sans-serif" stroke-linejoin="round" stroke-linecap="butt">{body}'
    )


def _tidy_tag(match: re.Match[str]) -> str:
    """Drop group ids and fonts, and round coordinates to a hundredth of a pixel."""
    tag = re.sub(r'^<g id="[^"]*"', "<g", match[0])
    tag = _FONT.sub("", tag).replace("xlink:href", "href")
    tag = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", tag)
    tag = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    return re.sub(r"\s+", " ", tag)


@dataclass(frozen=True)
class LengthAxis:
    """A logarithmic axis of lengths with a place of its own for exact zeros, which a logarithm would lose.

    Positions on it are powers of ten: 1 cm is at -2. ``zero_at`` is None where there is no zero to show; ``zero_name`` is how
    zeros are called.
    """

    low: float
    high: float
    zero_at: float | None
    zero_name: str = "0 (exact)"

    @property
    def bottom(self) -> float:
        """Where the axis begins."""
        return self.low if self.zero_at is None else 2 * self.zero_at - self.low

    def place(self, values_m: ArrayLike) -> Floats:
        """Return the positions of lengths; NaN where there is none."""
        values = np.asarray(values_m, np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            placed = np.maximum(np.log10(values), self.low)
        zero = np.nan if self.zero_at is None else self.zero_at
        return np.asarray(np.where(values == 0, zero, np.where(np.isfinite(placed), placed, np.nan)))

    def apply(self, axes: "Axes", length_px: float, *, vertical: bool) -> None:
        """Set limits, ticks that do not touch, and the band of zeros along one side of ``axes``."""
        decade_px = length_px / (self.high - self.bottom)
        room_px = 17.0 if vertical else 48.0
        step = next(step for step in (1, 2, 3, 6, 12, 30, 60, 120, 600) if step * decade_px >= max(room_px, length_px / 8))
        at = [float(power) for power in range(math.ceil(self.low), math.floor(self.high) + 1) if power % step == 0]
        if self.zero_at is not None:
            at = [self.zero_at, *(exponent for exponent in at if (exponent - self.zero_at) * decade_px >= room_px)]
            shade = axes.axhspan if vertical else axes.axvspan
            shade(self.bottom, self.low, color=ZERO_BAND, linewidth=0, zorder=0)
        (axes.set_ylim if vertical else axes.set_xlim)(self.bottom, self.high)
        axis = axes.yaxis if vertical else axes.xaxis
        axis.set_ticks(at, [self.zero_name if exponent == self.zero_at else format_length(10.0**exponent) for exponent in at])
        axis.grid(visible=True)


def length_axis(values_m: Iterable[float]) -> LengthAxis:
    """Make an axis that shows all of these lengths; what is not finite has no place."""
    values = np.array([value for value in values_m if math.isfinite(value)], np.float64)
    positive = values[values > 0]
    low, high = (-3.0, -1.0) if positive.size == 0 else (float(np.log10(positive.min())), float(np.log10(positive.max())))
    # Below 1e-300 m the labels themselves would underflow.
    low, high = max(math.floor(low - 0.05), -300), max(math.ceil(high + 0.05), -298)
    if high - low < 2:
        low -= 1
    band = 0.2 * (high - low)
    return LengthAxis(low, high, low - band / 2 if bool(np.any(values == 0)) else None)


OTHERS_COLOUR: Final = "#9aa5b1"
_DASHES: Final = ("-", (0, (6, 1.5)), (0, (4, 1.5, 1, 1.5)), (0, (1.5, 1.2)), (0, (8, 2, 2, 2)), (0, (3, 2)))
_LABEL_LENGTH: Final = 21

Dash = str | tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class ActorStyle:
    """An actor's look; ``named`` is False for the many that share one grey line of the legend."""

    index: int
    label: str
    colour: str
    dash: Dash
    named: bool


def actor_styles(cell: CellAnalysis) -> tuple[ActorStyle, ...]:
    """Return one style per actor of the spread, in its order: as many colours as can be told apart, for the widest."""
    types: dict[int, str] = {}
    for actor in cell.actors:
        types.setdefault(actor.id, actor.type)
    sigma = cell.spread.worst_axis("sigma").reshape(cell.spread.shape)
    widest = np.max(np.nan_to_num(sigma, nan=-1.0), axis=0, initial=-1.0)
    chosen = sorted(np.argsort(-widest, kind="stable")[: len(PALETTE)].tolist())
    styles = []
    for index, actor_id in enumerate(cell.spread.actor_ids.tolist()):
        # What everybody is (vehicle., walker.) tells nobody apart, and takes the room of what does.
        kind = types.get(actor_id, "").removeprefix("vehicle.").removeprefix("walker.")
        label = shorten(f"{actor_id}: {kind}", _LABEL_LENGTH)
        if index in chosen:
            place = chosen.index(index)
            styles.append(ActorStyle(index, label, PALETTE[place], _DASHES[place], named=True))
        else:
            styles.append(ActorStyle(index, label, OTHERS_COLOUR, "-", named=False))
    return tuple(styles)


def others_label(styles: tuple[ActorStyle, ...]) -> str:
    """Name the actors without a name of their own; empty if there are none."""
    others = sum(not style.named for style in styles)
    return f"{others} other actor{'' if others == 1 else 's'}" if others else ""
