"""Everything that can happen to an episode, as data, and the one function that lets it happen.

A client's call, a call that came through a node or by ticket, a tick of the wall clock, clients and nodes that go, a map that
was sent: each is a :data:`Command`, and :func:`apply` is the only way in which one has an effect. It makes no difference who
applies it. The runner does, live, and writes it to the journal; a resume reads the journal and applies the same commands again.
So what a resumed world went through cannot differ from what the first one did.

**What may go wrong.** A client's mistake is an answer to that client (``Method.words``). Everything else is raised by
:func:`apply`, ``BaseException`` included, and means that the episode is over: a world that was changed by half of a command
would go on, look well, and be wrong. Whoever applies commands must let nothing more happen to that episode.
"""

from typing import NamedTuple

from samepath.simulator.maps import RoadMap
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.rpc import Call, Caller, Sender
from samepath.simulator.server.ticking import tick


class WorldStep(NamedTuple):
    """The world ticks by itself, in real time."""

    step_s: float


class StreamUnheard(NamedTuple):
    """No client at ``home`` (the number of a node, 0: this server) listens to a stream any more."""

    stream_id: int
    home: int = 0


class CallerGone(NamedTuple):
    """A client has disconnected."""

    caller: Caller


class NodeLeft(NamedTuple):
    """A node has gone, and with it all who listened there."""

    home: int


class MapReceived(NamedTuple):
    """A client has sent a map, and it was found good: it can be loaded from now on."""

    road_map: RoadMap


class ServerResumed(NamedTuple):
    """The server died and another one goes on: all clients are gone."""


Command = Call | WorldStep | StreamUnheard | CallerGone | NodeLeft | MapReceived | ServerResumed


def apply(episode: Episode, command: Command) -> bytes:
    """Let a command happen; returns the packed answer, if it is a call. What is raised: see the top of this module."""
    if isinstance(command, Call):
        episode.connections.connect(command.caller)
        result, more = perform(episode, command)
        if more is not None:
            apply(episode, more)
        return result
    connections = episode.connections
    match command:
        case WorldStep():
            tick(episode, command.step_s)
        case StreamUnheard():
            connections.subscriptions.discard(command.stream_id, command.home)
        case CallerGone():
            for name in connections.disconnect(command.caller):
                episode.lamps.forget(name)
        case NodeLeft():
            connections.subscriptions.leave(command.home)
        case MapReceived():
            episode.context.maps.keep(command.road_map)
        case ServerResumed():
            connections.clear()
    return b""


def perform(episode: Episode, call: Call) -> tuple[bytes, MapReceived | None]:
    """Make a call: its packed answer, and the command that must be applied before that is sent, if there is one.

    Besides :func:`apply`, whoever answers a call that only reads (``Method.reads``) may do this, in any thread: to send a map
    is such a call, because reading it takes seconds, and what it changes is the command.
    """
    method, sender, log = call.method, Sender(call.caller, call.caller.home), episode.context.log
    if not method.aside:
        return method.run(episode, sender, call.arguments, log), None
    try:
        value = method.call(episode, sender, call.arguments)
        return method.result(value), value if isinstance(value, MapReceived) else None
    except Exception as error:
        return method.error(method.words(error, log)), None


def describe(command: Command | None) -> str:
    """A command in a few words, for the log."""
    if isinstance(command, Call):
        return f"the call {command.method.name} of {getattr(command.caller, 'name', 'somebody')}"
    if isinstance(command, WorldStep):
        return f"a tick of {command.step_s:g} s"
    return "nothing in particular" if command is None else type(command).__name__
