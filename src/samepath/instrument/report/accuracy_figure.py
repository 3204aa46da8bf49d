"""Accuracy in one figure: how far the mean path is from the reference, and how far repeats stray from it."""

from typing import TYPE_CHECKING, Final

import numpy as np

from samepath.instrument.analysis.accuracy import Accuracy
from samepath.instrument.report.svg import DEVIATION_COLOUR, MUTED, SIGMA_COLOUR, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT_PX: Final = 250.0


def accuracy_figure(accuracy: Accuracy, name: str) -> tuple[str, str]:
    """Draw bias and spread of the actor that is farthest from the reference; return the drawing and its caption."""
    actor = max(accuracy.actors, key=lambda one: one.bias_max_m)

    def paint(figure: "Figure") -> None:
        axes = figure.add_axes((0.15, 0.2, 0.82, 0.76))
        low = np.maximum(actor.bias_m - actor.spread_m, 0.0)
        axes.fill_between(actor.time_s, low, actor.bias_m + actor.spread_m, color=MUTED, alpha=0.35, linewidth=0)
        axes.plot(actor.time_s, actor.bias_m, color=DEVIATION_COLOUR, linewidth=1.4, label="bias")
        axes.plot(actor.time_s, actor.spread_m, color=SIGMA_COLOUR, linewidth=1.2, label="spread")
        axes.legend(loc="upper left")
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("simulated time (s)")
        axes.set_ylabel("metres")
        axes.grid(visible=True)

    words = f"Against {accuracy.reference}: how far the mean path of actor {actor.actor} is off (bias), how far repeats stray."
    return draw("accuracy", name, f"Bias and spread of actor {actor.actor} in {name}", _HEIGHT_PX, paint), words
