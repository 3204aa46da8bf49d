"""What went into a run: everything that decides it beside scenario, settings and code, in the order in which it went in.

A deterministic simulator is a function of these. So two runs part either after an input that differed, and that input is the
cause, or after none, and then the simulator itself is. The same list is what a replay needs: fed back, it gives the run again
without whoever gave it first (the wall clock, a controller in a thread, the operating system's entropy).

An entry stands at the step of the simulator before which it went in, counted from 0. Within a step, entries are in causal
order: how long the step is, then orders, chance, commands.

* ``step``: ``values`` is the length of the step in seconds. Left out where every step is the fixed one.
* ``order``: in which order something was taken up (``name``: actors, meshes, contacts); ``text`` is that order.
* ``draw``: chance from the stream ``name``; ``values`` is what it gave.
* ``command``: what holds for ``actor`` from this step on, in the words of ``name`` (channels, separated by blanks). Only
  changes are listed. ``decided_step`` is the step whose beginning the controller saw: a lower one came late. Where steps are
  of one length, a command is also listed when its age (``step - decided_step``) changes: what holds on with the same age was
  decided anew, with the same result. ``ASKED`` is no command: ``values`` is the time that controllers were told when they
  were asked, where a clock says when that is; ``text`` is how long that frame was, exactly (``float.hex``).
* ``push``: a force or a change of state from outside, that is no command. ``text`` says where it came from; ``RACED``: a sum
  whose terms were added in the order in which threads finished.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from samepath.core.digests import first_link, link
from samepath.core.errors import InputError

ASKED: Final = "asked_s"
RACED: Final = "added as threads finished"


class InputKind(StrEnum):
    """In causal order: of two entries of one step, the one whose kind comes first acted first."""

    STEP = "step"
    ORDER = "order"
    DRAW = "draw"
    COMMAND = "command"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that went in before step ``step``."""

    step: int
    kind: InputKind
    name: str = ""
    actor: int | None = None
    values: tuple[float, ...] = ()
    text: str = ""
    decided_step: int | None = None

    def __post_init__(self) -> None:
        if self.step < 0 or (self.decided_step is not None and not 0 <= self.decided_step <= self.step):
            raise InputError(
                f"an input at step {self.step}, decided at {self.decided_step}: steps count from 0, and nobody sees ahead"
            )
        if any(math.isinf(value) for value in self.values):
            raise InputError(f"an input of finite numbers was wanted at step {self.step}, but {self.values} came")

    def to_bytes(self) -> bytes:
        """Return its exact content, for digests: -0.0 and 0.0 are different inputs."""
        words = (self.step, self.kind, self.name, self.actor, self.text, self.decided_step)
        return "\x1f".join(str(word) for word in words).encode() + b"\x1f" + struct.pack(f"<{len(self.values)}d", *self.values)


@dataclass
class InputLog:
    """The inputs of one run; entries are added in the order of their steps.

    ``covers``: the kinds of which every single one was taken down. Of any other, nothing in the log means nothing: it may have
    gone in unseen. Our own world covers them all; an adapter of a foreign engine says what it can see. ``step_s`` is how long
    a step is of which no entry says how long; None: a tick of the trace.
    """

    entries: list[Input] = field(default_factory=list)
    covers: frozenset[InputKind] = frozenset(InputKind)
    step_s: float | None = None

    def add(self, entry: Input) -> None:
        """Take down an entry; steps never go back."""
        if self.entries and entry.step < self.entries[-1].step:
            raise InputError(f"an input of step {entry.step} came after one of step {self.entries[-1].step}")
        self.entries.append(entry)

    def __iter__(self) -> Iterator[Input]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def digest(self) -> str:
        """Name of everything that went in; 32 hex digits."""
        return chained(self.entries)


def chained(entries: Iterable[Input]) -> str:
    """Name a sequence of inputs by its exact bits."""
    chain = first_link("inputs")
    for entry in entries:
        chain = link(chain, entry.to_bytes())
    return chain.hex()
