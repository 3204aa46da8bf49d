"""Faults on purpose: which node is killed, frozen, drained or added before which tick. Drawn from a named stream."""

from dataclasses import dataclass
from typing import Final, Literal

from samepath.base.streams import stream

Kind = Literal["kill", "freeze", "add", "drain"]
_KINDS: Final[tuple[Kind, ...]] = ("kill", "kill", "freeze", "add", "drain")


@dataclass(frozen=True)
class Fault:
    """Something that happens ``after_s`` after the command to tick; ``pick`` chooses the node among those there are."""

    tick: int
    kind: Kind
    after_s: float
    pick: float

    def __str__(self) -> str:
        return f"{self.kind} at tick {self.tick}"


def schedule(seed: int, ticks: int, count: int, tick_s: float = 0.02) -> tuple[Fault, ...]:
    """Faults at random, by tick; they fall anywhere within a tick of about ``tick_s``."""
    chance = stream(seed, "faults")
    made = [
        Fault(
            int(chance.integers(2, max(ticks - 5, 3))),
            _KINDS[int(chance.integers(0, len(_KINDS)))],
            float(chance.uniform(0.0, tick_s)),
            float(chance.uniform()),
        )
        for _ in range(count)
    ]
    return tuple(sorted(made, key=lambda one: (one.tick, one.after_s)))
