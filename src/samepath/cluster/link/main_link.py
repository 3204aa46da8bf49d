"""Main's end of the link: one socket for all nodes, which never blocks and which no node can stop or bring down.

Who is connected is decided by three things that arrive separately: ZeroMQ's handshake (which key), its reports on connections
(which file descriptor ended), and the node's first packet (that it is a node). A peer exists from its first packet until its
connection has ended *and* everything it sent has been read; only then is it reported as :class:`Disconnected`.

A node of this host is moved to a pair of pipes (``channel.py``) as soon as it has proved to be one. Its packets are read in the
order of the pipe from then on; what comes from it over ZeroMQ waits for its place in there.
"""

import os
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from samepath.cluster.link import compression, wire
from samepath.cluster.link.channel import PACKET_MOST, OfferedPipes, PipeChannel
from samepath.cluster.link.keys import Keys
from samepath.cluster.link.memory import MainMemory, PeerMemory, Segment
from samepath.cluster.link.sockets import Authenticator, Poller, listen
from samepath.cluster.link.wire import (
    ArenaPart,
    Disconnected,
    Extent,
    FlowControl,
    Lease,
    LinkCounts,
    LinkError,
    LinkEvent,
    LinkLimits,
    MalformedError,
    PacketKind,
    PartRef,
    PeerGoneError,
    PeerStuckError,
    Readable,
    Received,
    ReceivedInPlace,
    SegmentReply,
    SegmentUse,
    TooLargeError,
    zmq,
)
from samepath.core.clock import SYSTEM_CLOCK

# Names of disconnected peers that are remembered, so that what still comes from them is dropped silently. ZeroMQ reconnects by
# itself under the same name; nodes do not, so this only has to outlast a stray reconnection or two.
_FENCED_MOST: Final = 4096
# A node that does not read lets its pipe fill up: how often it is looked whether there is room again.
_FULL_PIPE_S: Final = 0.005
# Packets of a node with a pipe that came over ZeroMQ before their marks: a mark is written first, so there are hardly any.
_UNMARKED_MOST: Final = 1024


_OF_NODES: Final = frozenset({PacketKind.MAPPED, PacketKind.GROW, PacketKind.PIPED})


@dataclass(slots=True, eq=False)
class Peer:
    """One connection of a node."""

    identity: bytes
    key: str
    fd: int
    handle: socket.socket  # our own handle of ZeroMQ's connection, to cut it
    flow: FlowControl
    memory: PeerMemory
    wants_memory: bool
    malformed: int = 0
    offered: OfferedPipes | None = None
    channel: PipeChannel | None = None
    packer: compression.Packer | None = None
    over_wire: deque[tuple[bytes, list[bytes]]] = field(default_factory=deque)  # of whoever has a channel, for their marks

    def end(self) -> None:
        """End the connection, for both sides; ZeroMQ reports it, as if the node had left."""
        # Shut down, not only closed: ZeroMQ has a descriptor of its own, and the connection would live on in it.
        with suppress(OSError):
            self.handle.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End the connection and let go of all that belongs to it."""
        self.end()
        self.handle.close()
        self.flow.end()
        if self.offered is not None:
            self.offered.close()
        if self.channel is not None:
            self.channel.close()


class MainLink:
    """Main's end. Belongs to one thread, ``wake`` excepted; poll it often, it also lets in new nodes."""

    def __init__(
        self,
        host: str,
        port: int,
        keys: Keys,
        allowed: Callable[[str], bool] | None,
        *,
        shared_memory: bool = True,
        limits: LinkLimits | None = None,
        log: Callable[[str], None] = lambda _: None,
        compress: compression.Mode = "auto",
    ) -> None:
        """Listen. ``allowed`` says which public keys of nodes are let in, in this thread; None: all."""
        self._compress: compression.Mode = compress
        self._packer = compression.Packer(compress, self._rate_to_all)
        self._away: list[Peer] = []  # to whom the last broadcast went over the wire
        self._limits = limits or LinkLimits()
        self._log = log
        self._peers: dict[bytes, Peer] = {}
        self._by_fd: dict[int, Peer] = {}
        self._fenced: OrderedDict[bytes, None] = OrderedDict()
        self._ended: list[Peer] = []
        self._leaves_in_place = False
        self._in_place: list[Lease] = []  # of what was handed out by the last poll
        self._discarded: list[tuple[int, Segment]] = []  # arenas that are not used any more, but for that
        self._behind: list[Peer] = []  # whose pipes were not read to the end
        self._is_wet = False  # ZeroMQ's queue was not read to the end
        self._pipes = shared_memory and hasattr(os, "pipe2")
        self._by_pipe: dict[int, Peer] = {}
        self._closed = False
        self.counts = LinkCounts()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        try:
            # Before listening: a connection that comes earlier would be let in unasked.
            self._authenticator = Authenticator(self._context, self._socket, allowed, log)
            self.endpoint, self.port = listen(self._socket, host, port, keys, self._limits)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._memory = MainMemory(self._limits, self._in_use, log) if shared_memory else None
        self._poller = Poller(self._socket, self._authenticator.zap, self._authenticator.monitor)

    def send(self, peer: bytes, message: bytes, bulk: Sequence[wire.Buffer | ArenaPart | compression.PackedPart] = ()) -> None:
        """Send without ever waiting; PeerGoneError, PeerStuckError or TooLargeError say that nothing was sent.

        A part that lies in the arena of another node of the same host is read by its receiver there; else it is copied here.
        """
        found = self._ready_peer(peer)
        memory = self._memory
        store = None
        if memory is not None and memory.is_read_by(found.memory):
            memory.begin()
            store = memory.store
        leases: list[Lease] = []

        def reads(part: ArenaPart) -> bool:
            if not self._reads_neighbour(found, part):
                return False
            leases.append(part.lease)
            self.counts.passed_bytes += len(part)
            return True

        if store is None and found.packer is not None:
            self.check(message, bulk)
            bulk = found.packer.pack([part.read() if isinstance(part, ArenaPart) else part for part in bulk])
        frames, size, extent = wire.pack_bulk(found.flow.read, message, bulk, store, self._limits, reads)
        self._send_frames(found, frames, size, extent, leases)
        self._grow()

    def _reads_neighbour(self, reader: Peer, part: ArenaPart) -> bool:
        """Can a node read this part where it lies? The first time it is told where that is, and gets a copy."""
        generation = part.reference.generation
        is_open = reader.memory.neighbours.get(generation)
        if is_open is None and self._memory is not None and reader.memory.broadcast >= 0:
            for writer in self._peers.values():
                self._offer(reader, self._memory.offer_neighbour(reader.memory, writer.memory, generation))
        # What one slow reader has not read keeps all of the writer's memory: beyond a half of what there is, it gets copies.
        return bool(is_open) and reader.flow.waiting_bytes < self._limits.waiting_bytes // 2

    def check(self, message: bytes, bulk: Sequence[wire.Buffer | ArenaPart | compression.PackedPart] = ()) -> None:
        """A TooLargeError for what no peer could be sent."""
        wire.check_sizes(message, bulk, self._limits)

    def has_room(self, peer: bytes) -> bool:
        """May a peer be sent more, or has it so much to read that it must read first?"""
        found = self._peers.get(peer)
        return found is None or not found.flow.is_full()

    def broadcast(
        self, messages: Mapping[bytes, bytes], bulk: bytes, own: Mapping[bytes, Sequence[bytes]] | None = None
    ) -> dict[bytes, LinkError]:
        """Send each peer its message, and all of them the same bulk, which is written once for those on this host.

        ``own`` is what only one of them gets, behind the bulk of all. Returns those to whom nothing could be sent, and why; the
        others have theirs.
        """
        failed: dict[bytes, LinkError] = {}
        # Looked at once: it is too large for all of them, and nobody must be sent a part of a tick.
        if len(bulk) > self._limits.bulk_bytes:
            error = TooLargeError(
                f"{len(bulk)} bytes for all nodes are beyond the limit of the link, {self._limits.bulk_bytes} bytes"
            )
            return dict.fromkeys(messages, error)
        memory, stored = self._memory, None
        if memory is not None:
            memory.begin()
            there = (self._peers[peer] for peer in messages if peer in self._peers)
            if len(bulk) > self._limits.inline_bytes and any(memory.is_read_by(peer.memory) for peer in there):
                stored = memory.store(bulk, len(bulk))

        # To other hosts it goes compressed, if that takes less time: once for all of them, as one card sends it to each.
        self._away = [
            found
            for peer in messages
            if (found := self._peers.get(peer)) is not None and not (memory is not None and memory.is_read_by(found.memory))
        ]
        away = self._packer.pack([bulk])[0] if self._away else bulk

        def store(data: wire.Buffer, length: int) -> tuple[PartRef, Extent] | None:
            return stored if data is bulk or memory is None else memory.store(data, length)

        for peer, message in messages.items():
            try:
                found = self._ready_peer(peer)
                shares = memory is not None and memory.is_read_by(found.memory)
                parts = (bulk if shares else away, *(own or {}).get(peer, ()))
                frames, size, extent = wire.pack_bulk(found.flow.read, message, parts, store if shares else None, self._limits)
                self._send_frames(found, frames, size, extent)
            except LinkError as error:
                # One that is gone or stuck keeps nobody else from the tick.
                failed[peer] = error
        self._grow()
        return failed

    def _rate_to_all(self) -> float | None:
        """How fast something reaches all who are away: as fast as the slowest has been, and one after the other."""
        rates = [rate for peer in self._away if (rate := compression.delivery_rate_b_s(peer.handle)) is not None]
        return min(rates) / len(self._away) if rates else None

    def poll(self, timeout_s: float | None, *, in_place: bool = False) -> list[LinkEvent]:
        """Wait until something happens, and say what; an empty list if nothing did in that time.

        ``in_place``: messages with bulk in shared memory come as :class:`ReceivedInPlace`, which is valid until the next poll.
        """
        self._take_back()
        self._leaves_in_place = in_place
        deadline_s = None if timeout_s is None else SYSTEM_CLOCK.monotonic_s() + timeout_s
        while True:
            left_s = None if deadline_s is None else max(0.0, deadline_s - SYSTEM_CLOCK.monotonic_s())
            events = self._poll_once(0.0 if self._ended or self._behind else self._flushed(left_s))
            if events or left_s == 0.0:
                return events

    def _flushed(self, wait_s: float | None) -> float | None:
        """Write what full pipes did not take; while something is left, waiting is short."""
        unsent = [peer.channel for peer in self._by_pipe.values() if peer.channel is not None and peer.channel.has_unsent]
        for channel in unsent:
            channel.flush()
        if not any(channel.has_unsent for channel in unsent):
            return wait_s
        return _FULL_PIPE_S if wait_s is None else min(wait_s, _FULL_PIPE_S)

    def wake(self) -> None:
        """Make the current or next poll return with ``Woken``; any thread may call it."""
        self._poller.wake()

    def watch(self, fd: int, key: object) -> None:
        """Report ``Readable(key)`` at every poll as long as ``fd`` can be read."""
        self._poller.watch(fd, key)

    def unwatch(self, fd: int) -> None:
        self._poller.unwatch(fd)

    def peers(self) -> tuple[bytes, ...]:
        """Who is connected, in the order they came."""
        return tuple(self._peers)

    def key_of(self, peer: bytes) -> str:
        """The public key with which a peer was let in."""
        return self._known(peer).key

    def is_local(self, peer: bytes) -> bool:
        """Has the peer proved that it is on this host, so that its bulk goes through shared memory?"""
        return self._known(peer).memory.broadcast >= 0

    def received_bytes(self, peer: bytes) -> int | None:
        """How many bytes have come over a peer's connection, those of unfinished messages too; None: it is not known."""
        return compression.received_bytes(self._known(peer).handle)

    def waiting_bytes(self, peer: bytes) -> int:
        """How much was sent to a peer that it is not known to have read."""
        return self._known(peer).flow.waiting_bytes

    def disconnect(self, peer: bytes) -> None:
        """Cut a peer off: its connection ends, its memory is freed, whatever still comes from it is dropped.

        This is at once: what was sent to it a moment before may not arrive any more.
        """
        # Messages of it may lie in ZeroMQ's queue already: they are dropped by its name.
        self._fence(peer)
        found = self._peers.pop(peer, None)
        if found is not None:
            if self._by_fd.get(found.fd) is found:
                del self._by_fd[found.fd]
            self._forget_pipe(found)
            found.cut()
            self._discarded += found.memory.drop(lambda _: True)

    def close(self) -> None:
        """End all connections and free all memory; nothing that waits is sent any more."""
        if self._closed:
            return
        self._closed = True
        self._poller.close()
        for peer in tuple(self._peers):
            self.disconnect(peer)
        self._take_back()
        if self._memory is not None:
            self._memory.close()
        self._socket.disable_monitor()
        self._context.destroy(linger=0)

    def _poll_once(self, timeout_s: float | None) -> list[LinkEvent]:
        ready, found = self._poller.wait(timeout_s)
        events: list[LinkEvent] = []
        happened = [event for event in found if not (isinstance(event, Readable) and isinstance(event.key, Peer))]
        if self._authenticator.zap in ready:
            self._authenticator.answer()
        if self._authenticator.monitor in ready:
            self._note_ended()
        ended = tuple(self._ended)  # those that end while messages are read wait for the next poll
        piped, self._behind = dict.fromkeys(self._behind), []
        piped |= {event.key: None for event in found if isinstance(event, Readable) and isinstance(event.key, Peer)}
        # A process whose end is seen may have written to its pipe after that was looked at, so then all of them are read.
        if an_end := bool(ended) or any(isinstance(event, Readable) for event in happened):
            piped |= dict.fromkeys(self._by_pipe.values())
        # Without a look at ZeroMQ where it has nothing: most ticks of nodes on this host never touch it.
        dry = self._drain(events) if self._socket in ready or an_end or self._is_wet else True
        self._is_wet = not dry
        piped |= dict.fromkeys(self._behind)  # those whose marks ZeroMQ has just brought the packets for
        self._behind = [peer for peer in piped if not self._drain_pipe(peer, events)]
        dry = dry and not self._behind
        events += happened  # after the messages: a process that has ended may have sent its work before
        if dry:
            # All that the ended connections had brought has been read: only now may it be said that they are gone.
            for gone in ended:
                self._ended.remove(gone)
                if self._peers.get(gone.identity) is gone:
                    self.disconnect(gone.identity)
                    events.append(Disconnected(gone.identity))
        for peer in self._peers.values():
            # A node to which nothing is sent for a while would run out of arena, although all that it wrote was read.
            if peer.flow.owes_ack(peer.memory.arena_bytes):
                with suppress(LinkError):
                    self._send_control(peer, PacketKind.ACK, b"")
        return events

    def _drain(self, events: list[LinkEvent]) -> bool:
        """Read what has come, up to a bound; returns whether that was all."""
        for _ in range(self._limits.messages_per_poll):
            try:
                identity = self._socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                return True
            peer = self._peers.get(identity)
            if peer is None:
                self._on_first_packet(identity)
                continue
            frame = self._socket.recv()
            after = self._rest()
            self.counts.wire_bytes += len(frame) + sum(map(len, after))
            if peer.channel is None:
                self._on_packet(peer, frame, after, events)
            else:
                if len(peer.over_wire) > _UNMARKED_MOST:
                    self._complain(peer, MalformedError("packets for which there are no marks"))
                    continue
                peer.over_wire.append((frame, after))
                if not self._drain_pipe(peer, events):
                    self._behind.append(peer)
        return False

    def _drain_pipe(self, peer: Peer, events: list[LinkEvent]) -> bool:
        """Read what has come through a node's pipe, up to a bound; returns whether that was all."""
        channel = peer.channel
        for _ in range(self._limits.messages_per_poll if channel is not None else 0):
            if channel is None or self._peers.get(peer.identity) is not peer:
                return True
            try:
                frame = channel.take()
            except MalformedError as error:
                self._complain(peer, error)
                frame = None
            if channel.read_fd < 0:
                self._forget_pipe(peer)
            if frame is None:
                return True
            if frame:
                self._on_packet(peer, frame, [], events)
            elif peer.over_wire:
                self._on_packet(peer, *peer.over_wire.popleft(), events)
            else:
                channel.put_back_mark()
                return True
        return channel is None

    def _forget_pipe(self, peer: Peer) -> None:
        for fd in [fd for fd, other in self._by_pipe.items() if other is peer]:
            self._poller.unwatch(fd)
            del self._by_pipe[fd]

    def _on_packet(self, peer: Peer, frame: bytes, after: list[bytes], events: list[LinkEvent]) -> None:
        self.counts.received += 1
        size = len(frame) + sum(map(len, after))
        try:
            packet = wire.unpack(frame, len(after), self._limits)
            peer.flow.on_read_by_peer(packet.read)
            if packet.kind == PacketKind.DATA:
                size += self._on_data(peer, packet, after, events)
            else:
                self._on_control(peer, packet)
        except MalformedError as error:
            self._complain(peer, error)
        except LinkError as error:
            self._log(f"node {_short(peer.identity)}: {error}")
        peer.flow.on_received(size)

    def _on_data(self, peer: Peer, packet: wire.Packet, after: list[bytes], events: list[LinkEvent]) -> int:
        """A message; returns how much of it lies in shared memory."""
        if any(part.via == wire.Via.NEIGHBOUR for part in packet.parts):
            raise MalformedError("a node names the memory of another one")
        if not self._leaves_in_place or not any(part.via in {wire.Via.SHARED, wire.Via.PACKED} for part in packet.parts):
            bulk, shared_bytes = wire.unpack_bulk(packet, after, peer.memory.fetch)
            events.append(Received(peer.identity, packet.message, wire.read_parts(bulk)))
        else:
            lease = peer.flow.lease()
            self._in_place.append(lease)

            def place(reference: PartRef) -> ArenaPart | None:
                segment = peer.memory.find(reference)
                return None if segment is None else ArenaPart(reference, segment, lease)

            parts, shared_bytes = wire.unpack_bulk(packet, after, place)
            events.append(ReceivedInPlace(peer.identity, packet.message, parts))
        self.counts.shared_bytes += shared_bytes
        return shared_bytes

    def _complain(self, peer: Peer, error: MalformedError) -> None:
        self.counts.malformed += 1
        peer.malformed += 1
        if peer.malformed == 1:  # once: a node must not be able to fill the log
            self._log(f"a message of node {_short(peer.identity)} was dropped, and so will others: {error}")

    def _rest(self) -> list[bytes]:
        """The further frames of a message; those beyond any bound are read and let go."""
        after: list[bytes] = []
        while self._socket.getsockopt(zmq.RCVMORE):
            frame = self._socket.recv()
            # One more than is allowed is kept, so that what is too much is found malformed and not cut to size.
            if len(after) <= self._limits.bulk_parts:
                after.append(frame)
        return after

    def _on_control(self, peer: Peer, packet: wire.Packet) -> None:
        """What a node's link says to ours."""
        if self._memory is None or not peer.wants_memory or packet.kind not in _OF_NODES:
            if packet.kind != PacketKind.ACK:
                raise MalformedError(f"a packet of kind {packet.kind}")
            return
        if packet.kind == PacketKind.PIPED:
            self._on_pipes_opened(peer, opened=wire.unpack_control(wire.PipesReply, packet.message).opened)
        elif packet.kind == PacketKind.GROW:
            wanted = wire.unpack_control(wire.GrowRequest, packet.message).size
            # Only to who has proved to be on this host: anybody else could make main take memory for nothing.
            self._offer(peer, self._memory.offer_arena(peer.memory, wanted) if peer.memory.broadcast >= 0 else None)
        else:
            reply = wire.unpack_control(SegmentReply, packet.message)
            if reply.use == SegmentUse.BROADCAST:
                was_local = peer.memory.broadcast >= 0
                self._offer(peer, self._memory.accept(peer.memory, reply))
                if peer.memory.broadcast >= 0 and not was_local:
                    self._offer_pipes(peer)
            else:
                self._discarded += self._memory.accept_arena(peer.memory, reply)

    def _offer_pipes(self, peer: Peer) -> None:
        if not self._pipes or peer.offered is not None:
            return
        try:
            peer.offered = OfferedPipes()
        except OSError as error:
            self._log(f"there are no pipes for node {_short(peer.identity)} ({error}): it is spoken to over the wire")
            return
        with suppress(LinkError):
            self._send_control(peer, PacketKind.PIPES, wire.pack_control(peer.offered.offer()))

    def _on_pipes_opened(self, peer: Peer, *, opened: bool) -> None:
        offered, peer.offered = peer.offered, None
        if offered is None:
            raise MalformedError("pipes that were not offered")
        if not opened:
            offered.close()
            return
        # What this node sends is in the pipe's order from its reply on; what it is sent, from this packet on. It may have left
        # already: then nothing reaches it, but what it wrote before lies in the pipe and is read.
        try:
            self._send_control(peer, PacketKind.PIPED, b"")
        except PeerStuckError:
            peer.end()  # it would wait for packets over the wire for ever
        except PeerGoneError:
            pass
        peer.channel = offered.accept()
        self._by_pipe[peer.channel.read_fd] = peer
        self._poller.watch(peer.channel.read_fd, peer)
        self._behind.append(peer)

    def _take_back(self) -> None:
        """What the last poll left in place is read no more; arenas that are gone are closed, also by other nodes."""
        for lease in self._in_place:
            lease.release()
        self._in_place.clear()
        for generation, segment in self._discarded:
            segment.close()
            for reader in self._peers.values():
                if reader.memory.neighbours.pop(generation, None) is not None:
                    with suppress(LinkError):
                        self._send_control(reader, PacketKind.UNMAP, wire.pack_control(wire.Unmap(generation)))
        self._discarded.clear()

    def _on_first_packet(self, identity: bytes) -> None:
        """The first message of a connection; of anything but a greeting nothing is kept."""
        frame = self._socket.recv(copy=False)
        self._rest()
        # The only moment at which ZeroMQ tells which connection and which key a message came by.
        content, fd, key = frame.bytes, frame.get(zmq.SRCFD), frame.get("User-Id")
        if identity in self._fenced:
            self.counts.dropped += 1
            return
        try:
            if len(content) > 1 and content[0] != wire.VERSION and content[1] == PacketKind.HELLO:
                self._log(f"a node was refused: its link has version {content[0]}, this one {wire.VERSION}")
                # The only answer to a stranger: it carries our version, so that the other side can say which ones do not fit.
                self._socket.send_multipart([identity, wire.pack(PacketKind.REFUSED, 0, b"")], zmq.DONTWAIT)
                return
            hello = _read_hello(content, self._limits)
        except (MalformedError, zmq.ZMQError) as error:
            self.counts.dropped += 1
            self._log(f"a message of an unknown peer was dropped: {error}")
            return
        self._admit(identity, int(fd), str(key), hello.shared_memory)

    def _admit(self, identity: bytes, fd: int, key: str, wants_memory: bool) -> None:
        # ZeroMQ tells the number of the connection's descriptor, which the kernel may give to another connection at any moment.
        # It is doubled before the reports are read: if they do not say that the connection ended, the handle is the right one.
        try:
            handle = _second_handle(fd)
        except OSError:
            return
        self._note_ended()
        if not self._authenticator.is_open(fd) or fd in self._by_fd:
            if fd in self._by_fd:  # two peers at one connection: one of them has ended unseen, and the other must come again
                handle.shutdown(socket.SHUT_RDWR)
            handle.close()
            self._fence(identity)
            return
        peer = Peer(identity, key, fd, handle, FlowControl(self._limits), PeerMemory(_short(identity)), wants_memory)
        peer.flow.on_received(0)  # its first packet
        peer.packer = compression.Packer(self._compress, partial(compression.delivery_rate_b_s, handle))
        self._peers[identity] = self._by_fd[fd] = peer
        if self._memory is not None and wants_memory:
            self._offer(peer, self._memory.offer_broadcast(peer.memory))

    def _fence(self, identity: bytes) -> None:
        """Whatever still comes under this name is dropped without a word."""
        self._fenced[identity] = None
        if len(self._fenced) > _FENCED_MOST:
            self._fenced.popitem(last=False)

    def _note_ended(self) -> None:
        """Which peers' connections have ended; what they had sent may still be unread."""
        for fd in self._authenticator.ended():
            found = self._by_fd.pop(fd, None)
            if found is not None:
                self._ended.append(found)

    def _send_control(self, peer: Peer, kind: int, message: bytes) -> None:
        packet = wire.pack(kind, peer.flow.read, message)
        self._send_frames(peer, [packet], len(packet), None)

    def _send_frames(
        self, peer: Peer, frames: Sequence[wire.Buffer], size: int, extent: Extent | None, leases: Sequence[Lease] = ()
    ) -> None:
        channel, first = peer.channel, frames[0]
        if channel is not None and len(frames) == 1 and isinstance(first, bytes) and len(first) <= PACKET_MOST:
            channel.put(first)
        else:
            self._send_over_wire(peer, frames)
            if channel is not None:
                channel.put_mark()
        self.counts.sent += 1
        peer.flow.on_sent(size, extent, leases)

    def _send_over_wire(self, peer: Peer, frames: Sequence[wire.Buffer]) -> None:
        try:
            self._socket.send(peer.identity, zmq.DONTWAIT | zmq.SNDMORE)
            for frame in frames[:-1]:
                self._socket.send(frame, zmq.DONTWAIT | zmq.SNDMORE)
            self._socket.send(frames[-1], zmq.DONTWAIT)
        # Nothing was sent in either case: ZeroMQ takes a message whole, and decides at its first frame.
        except zmq.Again:
            raise self._stuck(peer) from None
        except zmq.ZMQError as error:
            raise PeerGoneError(f"node {_short(peer.identity)} is no longer connected: {error}") from None

    def _grow(self) -> None:
        memory = self._memory
        if memory is None or not memory.grow():
            return
        for peer in self._peers.values():
            if peer.memory.broadcast >= 0:
                self._offer(peer, memory.offer_broadcast(peer.memory))

    def _offer(self, peer: Peer, offer: wire.SegmentOffer | None) -> None:
        if offer is not None:
            with suppress(LinkError):  # without it bulk goes over the wire
                self._send_control(peer, PacketKind.MAP, wire.pack_control(offer))

    def _in_use(self, generation: int) -> Iterator[int]:
        """The positions of the broadcast segment from which on nodes may still read."""
        for peer in self._peers.values():
            # The slowest reader holds the memory of all: what it has not acknowledged it may be reading now.
            start = peer.flow.oldest(generation)
            if start is not None:
                yield start

    def _known(self, peer: bytes) -> Peer:
        found = self._peers.get(peer)
        if found is None:
            raise PeerGoneError(f"node {_short(peer)} is not connected")
        return found

    def _ready_peer(self, peer: bytes) -> Peer:
        found = self._known(peer)
        if found.flow.is_full():
            raise self._stuck(found)
        return found

    def _stuck(self, peer: Peer) -> PeerStuckError:
        flow = peer.flow
        return PeerStuckError(
            f"node {_short(peer.identity)} does not read: {flow.waiting} messages, {flow.waiting_bytes} bytes wait for it"
        )


def _read_hello(content: bytes, limits: LinkLimits) -> wire.LinkHello:
    packet = wire.unpack(content, 0, limits)
    if packet.kind != PacketKind.HELLO:
        raise MalformedError(f"a packet of kind {packet.kind} came first")
    return wire.unpack_control(wire.LinkHello, packet.message)


def _second_handle(fd: int) -> socket.socket:
    double = os.dup(fd)
    try:
        return socket.socket(fileno=double)
    except OSError:
        os.close(double)
        raise


def _short(peer: bytes) -> str:
    return peer.hex()[-8:]
