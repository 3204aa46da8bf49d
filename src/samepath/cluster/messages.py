"""What main server and nodes tell each other: typed records, checked as they are read.

On the wire a message is a MessagePack array with the record's name first (``msgspec`` structs). Reading one checks the types
*and* what the numbers mean: a process number is one that Linux can give out, a duration is finite and not negative. So what
has been read can be used: ``os.pidfd_open(2**40)`` or a NaN in a mean would end the main server's only thread, and with it the
world. A node that sends such a message is fenced; the main server lives.

Each side reads only what the other may send (``from_node``, ``from_main``): a node cannot make the main server act on a message
of its own.

Large things (a state, a view, payloads, an answer) travel beside the message as bulk; their order is in the record's words.
Records in CARLA's own layout are bytes here and are read by CARLA's codec. Nothing here is ever executed or used as a path.

:class:`Hello` and :class:`Refused` must not change: with them two versions of samepath tell each other that they differ.
"""

from typing import Annotated, Final, TypeVar

from samepath.cluster.link.wire import msgspec
from samepath.simulator.carla.codec import WireError
from samepath.simulator.server.dialects import NEWEST

_Meta = msgspec.Meta
Uint32 = Annotated[int, _Meta(ge=0, le=2**32 - 1)]  # ids of actors and streams, as in CARLA
Count = Annotated[int, _Meta(ge=0, le=2**63 - 1)]
NodeNumber = Annotated[int, _Meta(ge=0, le=2**31 - 1)]  # 0 is the main server itself
Port = Annotated[int, _Meta(ge=0, le=2**16 - 1)]
Pid = Annotated[int, _Meta(ge=1, le=2**22)]  # Linux's PID_MAX_LIMIT
Word = Annotated[str, _Meta(max_length=256)]
# Comparisons with NaN are false, so a bound on both sides also refuses what is not finite. Nobody draws for eleven days.
Duration = Annotated[float, _Meta(ge=0.0, le=1e6)]
Clock = Annotated[float, _Meta(ge=0.0, le=1e12)]
LINE_MOST: Final = 2000
Line = Annotated[str, _Meta(max_length=LINE_MOST)]
RESULTS_MOST: Final = 5000  # of one message: as many as there may be actors; a round of requests is shorter
HOMES_MOST: Final = 1024  # as many as there may be nodes
Digest = Annotated[bytes, _Meta(max_length=64)]


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """A message: an array of its name and its fields."""


class Hello(_Record, frozen=True):
    """A node presents itself, with everything by which it might be the wrong one."""

    name: Annotated[str, _Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]
    version: Word
    fingerprint: Word
    host: Word
    boot: Word
    pid: Pid
    rpc_host: Word
    rpc_port: Port
    stream_port: Port
    cores: Annotated[int, _Meta(ge=1, le=2**20)]


class MapReady(_Record, frozen=True):
    """A node has built what it needs for a map: the digests of the map, and of a picture that every node draws alike."""

    episode: Count
    map_digest: Word
    picture_digest: Word


class SensorResult(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What came of one render request. ``has_payload``: the payload is in the bulk; ``error`` says why there is none at all.

    ``has_memory``: what the sensor is to remember is in the bulk, behind its payload. ``cost_s`` is 0 where it was not measured
    by itself. ``sent_to`` are the nodes that the payload went to directly, see ``direct.py``.
    """

    sensor: Uint32
    has_payload: bool
    error: Line
    has_memory: bool
    cost_s: Duration
    sent_to: Annotated[tuple[NodeNumber, ...], _Meta(max_length=HOMES_MOST)] = ()


class TickResult(_Record, frozen=True):
    """What a node made of a tick. Bulk: payloads that are wanted elsewhere and memories, in the order of ``results``.

    ``digest`` is that of the state and the view as the node holds them; ``busy_s`` the time it drew.
    """

    frame: Count
    digest: Digest
    busy_s: Duration
    results: Annotated[tuple[SensorResult, ...], _Meta(max_length=RESULTS_MOST)]


class ClientCall(_Record, frozen=True):
    """A client's call. Bulk: the call as it came. ``at_s`` is the node's clock when it came."""

    client: Count
    at_s: Clock


class ClientGone(_Record, frozen=True):
    """A client of the node has disconnected."""

    client: Count


class Synced(_Record, frozen=True):
    """The node has taken in everything up to a :class:`Sync`."""

    number: Count


class StreamUnused(_Record, frozen=True):
    """Nobody at the node listens to a stream any more."""

    stream: Uint32


class Heartbeat(_Record, frozen=True):
    """The node is alive; ``clients`` is how many are connected to it."""

    clients: Count


class Reachable(_Record, frozen=True):
    """Other nodes may send frames to this one, at this port of the host where it serves clients, if they know its key."""

    port: Port
    public: Word


class FramesHeld(_Record, frozen=True):
    """The node holds frames of a tick that another one has sent it; ``sender`` is that one's membership."""

    sender: Count
    frame: Count
    sensors: Annotated[tuple[Uint32, ...], _Meta(max_length=RESULTS_MOST)]


class Welcome(_Record, frozen=True):
    """The main server lets a node in for now. ``number`` is the node's; ``same_host``: its clock is the main server's.

    ``protocol`` is the version of CARLA's client that all of the cluster serves: a client may connect anywhere. ``membership``
    is a number that no other node gets, ever: other nodes tell by it whose frames they hold.
    """

    number: NodeNumber
    same_host: bool
    aliases: dict[str, str]
    protocol: str = NEWEST
    membership: Count = 0


class Refused(_Record, frozen=True):
    """The main server does not let a node in."""

    why: str


class Joined(_Record, frozen=True):
    """From now on the node is given work and may open its ports to clients."""

    frame: Count


class NewEpisode(_Record, frozen=True):
    """Another map. Bulk: the map as OpenDRIVE. ``shown`` is its name for clients, ``real`` its own."""

    episode: Count
    shown: str
    real: str
    map_digest: Word


class NewSettings(_Record, frozen=True):
    """Settings and weather, each as CARLA's record in MessagePack."""

    settings: bytes
    weather: bytes


class NewActors(_Record, frozen=True):
    """Who came or changed (each as CARLA's record in MessagePack), and who is gone; ``spectator`` is one of those there."""

    came: tuple[bytes, ...]
    gone: tuple[Uint32, ...]
    spectator: Uint32


class Sync(_Record, frozen=True):
    """A mark behind news: the node is to answer with :class:`Synced` when it has taken in all before it."""

    number: Count


class TickMessage(_Record, frozen=True):
    """A tick. Bulk: the state for clients and the view, see :func:`join_tick`, and behind it what sensors remember.

    ``requests`` are the node's own, if it has any; the memories of those that have one follow in their order.
    ``listeners``: for each request the numbers of the nodes with listeners. ``timed``: say what each request costs. ``again``:
    the tick was sent before, and only the requests are new.
    """

    frame: Count
    lossless: bool
    requests: bytes
    listeners: tuple[tuple[NodeNumber, ...], ...]
    timed: bool
    again: bool


class StreamData(_Record, frozen=True):
    """A message of a stream for the node's listeners. Bulk: the message, in one part or two (its head, what was measured).

    ``frame`` is 0 where several of one tick may come. ``held``: there is no bulk, the node holds the message; whoever has this
    membership sent it there.
    """

    stream: Uint32
    frame: Count
    lossless: bool
    held: Count = 0


class Neighbour(_Record, frozen=True):
    """Frames for the node of this number may be sent to it directly, and frames of this membership may come from it."""

    number: NodeNumber
    membership: Count
    endpoint: str
    public: str


class DoorWanted(_Record, frozen=True):
    """There is a node that would send this one frames: it is to say where (:class:`Reachable`)."""


class NeighbourGone(_Record, frozen=True):
    """Nothing more is to be sent to that node directly, nor held that comes from it."""

    number: NodeNumber


class Resend(_Record, frozen=True):
    """Frames of a tick have not arrived where the node sent them: it is to send its result again, with all of them."""

    frame: Count


class LatestState(_Record, frozen=True):
    """A state for clients that will connect. Bulk: the state."""

    frame: Count


class ExpectListener(_Record, frozen=True):
    """A client of the node will listen to a stream, from the tick after ``frame`` on."""

    stream: Uint32
    frame: Count


class StreamClosed(_Record, frozen=True):
    """A stream is over."""

    stream: Uint32


class CallResult(_Record, frozen=True):
    """The answer to a client's call. Bulk: the result. ``id`` is the call's; none was wanted where it is None."""

    client: Count
    id: int | None


class Leave(_Record, frozen=True):
    """The node is to go; ``why`` is for its log."""

    why: str


FromNode = (
    Hello | MapReady | TickResult | ClientCall | ClientGone | Synced | StreamUnused | Heartbeat | Reachable | FramesHeld
)  # fmt: skip
FromMain = (
    Welcome | Refused | Joined | NewEpisode | NewSettings | NewActors | Sync | TickMessage | StreamData | LatestState
    | ExpectListener | StreamClosed | CallResult | Leave | DoorWanted | Neighbour | NeighbourGone | Resend
)  # fmt: skip

_encoder: Final = msgspec.msgpack.Encoder()
_from_node: Final[msgspec.msgpack.Decoder[FromNode]] = msgspec.msgpack.Decoder(FromNode)
_from_main: Final[msgspec.msgpack.Decoder[FromMain]] = msgspec.msgpack.Decoder(FromMain)
_M = TypeVar("_M")
_WORDS_MOST: Final = 300


def encode(message: FromNode | FromMain) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def from_node(data: bytes) -> FromNode:
    """The message of a node; a WireError for anything else."""
    return _decode(_from_node, data)


def from_main(data: bytes) -> FromMain:
    """The message of the main server; a WireError for anything else."""
    return _decode(_from_main, data)


def _decode(decoder: "msgspec.msgpack.Decoder[_M]", data: bytes) -> _M:
    try:
        return decoder.decode(data)
    except ValueError as error:  # msgspec's own errors, and text that is no UTF-8
        # It may quote what came, which is then a part of a line in the main server's log.
        words = str(error).encode("unicode_escape").decode()[:_WORDS_MOST]
        raise WireError(f"a message of a cluster was wanted: {words}") from None


def join_tick(state: bytes, view: bytes) -> bytes:
    """The state and the view of a tick in one piece: it is the same for all nodes and is written to shared memory once."""
    return len(state).to_bytes(8, "little") + state + view


def split_tick(data: bytes) -> tuple[bytes, bytes]:
    """The state and the view of :func:`join_tick`."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 + size:
        raise WireError("a state and a view were wanted, but what came is too short")
    return data[8 : 8 + size], data[8 + size :]
