"""What main server and nodes tell each other: every message is a record, on the wire a MessagePack array with its name first.

Large things (a state, a view, payloads, an answer) travel beside the message as bulk; the order of the bulk is in the record's
words. Nothing here is ever executed or used as a path.
"""

from typing import Any, Final, NamedTuple

from samepath.simulator.carla.codec import WireError
from samepath.simulator.server.rendering import packed, unpacked


class Hello(NamedTuple):
    """A node presents itself, with everything by which it might be the wrong one."""

    name: str
    version: str
    fingerprint: str
    host: str
    boot: str
    pid: int
    rpc_host: str
    rpc_port: int
    stream_port: int
    cores: int


class Ready(NamedTuple):
    """A node has built what it needs for a map: the digests of the map, and of a picture that every node draws alike."""

    episode: int
    map_digest: str
    picture_digest: str


class Seen(NamedTuple):
    """What a node made of a tick. Bulk: the payloads that are wanted elsewhere, in the order of ``made``.

    ``made``: for each order the sensor, whether its payload is in the bulk, its trouble, what it is to remember, its cost.
    ``digest`` is that of the state and the view as the node holds them; ``busy_s`` the time it drew.
    """

    frame: int
    digest: bytes
    busy_s: float
    made: list[Any]


class Called(NamedTuple):
    """A client's call. Bulk: the call as it came. ``at_s`` is the node's clock when it came."""

    client: int
    at_s: float


class Left(NamedTuple):
    """A client of the node has gone."""

    client: int


class Heard(NamedTuple):
    """The node has taken in everything up to a :class:`Told`."""

    number: int


class Quiet(NamedTuple):
    """Nobody at the node listens to a stream any more."""

    stream: int


class Beat(NamedTuple):
    """The node is there. ``now_s`` is its clock; ``clients`` how many are connected."""

    now_s: float
    clients: int


class Welcome(NamedTuple):
    """The main server lets a node in for now. ``number`` is the node's; ``same_host``: its clock is the main server's."""

    number: int
    same_host: bool
    aliases: dict[str, str]


class Refused(NamedTuple):
    """The main server does not let a node in."""

    why: str


class Joined(NamedTuple):
    """From now on the node is given orders and may open its doors to clients."""

    frame: int


class NewEpisode(NamedTuple):
    """Another map. Bulk: the map as OpenDRIVE. ``shown`` is its name for clients, ``real`` its own."""

    episode: int
    shown: str
    real: str
    map_digest: str


class NewSettings(NamedTuple):
    """Settings and weather, as CARLA's records."""

    settings: list[Any]
    weather: list[Any]


class NewActors(NamedTuple):
    """Who came or changed (CARLA's records), and who is gone; ``spectator`` is one of those who are there."""

    came: list[Any]
    gone: list[int]
    spectator: int


class Told(NamedTuple):
    """A mark behind news: the node is to say when it has taken it all in."""

    number: int


class Tick(NamedTuple):
    """A tick. Bulk: the state for clients and the view, see :func:`shown`. ``orders`` are the node's own, if it has any.

    ``homes``: for each order the numbers of the nodes with listeners. ``timed``: say what each order costs. ``again``: the
    tick was shown before, and only the orders are new.
    """

    frame: int
    lossless: bool
    orders: bytes
    homes: list[Any]
    timed: bool
    again: bool


class Streamed(NamedTuple):
    """A message of a stream for the node's listeners. Bulk: the message. ``frame`` is 0 where several of one tick may come."""

    stream: int
    frame: int
    lossless: bool


class Prepared(NamedTuple):
    """A state for clients that will connect. Bulk: the state."""

    frame: int


class Expected(NamedTuple):
    """A client of the node will listen to a stream."""

    stream: int


class Forgotten(NamedTuple):
    """A stream is over."""

    stream: int


class Answered(NamedTuple):
    """The answer to a client's call. Bulk: the result. ``id`` is the call's; none was wanted where it is None."""

    client: int
    id: int | None


class Leave(NamedTuple):
    """The node is to go; ``why`` is for its log."""

    why: str


Message = (
    Hello | Ready | Seen | Called | Left | Heard | Quiet | Beat | Told | Welcome | Refused | Joined | NewEpisode | NewSettings
    | NewActors | Tick | Streamed | Prepared | Expected | Forgotten | Answered | Leave
)  # fmt: skip
_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        Hello, Ready, Seen, Called, Left, Heard, Quiet, Beat, Told, Welcome, Refused, Joined, NewEpisode, NewSettings,
        NewActors, Tick, Streamed, Prepared, Expected, Forgotten, Answered, Leave,
    )
}  # fmt: skip
_TYPES: Final[dict[object, tuple[type, ...]]] = {
    int: (int,), float: (float, int), str: (str,), bytes: (bytes,), bool: (bool,), int | None: (int, type(None)),
    list[Any]: (list,), list[int]: (list,), dict[str, str]: (dict,),
}  # fmt: skip


def written(message: Message) -> bytes:
    """A message as bytes."""
    return packed([type(message).__name__, *message])


def read(data: bytes) -> Message:
    """The message of :func:`written`; anything else is refused."""
    found = unpacked(data, "a message")
    if not isinstance(found, list) or not found or found[0] not in _KINDS:
        raise WireError("a message of a cluster was wanted")
    kind, fields = _KINDS[found[0]], found[1:]
    wanted = list(kind.__annotations__.values())
    if len(fields) != len(wanted) or not all(type(one) in _TYPES[hint] for one, hint in zip(fields, wanted, strict=True)):
        raise WireError(f"a message {kind.__name__} was wanted, but its fields are others")
    made: Message = kind(*fields)
    return made


def shown(state: bytes, view: bytes) -> bytes:
    """What all nodes are shown of a tick, in one piece."""
    return len(state).to_bytes(8, "little") + state + view


def parts_of(data: bytes) -> tuple[bytes, bytes]:
    """The state and the view of :func:`shown`."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 + size:
        raise WireError("a state and a view were wanted, but what came is too short")
    return data[8 : 8 + size], data[8 + size :]
