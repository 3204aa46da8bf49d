"""How actors are drawn: the same colour, dash and name in every figure of a cell."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from samepath.analysis.cell import CellAnalysis
from samepath.report.svg import PALETTE
from samepath.report.words import shorten

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
        label = shorten(f"{actor_id}: {types.get(actor_id, '')}", _LABEL_LENGTH)
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
