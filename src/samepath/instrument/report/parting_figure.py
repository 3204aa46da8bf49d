"""How two runs come apart: the distance of every actor over time, on a logarithmic scale, and what happened meanwhile."""

from typing import TYPE_CHECKING, Final

import numpy as np

from samepath.instrument.analysis.explain import ExplainedParting
from samepath.instrument.analysis.growth import farthest
from samepath.instrument.report.svg import INK, MUTED, OTHERS_COLOUR, PALETTE, WIDTH_PX, draw, length_axis
from samepath.instrument.report.words import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT_PX: Final = 300.0
_LEFT_PX, _RIGHT_PX, _TOP_PX, _BOTTOM_PX = 74.0, 16.0, 44.0, 52.0
# Ticks before the parting that are shown: equal runs, in the band of zeros.
_LEAD_TICKS: Final = 5


def parting_figure(explained: ExplainedParting, cell: str, step_s: float) -> str:
    """Draw one parting as inline SVG."""
    parting, growth = explained.parting, explained.growth
    ticks, most_m = farthest(parting)
    named = [one.actor for one in parting.followers[: len(PALETTE)]]
    lead = np.arange(max(0, parting.tick - _LEAD_TICKS), parting.tick)
    axis = length_axis([0.0, *most_m.tolist()])

    def paint(figure: "Figure") -> None:
        width, height = WIDTH_PX - _LEFT_PX - _RIGHT_PX, _HEIGHT_PX - _TOP_PX - _BOTTOM_PX
        axes = figure.add_axes((_LEFT_PX / WIDTH_PX, _BOTTOM_PX / _HEIGHT_PX, width / WIDTH_PX, height / _HEIGHT_PX))
        axis.apply(axes, height, vertical=True)
        for one in parting.series:
            since = one.ticks >= lead[0] if len(lead) else one.ticks >= parting.tick
            place = named.index(one.actor) if one.actor in named else None
            colour = OTHERS_COLOUR if place is None else PALETTE[place]
            label = f"actor {one.actor}" if place is not None else None
            axes.plot(one.ticks[since] * step_s, axis.place(one.distance_m[since]), color=colour, label=label)
        axes.axvline(parting.tick * step_s, color=INK, linewidth=1.0, linestyle=(0, (2, 2)))
        note = f"part: {explained.cause.cause.value}"
        axes.annotate(note, (parting.tick * step_s, axis.high), (4, 4), textcoords="offset points", color=INK)
        if growth.jump_tick is not None and growth.jump_tick != parting.tick:
            at_s = growth.jump_tick * step_s
            axes.axvline(at_s, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)))
            words = shorten(growth.event.split(" at tick")[0] or "jump", 28)
            axes.annotate(words, (at_s, axis.high), (4, -12), textcoords="offset points", color=MUTED)
        last_tick = int(ticks[-1]) if len(ticks) else parting.tick
        low_s = (lead[0] if len(lead) else parting.tick) * step_s
        axes.set_xlim(low_s, max(last_tick * step_s, low_s + step_s))
        axes.locator_params(axis="x", nbins=7)
        axes.set_xlabel("simulated time (s); upwards the distance between the two runs")
        if named and parting.series:
            axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.06), ncols=min(5, len(named)))

    label = f"Distance of repeats {parting.a} and {parting.b} of cell {cell} over time"
    return draw("parting", f"{cell} {parting.a} {parting.b}", label, _HEIGHT_PX, paint)
