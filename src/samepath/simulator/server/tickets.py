"""The outcomes of calls made by ticket: what was done once is never done again, however often it is asked for.

Clients number their calls without gaps. So a call whose predecessor has not come is refused rather than made out of order, and
a client that this world does not know cannot go on in the middle. Results are kept for a while; of older ones only the number
remains: a retry of one is refused by name, never made a second time.

Clients come and go, so their numbers cannot be kept for ever either: the client that has not called for longest is forgotten
when one too many comes. Its next call must not be taken for the first call of a new client, so a trace of it stays
(:class:`_Forgotten`), for ever and in little space. Who is forgotten follows from the order of calls alone, so that a world
that is played again from its journal forgets the same ones; whether somebody is connected is no part of that order.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from samepath.core.errors import InputError
from samepath.simulator.carla.codec import CallError, WireError, array_of, long_text, struct_of, u64
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.tickets import CallOutcome, Status, TicketId, client_id, number, packed, status


class _Known(NamedTuple):
    """A client: the oldest number whose outcome is kept, and the last that was done."""

    oldest: int
    last: int


_UNKNOWN: Final = CallOutcome(Status.UNKNOWN)
_PENDING: Final = CallOutcome(Status.PENDING)
_NOBODY: Final = _Known(1, 0)


class _Forgotten:
    """Which clients were forgotten, as a Bloom filter: each must be told from a new one for as long as the world lives.

    It never misses one that was added, so nothing is ever done twice. It may take a new client for one of them, who is then
    refused, and let in under another id: one in 250,000 after a million clients were forgotten, one in 2,300 after two
    millions, one in 18 after five. Its 4 MiB are taken, and are part of snapshots, from the first forgotten client on.
    """

    BITS: Final = 1 << 25
    _HASHES: Final = 8

    def __init__(self, content: bytes = b"") -> None:
        self._bits = bytearray(content)

    def __contains__(self, client: str) -> bool:
        return bool(self._bits) and all(self._bits[place >> 3] & (1 << (place & 7)) for place in self._places(client))

    def add(self, client: str) -> None:
        if not self._bits:
            self._bits = bytearray(self.BITS >> 3)
        for place in self._places(client):
            self._bits[place >> 3] |= 1 << (place & 7)

    def content(self) -> bytes:
        return bytes(self._bits)

    def _places(self, client: str) -> Iterator[int]:
        """Where a client leaves its trace. Ids are chosen by clients and need not be random: a digest spreads them."""
        digest = hashlib.blake2b(client.encode(), digest_size=4 * self._HASHES).digest()
        return (int.from_bytes(digest[at : at + 4], "little") % self.BITS for at in range(0, len(digest), 4))


class TicketStore:
    """Outcomes by ticket, in the order in which they came about.

    One thread writes; :meth:`find` may be asked from another.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._clients: OrderedDict[str, _Known] = OrderedDict()  # who has not called for longest first
        self._forgotten = _Forgotten()
        self._outcomes: dict[TicketId, CallOutcome] = {}
        self._size_bytes = 0
        self._highest: dict[str, int] = {}  # node through which a client has called since the last tick
        self._highest_frame = 0

    def __len__(self) -> int:
        return len(self._outcomes)

    def find(self, ticket: TicketId) -> CallOutcome:
        """What is known of a call; one whose outcome is not kept any more is refused by name."""
        known = self._clients.get(ticket.client, _NOBODY)
        self._check_remembered(ticket, known)
        if ticket.number > known.last:
            return _UNKNOWN
        found = self._outcomes.get(ticket)
        if found is None:
            raise CallError(f"{ticket} is too old to be asked about: it was done, but its result is no longer kept")
        if found.status is Status.UNKNOWN:
            raise CallError(f"{ticket} was being done when this world was saved: what came of it is not known")
        return found

    def do(self, ticket: TicketId, run: Callable[[], CallOutcome]) -> CallOutcome:
        """Do a call, or tell what came of it when it was done."""
        known = self._clients.get(ticket.client, _NOBODY)
        if known is not _NOBODY:
            self._clients.move_to_end(ticket.client)  # in one piece: another thread may be asking for it
        if ticket.number <= known.last:
            return self.find(ticket)
        self._check_next(ticket, known)
        while known is _NOBODY and len(self._clients) >= self._limits.ticket_clients:
            self._forget_client()
        self._keep(ticket, _PENDING)
        self._clients[ticket.client] = known._replace(last=ticket.number)
        outcome = run()
        self._keep(ticket, outcome)
        self._forget(ticket.client)
        return outcome

    def rank(self, client: str, home: int, frame: int) -> int:
        """The rank of a client's call: the highest node through which it has called since the last tick.

        Who moves to another node between two commands of one tick must not be overruled by its own former ones.
        """
        if frame != self._highest_frame:
            self._highest_frame = frame
            self._highest.clear()
        rank = self._highest[client] = max(home, self._highest.get(client, 0))
        return rank

    def _check_next(self, ticket: TicketId, known: _Known) -> None:
        self._check_remembered(ticket, known)
        if ticket.number > known.last + 1:
            if not known.last:
                raise CallError(f"{ticket} came, but none of its earlier ones is known: this is another world, connect anew")
            raise CallError(f"{ticket} came before ticket {known.last + 1}: calls are done in their order, so connect anew")

    def _check_remembered(self, ticket: TicketId, known: _Known) -> None:
        if known is _NOBODY and ticket.client in self._forgotten:
            raise CallError(
                f"{ticket} cannot be told from one that was done: its client had not called while "
                f"{self._limits.ticket_clients} others did, and was forgotten; connect anew, under another id"
            )

    def _forget_client(self) -> None:
        """Make room for a client."""
        client, known = next(iter(self._clients.items()))
        # First the trace, then the client: whoever asks meanwhile must find one or the other.
        self._forgotten.add(client)
        for number_kept in range(known.oldest, known.last + 1):
            self._drop(TicketId(client, number_kept))
        del self._clients[client]
        self._highest.pop(client, None)

    def _keep(self, ticket: TicketId, outcome: CallOutcome) -> None:
        before = self._outcomes.get(ticket)
        self._size_bytes += _size_bytes(outcome) - (_size_bytes(before) if before is not None else 0)
        self._outcomes[ticket] = outcome

    def _forget(self, client: str) -> None:
        """Drop what is too much: of a client that has many its oldest, of all together the oldest, but never the newest."""
        known = self._clients[client]
        for old in range(known.oldest, known.last + 1 - self._limits.tickets):
            self._drop(TicketId(client, old))
        while self._size_bytes > self._limits.ticket_bytes and len(self._outcomes) > 1:
            self._drop(next(iter(self._outcomes)))

    def _drop(self, ticket: TicketId) -> None:
        # Numbers have no gaps, so the oldest of all is also the oldest of its client.
        self._clients[ticket.client] = self._clients[ticket.client]._replace(oldest=ticket.number + 1)
        self._size_bytes -= _size_bytes(self._outcomes.pop(ticket))

    def state(self) -> list[object]:
        """All of it as plain data: clients with their numbers, outcomes in order, and a trace of clients that were forgotten.

        A call that is being done is written down as one whose outcome nobody knows: it will not be done again.
        """
        clients = [[client, *known] for client, known in self._clients.items()]
        outcomes = [
            [*ticket, *(replace(outcome, status=Status.UNKNOWN) if outcome.status is Status.PENDING else outcome).plain()]
            for ticket, outcome in self._outcomes.items()
        ]
        forgotten = self._forgotten.content()
        return [clients, outcomes, forgotten] if forgotten else [clients, outcomes]

    def restore(self, state: object) -> None:
        """Begin again from what :meth:`state` gave."""
        try:
            clients, outcomes = _state(state[:2] if type(state) is list and len(state) == 3 else state)
            forgotten = _forgotten(state[2]) if type(state) is list and len(state) == 3 else _Forgotten()
        except WireError as error:
            raise InputError(f"the outcomes of tickets cannot be read: {error}") from error
        due = {client: known.oldest for client, known in clients}
        for ticket, _ in outcomes:
            if due.get(ticket.client) != ticket.number:
                raise InputError(f"the outcomes of tickets cannot be read: {ticket} is out of place")
            due[ticket.client] += 1
        if [known.last + 1 for _, known in clients] != list(due.values()):
            raise InputError("the outcomes of tickets cannot be read: outcomes are missing")
        self._clients, self._outcomes, self._size_bytes = OrderedDict(clients), {}, 0
        self._forgotten = forgotten
        for ticket, outcome in outcomes:
            self._keep(ticket, outcome)
        for client in due:
            self._forget(client)


_MOST: Final = 10_000_000
_clients: Final = array_of(
    struct_of(lambda client, oldest, last: (client, _Known(oldest, last)), client_id, number, u64), _MOST
)
_outcomes: Final = array_of(
    struct_of(
        lambda client, number, *outcome: (TicketId(client, number), CallOutcome(*outcome)),
        *(client_id, number, status, long_text, packed, u64),
    ),
    _MOST,
)
_state: Final = struct_of(lambda clients, outcomes: (clients, outcomes), _clients, _outcomes)


def _forgotten(value: object) -> _Forgotten:
    """Read the trace of forgotten clients."""
    content = packed(value)
    if len(content) != _Forgotten.BITS >> 3:
        raise WireError(f"{_Forgotten.BITS >> 3} bytes that tell who was forgotten were wanted, but {len(content)} came")
    return _Forgotten(content)


def _size_bytes(outcome: CallOutcome) -> int:
    """What an outcome costs to keep, roughly."""
    return len(outcome.error) + len(outcome.result) + 200
