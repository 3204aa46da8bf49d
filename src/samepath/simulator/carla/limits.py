"""How much a client may ask for. Everything that comes from outside is bounded by one of these numbers."""

from dataclasses import dataclass, replace

_MIB = 1 << 20
# Descriptors beside those of clients: files, the link to rendering nodes, the live page, building a map.
_OWN_DESCRIPTORS = 256


@dataclass(frozen=True)
class ServerLimits:
    """Bounds of the server; one more connection, actor or byte than this is refused, and the rest goes on."""

    message_bytes: int = 32 * _MIB  # one message on the RPC port; longer ones close their connection
    structured_bytes: int = 2 * _MIB  # of which numbers, lists, ...: all but the text or bytes of a single argument
    message_aside_bytes: int = 1 << 14  # longer ones are read beside the event loop: those of 500 commands and more
    connections: int = 128  # clients at once
    subscriptions: int = 2048  # streams listened to at once, all clients together
    message_s: float = 60.0  # for the rest of a message that has begun to come; between two a connection may be silent for ever
    calls_waiting: int = 64  # calls of one client that wait for the world; then it is read no further until they are done
    calls_waiting_bytes: int = 32 * _MIB  # of memory that they take, likewise; a single one may take more
    answer_bytes: int = 32 * _MIB  # one answer whose size a client decides by what it asks for
    unread_answer_bytes: int = 16 * _MIB  # answers a client has not fetched; then it is read no further
    backlog_bytes: int = 64 * _MIB  # of one stream that its listener has not fetched; then it is cut off
    memory_bytes: int = 1024 * _MIB  # that wait for all clients together; then whoever has most of it is cut off
    early_messages: int = 256  # of a stream that was asked for, kept until its listener arrives
    early_bytes: int = 32 * _MIB  # the same in bytes
    early_again_s: float = 2.0  # they are kept on after a listener came, which may be another than the one that asked
    actors: int = 5000  # in the world, the map's own included
    batch_commands: int = 20_000  # of one call, those that follow others included
    broken_commands: int = 256  # of a batch that cannot be read; beyond it the whole batch is refused
    batch_depth: int = 8  # commands that follow commands that follow ...
    opendrive_bytes: int = 16 * _MIB  # a client's map as text
    road_m: float = 300_000.0  # length of all lanes of a client's map together
    map_s: float = 60.0  # of processor time for reading and building a client's map; Town04: 9 s
    map_bytes: int = 1024 * _MIB  # of memory for the same; Town04: 140 MiB
    name_characters: int = 4096  # of any text that is a name
    image_pixels: int = 1 << 23  # of one camera
    measurement_bytes: int = 128 * _MIB  # one measurement of a sensor as it is sent, and as much again for what it remembers
    recording_bytes: int = 512 * _MIB  # a recording that grows beyond ends
    recordings_bytes: int = 8192 * _MIB  # all recordings of a server that are on disk, each counted as 1 MiB or more
    debug_shapes: int = 20_000  # that are drawn at once; beyond that the oldest go
    debug_text_characters: int = 1 << 20  # of all shapes together, as they go to every node with every tick
    number: float = 1e9  # the largest number that means something in a world
    tickets: int = 1024  # of one client whose outcomes are kept for its retries; the numbers of older ones are refused
    ticket_bytes: int = 64 * _MIB  # of the outcomes of all clients together
    ticket_clients: int = 65_536  # clients whose numbers are kept; of more the one that has not called for longest is forgotten
    idle_hello_s: float = 30.0  # a stream connection that does not say what it wants is closed after so long

    @property
    def descriptors(self) -> int:
        """How many descriptors a process needs for as many clients as this allows."""
        return self.connections + self.subscriptions + _OWN_DESCRIPTORS

    def within(self, descriptors: int) -> "ServerLimits":
        """The same for a process that may open only so many descriptors: fewer listeners first, then fewer clients.

        Who comes when there is no room is then turned away with a word, instead of waiting at a port that cannot let it in.
        """
        if descriptors >= self.descriptors:
            return self
        room = descriptors - min(_OWN_DESCRIPTORS, descriptors // 2)
        connections = max(1, min(self.connections, room // 2))
        return replace(self, connections=connections, subscriptions=max(1, room - connections))
