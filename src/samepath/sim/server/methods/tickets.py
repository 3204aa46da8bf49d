"""Calls by ticket, which are done once however often they are sent; methods of our own, not CARLA's."""

from typing import Final

from samepath.sim.server.actors import VehicleEntry
from samepath.sim.server.codec import WireError, pack, text, u32
from samepath.sim.server.episode import Episode
from samepath.sim.server.methods.table import VOID, Method, Table
from samepath.sim.server.records import VehicleControl
from samepath.sim.server.rpc import MalformedError, parse
from samepath.sim.server.tickets import Outcome, Status, Ticket, client_id, number, packed

TABLE: Final = Table()
_REQUEST_HEAD: Final = b"\x94\x00\x00"


@TABLE.value(client_id, number, text, packed)
def samepath_call(episode: Episode, client: str, number: int, name: str, arguments: bytes) -> tuple[object, ...]:
    """Call a method once; asked again, tell what came of it. ``arguments`` is packed as in a call without a ticket."""
    ledger, home, frame = episode.tickets, episode.caller.home, episode.frame

    def run() -> Outcome:
        return ledger.ranked(client, home, frame, lambda: _do(episode, name, arguments))

    return _written(ledger.do(Ticket(client, number), run))


@TABLE.value(client_id, number, quick=True)
def samepath_ticket(episode: Episode, client: str, number: int) -> tuple[object, ...]:
    """How it stands with a call; it may be asked while the world is busy with it."""
    return _written(episode.tickets.find(Ticket(client, number)))


@TABLE.value(u32)
def samepath_control(episode: Episode, actor_id: int) -> VehicleControl:
    """A vehicle's pedals as they were last set; CARLA's own client reads them from the state."""
    return episode.actors.get(actor_id, VehicleEntry, "a vehicle").control


def _written(outcome: Outcome) -> tuple[object, ...]:
    return outcome.status.value, outcome.error, outcome.result, outcome.frame


def _do(episode: Episode, name: str, arguments: bytes) -> Outcome:
    """Do it, now and in this thread, also what is otherwise answered beside the world: order counts."""
    error, result = _attempt(episode, name, arguments)
    if error is not None:
        return Outcome(Status.FAILED, error, frame=episode.frame)
    return Outcome(Status.SUCCESS, result=result, frame=episode.frame)


def _attempt(episode: Episode, name: str, arguments: bytes) -> tuple[str | None, bytes]:
    from samepath.sim.server.methods import methods

    method = methods().get(name)
    if method is None:
        return f"samepath has no method {name[:100]!r}", b""
    if name in (samepath_call.__name__, samepath_ticket.__name__):
        return f"{name} cannot be called by ticket", b""
    try:
        request = parse(_REQUEST_HEAD + pack(name) + arguments, episode.place.limits)
        if request.oversize:
            return f"{name}: {request.oversize}", b""
        checked = method.read(request.arguments) if method.handler is not None else ()
    except MalformedError as error:
        return f"{name}: its arguments are {error}", b""
    except WireError as error:
        return str(error), b""
    return method.attempt(episode, checked, episode.place.log, lambda value: _value(method, value))


def _value(method: Method, value: object) -> bytes:
    """What the handler returned, without CARLA's wrapping: whether it worked is said beside it."""
    return pack(None if method.shape == VOID else value)
