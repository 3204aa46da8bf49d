"""A node's end of the link: one connection, made once. When it ends, this incarnation of the node has ended too.

Unlike main, a node may wait: it has one peer, and a main server that does not read for a minute is of no use to it. Also unlike
main it does not forgive: main is trusted, so bytes from it that make no sense mean that something is broken here or there.

On main's host packets go through a pair of pipes (``channel.py``). A pipe may be written by any thread, so what fits into it is
sent by whoever has it (``try_send``), without a detour through the link's own thread. A lock keeps the count of packets, the
arena and the pipe in one order; it is never held while somebody waits.
"""

import os
import socket
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from samepath.cluster.link import channel, compression, wire
from samepath.cluster.link.channel import PACKET_MOST, PipeChannel
from samepath.cluster.link.keys import Keys, check_key
from samepath.cluster.link.memory import Segment, SegmentWriter, power_of_two
from samepath.cluster.link.sockets import Poller, configure
from samepath.cluster.link.wire import (
    Extent,
    FlowControl,
    LinkError,
    LinkEvent,
    LinkLimits,
    LinkLostError,
    LinkRefusedError,
    MalformedError,
    PacketKind,
    PartRef,
    PeerStuckError,
    Readable,
    Received,
    SegmentReply,
    SegmentUse,
    zmq,
)
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError

MAIN: Final = b""  # the peer of everything a node receives
_NO_NONCE: Final = bytes(16)
_FULL_PIPE_S: Final = 0.005  # how often it is looked whether a full pipe has room again
_MONITOR_MS: Final = 200  # ZeroMQ refuses to send a little before it reports that the connection has ended


class NodeLink:
    """A node's end. Belongs to one thread, ``wake`` and ``try_send`` excepted.

    Making it does not wait; what goes wrong ``poll`` raises.
    """

    def __init__(
        self,
        endpoint: str,
        keys: Keys,
        main_public: str,
        *,
        shared_memory: bool = True,
        limits: LinkLimits | None = None,
        log: Callable[[str], None] = lambda _: None,
        compress: compression.Mode = "auto",
        other: str = "main server",
    ) -> None:
        """``other`` is what listens there, for the words of errors: nodes talk to each other, too."""
        self.endpoint = endpoint
        self._other = other
        self._wire: socket.socket | None = None  # our own handle of ZeroMQ's connection, to ask how fast it is
        self.packer = compression.Packer(compress, lambda: compression.delivery_rate_b_s(self._wire))
        # New for every connection: main tells incarnations of a node apart by it, and drops what still comes from a former one.
        self.identity = b"n" + os.urandom(wire.IDENTITY_BYTES - 1)
        self._limits = limits or LinkLimits()
        self._log = log
        self._flow = FlowControl(self._limits)
        self._lock = Lock()  # of the count of packets, the arena and what is written to the pipe
        self._channel: PipeChannel | None = None
        self._reads_pipe = False  # main's packets come in the order of its pipe
        self._pipe_fd = -1
        self._is_behind = False  # more has come than was handed out
        self._neighbours: dict[int, Segment] = {}  # arenas of other nodes, by generation
        self._broadcast: tuple[int, Segment] | None = None
        self._arena: SegmentWriter | None = None
        self._grow_to = 0  # the arena is too small: one of so many bytes is wanted
        self._grow_asked = False
        self._kept: list[LinkEvent] = []
        self._failure: LinkError | None = None
        self._connected = False
        self._ended = False
        self._closed = False
        self._deadline_s = SYSTEM_CLOCK.monotonic_s() + self._limits.connect_s
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        try:
            self._monitor = _connect(self._socket, endpoint, self.identity, keys, main_public, self._limits)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._poller = Poller(self._socket, self._monitor)
        # ZeroMQ keeps it until there is a connection: nothing here waits for one.
        self._send_control(PacketKind.HELLO, wire.pack_control(wire.LinkHello(shared_memory)))

    @property
    def is_local(self) -> bool:
        """Is main on this host, so that bulk goes through shared memory?"""
        return self._arena is not None

    @property
    def is_connected(self) -> bool:
        """Has whoever listens there let us in, and is the connection still there?"""
        return self._connected and not self._ended and self._failure is None

    @property
    def memory_bytes(self) -> tuple[int, int]:
        """How much shared memory there is for what main sends, and for what this node sends."""
        down = 0 if self._broadcast is None else self._broadcast[1].size
        return down, 0 if self._arena is None else self._arena.segment.size

    def send(self, message: bytes, bulk: Sequence[wire.Buffer] = (), *, pack: bool = False) -> None:
        """Send to main. Waits only if very much was sent that main has not read; then for a bounded time.

        ``pack``: to another host the bulk may go compressed, if that takes less time.
        """
        parts: Sequence[wire.Buffer | compression.PackedPart] = bulk
        if pack and self._arena is None:
            wire.check_sizes(message, bulk, self._limits)
            parts = self.packer.pack(bulk)
        # Before the bulk is put away: what is read while waiting also frees room in the arena.
        if self._flow.is_full():
            self._await_room()
        if self._failure is not None:
            raise self._failure
        with self._lock:
            frames, size, extent = wire.pack_bulk(self._flow.read, message, parts, self._store, self._limits)
            self._send_frames(frames, size, extent)
        # Once for each arena: main answers with a new one, or not at all where there is no more memory.
        if self._grow_to and not self._grow_asked:
            self._grow_asked = True
            self._send_control(PacketKind.GROW, wire.pack_control(wire.GrowRequest(self._grow_to)))

    def try_send(self, message: bytes, bulk: Sequence[wire.Buffer] = ()) -> bool:
        """Send, from any thread, if that can be done at once and through the pipe; else nothing has happened."""
        with self._lock:
            # All of this is the link's thread's own, but for what the lock is for: looked at, it may only lead to a no.
            if self._channel is None or self._failure is not None or self._closed or self._flow.is_full():
                return False
            ring = None if self._arena is None else self._arena.ring
            before = (0, 0) if ring is None else (ring.head, ring.tail)
            frames, size, extent = wire.pack_bulk(self._flow.read, message, bulk, self._store, self._limits)
            if len(frames) > 1 or len(frames[0]) > PACKET_MOST:
                if ring is not None:
                    ring.head, ring.tail = before  # what was put there is nobody's
                return False
            self._send_frames(frames, size, extent)
            if self._channel.has_unsent:
                self.wake()
        return True

    def poll(self, timeout_s: float | None) -> list[LinkEvent]:
        """Wait until something happens, and say what; a LinkError when the link has ended and all has been read."""
        deadline_s = None if timeout_s is None else SYSTEM_CLOCK.monotonic_s() + timeout_s
        while True:
            now_s = SYSTEM_CLOCK.monotonic_s()
            left_s = None if deadline_s is None else max(0.0, deadline_s - now_s)
            # Something is there already, or all that is left is to read what came before the end.
            wait_s = 0.0 if self._kept or self._is_behind or self._ended or self._failure is not None else self._flushed(left_s)
            # The wait ends with the time to connect too, whatever the caller asked for: a main server that is not there must be
            # told of.
            if not self._connected:
                until_s = max(0.0, self._deadline_s - now_s)
                wait_s = until_s if wait_s is None else min(wait_s, until_s)
            events = [*self._kept]
            self._kept.clear()
            self._poll_once(wait_s, events)
            # Events before the failure: work that arrived is handed out, whatever ended the link behind it.
            if events:
                return events
            if self._failure is not None:
                raise self._failure
            if left_s == 0.0:
                return events

    def wake(self) -> None:
        """Make the current or next poll return with ``Woken``; any thread may call it."""
        self._poller.wake()

    def close(self, linger_s: float = 0.0) -> None:
        """End the connection; what was sent and is still here is given so long to leave."""
        if self._closed:
            return
        with self._lock:
            self._closed = True
            if self._channel is not None:
                self._channel.close(linger_s)
            self._poller.close()
            for segment in self._neighbours.values():
                segment.close()
            self._neighbours.clear()
            if self._arena is not None:
                self._arena.segment.close()
            if self._broadcast is not None:
                self._broadcast[1].close()
            self._arena = self._broadcast = None
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._socket.disable_monitor()
        self._context.destroy(linger=round(linger_s * 1000.0))

    def _flushed(self, wait_s: float | None) -> float | None:
        """Write what a full pipe did not take; while something is left, waiting is short."""
        if self._channel is None or not self._channel.has_unsent:
            return wait_s
        with self._lock:
            self._channel.flush()
        return _FULL_PIPE_S if wait_s is None else min(wait_s, _FULL_PIPE_S)

    def _poll_once(self, timeout_s: float | None, events: list[LinkEvent]) -> None:
        ready, happened = self._poller.wait(timeout_s)
        events += [event for event in happened if not isinstance(event, Readable)]
        if self._monitor in ready:
            self._read_monitor()
        # Asked before the last message is read: what came before the end is handed out before it is raised.
        ended = self._ended
        self._is_behind = not self._drain(events)
        if not self._is_behind and ended and self._failure is None:
            self._failure = LinkLostError(f"the {self._other} at {self.endpoint} has gone, or has cut this node off")
        if not self._connected and self._failure is None and SYSTEM_CLOCK.monotonic_s() >= self._deadline_s:
            self._failure = LinkRefusedError(
                f"no {self._other} answered at {self.endpoint} within {self._limits.connect_s:g} s: is it running there?"
            )
        # Only when nothing else has gone out for long: every packet that is sent acknowledges by itself.
        if self._failure is None and self._flow.owes_ack(self.memory_bytes[0]):
            self._send_control(PacketKind.ACK, b"")

    def _read_monitor(self) -> None:
        """What ZeroMQ reports of the connection."""
        from zmq.utils.monitor import parse_monitor_message

        while True:
            try:
                said = parse_monitor_message(self._monitor.recv_multipart(zmq.DONTWAIT))
                kind = said["event"]
            except zmq.Again:
                return
            if kind == zmq.EVENT_CONNECTED:
                self._hold_wire(said["value"])
            elif kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._connected = True
            elif kind == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._refused("does not know this node's key: start the node with the keys that the main server gave out")
            elif kind in {zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL}:
                self._refused("is not the one whose public key this node has, or no main server: compare the keys")
            # Before the handshake ZeroMQ tries again by itself; after it a connection that ended is never resumed (see
            # ``wire``).
            elif kind == zmq.EVENT_DISCONNECTED and self._connected:
                self._ended = True

    def _hold_wire(self, fd: int) -> None:
        if self._wire is not None:
            self._wire.close()
        try:
            self._wire = socket.socket(fileno=os.dup(fd))
        except OSError:
            self._wire = None  # it has ended already: ZeroMQ connects again

    def _refused(self, reason: str) -> None:
        if self._failure is None:
            self._failure = LinkRefusedError(f"the {self._other} at {self.endpoint} {reason}")

    def _drain(self, events: list[LinkEvent]) -> bool:
        """Read what has come, up to a bound; returns whether that was all."""
        for _ in range(self._limits.messages_per_poll):
            found = self._next()
            if found is None:
                return True
            frame, after = found
            # Before it is taken apart: of another version only the first byte is known to mean the same.
            if frame[:1] != bytes([wire.VERSION]):
                version = frame[0] if frame else "none"
                self._refused(
                    f"speaks version {version} of the link, this node {wire.VERSION}: install the same samepath on both"
                )
                continue
            size = len(frame) + sum(map(len, after))
            try:
                size += self._on_packet(wire.unpack(frame, len(after), self._limits), after, events)
            except MalformedError as error:
                # Main is trusted; what it sends and cannot be read must not be passed over.
                self._failure = LinkLostError(f"the {self._other} at {self.endpoint} sent what is no message: {error}")
            # Malformed or not, it was read: both sides count packets, and must go on counting the same ones.
            with self._lock:
                self._flow.on_received(size)
        return False

    def _next(self) -> tuple[bytes, list[bytes]] | None:
        """The next packet, if there is one: from the pipe, once main writes to it, or where that says so over ZeroMQ."""
        pipe = self._channel if self._reads_pipe else None
        if pipe is not None:
            try:
                packet = pipe.take()
            except MalformedError as error:
                self._failure = LinkLostError(f"the {self._other} at {self.endpoint} sent what is no message: {error}")
                packet = None
            if pipe.read_fd < 0 and self._pipe_fd >= 0:
                self._poller.unwatch(self._pipe_fd)
                self._pipe_fd = -1
            if packet is None:
                return None
            if packet:
                return packet, []
        try:
            frame, *after = self._socket.recv_multipart(zmq.DONTWAIT)
        except zmq.Again:
            if pipe is not None:
                pipe.put_back_mark()
            return None
        return frame, after

    def _on_packet(self, packet: wire.Packet, after: list[bytes], events: list[LinkEvent]) -> int:
        """Take in a packet; returns how much of it came through shared memory."""
        with self._lock:
            freed = self._flow.on_read_by_peer(packet.read)
            # Of an arena that was replaced nothing needs to be freed: it is gone as a whole.
            if freed is not None and self._arena is not None and freed.generation == self._arena.generation:
                self._arena.ring.release(freed.end)
        if packet.kind == PacketKind.DATA:
            bulk, shared_bytes = wire.unpack_bulk(packet, after, self._fetch)
            try:
                events.append(Received(MAIN, packet.message, wire.read_parts(bulk)))
            except MalformedError as error:
                # Main passes on what another node has packed: that one lied, and this one goes on without the frame.
                self._log(f"a frame that was passed on is left out: {error}")
            return shared_bytes
        if packet.kind == PacketKind.MAP:
            self._map(wire.unpack_control(wire.SegmentOffer, packet.message))
        elif packet.kind == PacketKind.UNMAP:
            gone = self._neighbours.pop(wire.unpack_control(wire.Unmap, packet.message).generation, None)
            if gone is not None:
                gone.close()
        elif packet.kind == PacketKind.PIPES:
            self._open_pipes(wire.unpack_control(wire.PipesOffer, packet.message))
        elif packet.kind == PacketKind.PIPED and self._channel is not None:
            self._reads_pipe = True
            self._pipe_fd = self._channel.read_fd
            self._poller.watch(self._pipe_fd, "pipe")
        return 0

    def _open_pipes(self, offer: wire.PipesOffer) -> None:
        """Main offers pipes. Our answer is the last packet that is not in the pipe's order."""
        try:
            found = channel.opened(offer)
        except OSError as error:
            self._log(f"pipes of the main server cannot be used ({error}): ticks travel over the wire instead")
            self._send_control(PacketKind.PIPED, wire.pack_control(wire.PipesReply(False)))
            return
        self._send_control(PacketKind.PIPED, wire.pack_control(wire.PipesReply(True)))
        with self._lock:
            self._channel = found

    def _fetch(self, reference: PartRef) -> bytes | None:
        if reference.via == wire.Via.NEIGHBOUR:
            neighbour = self._neighbours.get(reference.generation)
            return None if neighbour is None else neighbour.read(reference.offset, reference.length)
        # Offsets mean nothing in another generation: bytes of another tick would pass for a state.
        if self._broadcast is None or self._broadcast[0] != reference.generation:
            return None
        return self._broadcast[1].read(reference.offset, reference.length)

    def _map(self, offer: wire.SegmentOffer) -> None:
        """Main has made shared memory: open it and prove it, or say that it cannot be reached from here."""
        try:
            segment = Segment.open(offer, write=offer.use == SegmentUse.ARENA)
        except (OSError, ValueError) as error:
            self._log(f"shared memory of the main server cannot be used ({error}): images travel over the wire instead")
            reply = SegmentReply(offer.use, offer.generation, False, _NO_NONCE)
            self._send_control(PacketKind.MAPPED, wire.pack_control(reply))
            return
        if offer.use == SegmentUse.ARENA:
            with self._lock:
                if self._arena is not None:
                    self._arena.segment.close()  # main has it open as long as packets that name it may be under way
                self._arena = SegmentWriter(segment, offer.generation)
                self._grow_to, self._grow_asked = 0, False
        elif offer.use == SegmentUse.NEIGHBOUR:
            self._neighbours[offer.generation] = segment
        else:
            if self._broadcast is not None:
                self._broadcast[1].close()  # packets come in order: whatever named the old one has been read
            self._broadcast = (offer.generation, segment)
        reply = SegmentReply(offer.use, offer.generation, True, segment.nonce)
        self._send_control(PacketKind.MAPPED, wire.pack_control(reply))

    def _store(self, data: wire.Buffer, length: int) -> tuple[PartRef, Extent] | None:
        arena = self._arena
        if arena is None:
            return None
        found = arena.store(data, length)
        if found is None and arena.segment.size < self._limits.arena_bytes_max and not self._grow_to:
            # Asked for in ``send``, once the packet that is being put together has left.
            self._grow_to = power_of_two(max(2 * length, 2 * arena.segment.size), self._limits.arena_bytes_max)
        return found

    def _await_room(self) -> None:
        """Main has not read for long: keep what comes from it for the next poll, and wait."""
        deadline_s = SYSTEM_CLOCK.monotonic_s() + self._limits.stuck_s
        while self._flow.is_full() and self._failure is None:
            left_s = deadline_s - SYSTEM_CLOCK.monotonic_s()
            if left_s <= 0.0:
                waiting = f"{self._flow.waiting} messages, {self._flow.waiting_bytes} bytes wait"
                raise PeerStuckError(
                    f"the {self._other} at {self.endpoint} has not read for {self._limits.stuck_s:g} s: {waiting}"
                )
            # Reading goes on meanwhile: main's acknowledgements come with what it sends, and without them the wait would never
            # end.
            self._poll_once(min(left_s, 1.0), self._kept)

    def _send_control(self, kind: PacketKind, message: bytes) -> None:
        with self._lock:
            packet = wire.pack(kind, self._flow.read, message)
            self._send_frames([packet], len(packet), None)

    def _send_frames(self, frames: Sequence[wire.Buffer], size: int, extent: Extent | None) -> None:
        pipe, first = self._channel, frames[0]
        if pipe is not None and len(frames) == 1 and isinstance(first, bytes) and len(first) <= PACKET_MOST:
            pipe.put(first)
        else:
            try:
                self._socket.send_multipart(frames, zmq.DONTWAIT)
            except zmq.Again:
                raise self._why_stuck() from None
            if pipe is not None:
                pipe.put_mark()
        self._flow.on_sent(size, extent)

    def _why_stuck(self) -> LinkError:
        """Nothing more is taken: it may be that there is no connection, which ZeroMQ reports a little later."""
        self._monitor.poll(_MONITOR_MS)
        self._read_monitor()
        if self._failure is not None:
            return self._failure
        if self._ended:
            return LinkLostError(f"the {self._other} at {self.endpoint} has gone, or has cut this node off")
        return PeerStuckError(f"the {self._other} at {self.endpoint} does not read")


def _connect(
    socket: "zmq.Socket[bytes]", endpoint: str, identity: bytes, keys: Keys, main_public: str, limits: LinkLimits
) -> "zmq.Socket[bytes]":
    """Begin to connect; returns the socket that tells what comes of it."""
    check_key("public", main_public)
    configure(socket, keys, limits)
    socket.identity = identity
    socket.ipv6 = "[" in endpoint
    socket.curve_serverkey = main_public.encode("ascii")
    events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    monitor = socket.get_monitor_socket(events | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_DISCONNECTED)
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        raise InputError(
            f"{endpoint!r} is no address of a main server ({error.strerror}): it is like tcp://HOST:PORT"
        ) from None
    return monitor
