"""Where agents decide: in the frame itself, or in a thread of their own (``async-controller``, Section IV-B).

In a thread it is the operating system's scheduler that says which view a decision is made from and which frame it reaches.
"""

from collections.abc import Callable
from threading import Condition, Thread
from typing import Protocol

from samepath.sim.control.agents import View
from samepath.sim.world.records import Command

Decide = Callable[[View], dict[int, Command]]


class Decider(Protocol):
    """Runs the agents."""

    def commands(self, view: View) -> dict[int, Command]:
        """Return what holds in the frame that begins with ``view``."""

    def close(self) -> None:
        """Stop."""


class Inline:
    """Agents decide at once, in the first frame of each control period; until the next one their commands hold."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._period = -1
        self._commands: dict[int, Command] = {}

    def commands(self, view: View) -> dict[int, Command]:
        """Ask the agents if a control period has passed."""
        if view.tick > self._period:
            self._period, self._commands = view.tick, self._decide(view)
        return self._commands

    def close(self) -> None:
        """Nothing to stop."""


class Threaded:
    """Agents decide in a thread of their own, as a client beside a game engine does.

    They see the newest view when they are ready for one, and whatever they said last counts.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._changed = Condition()
        self._view: View | None = None
        self._commands: dict[int, Command] = {}
        self._error: BaseException | None = None
        self._stopped = False
        self._thread = Thread(target=self._run, name="controllers", daemon=True)
        self._thread.start()

    def commands(self, view: View) -> dict[int, Command]:
        """Publish the view and return what has arrived so far."""
        with self._changed:
            if self._error is not None:
                raise self._error
            self._view = view
            self._changed.notify()
            return self._commands

    def close(self) -> None:
        """Stop after the decision in hand."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        period = -1
        while True:
            with self._changed:
                while not self._stopped and (self._view is None or self._view.tick <= period):
                    self._changed.wait()
                view = self._view
            if self._stopped or view is None:
                return
            period = view.tick
            try:
                commands = self._decide(view)
            except Exception as error:  # told to the loop, which raises it in the caller's thread
                self._error = error
                return
            with self._changed:
                self._commands = commands
