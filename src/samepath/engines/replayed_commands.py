"""Commands of our scenarios' drivers, as the instrument keeps them (:class:`CommandLog`) and as they are replayed by time."""

from typing import TYPE_CHECKING, Final

from samepath.core.errors import InputError
from samepath.engines.interface import CommandLog

if TYPE_CHECKING:
    from samepath.scenarios.agents import DecisionRecorder, Decisions

# An interval of logged ticks that no run reaches: where only the commands are wanted, no state is kept.
NEVER: Final = 1 << 62


def log_of(decisions: "DecisionRecorder") -> CommandLog:
    """Return what was decided as the instrument keeps it: the same columns under other names."""
    from samepath.scenarios.agents import CHANNELS

    found = decisions.decisions
    return CommandLog(CHANNELS, tuple(found.time_s), tuple(found.actors), tuple(tuple(values) for values in found.values))


def decisions_of(log: CommandLog | None) -> "Decisions | None":
    """Return a log as it is replayed; one of another simulator is refused by its channels."""
    from samepath.scenarios.agents import CHANNELS, Decisions

    if log is None:
        return None
    if tuple(log.channels) != CHANNELS:
        came = ", ".join(log.channels) or "none"
        raise InputError(f"commands: the channels {', '.join(CHANNELS)} were wanted, but {came} came: record them again")
    return Decisions(log.time_s, log.actors, log.values)
