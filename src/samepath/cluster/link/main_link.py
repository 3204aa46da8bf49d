"""Main's end of the link: one socket for all nodes, which never blocks and which no node can stop or bring down."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from socket import SHUT_RDWR
from typing import Final

from samepath.cluster.link import wire
from samepath.cluster.link.keys import Keys
from samepath.cluster.link.memory import Memory, Peer, compose, gather, second_handle
from samepath.cluster.link.sockets import Account, Piece, Waiter, listen
from samepath.cluster.link.wire import (
    Event,
    Gone,
    LinkCounts,
    LinkError,
    LinkLimits,
    MalformedError,
    PeerGoneError,
    PeerStuckError,
    Received,
    TooLargeError,
    zmq,
)
from samepath.core.clock import SYSTEM_CLOCK

# The gate of a main server: which keys are let in, which connections have ended, and which were turned away.

_ZAP: Final = "inproc://zeromq.zap.01"
_KEY_BYTES: Final = 32


class Gate:
    """Answers the questions of ZeroMQ's handshake (ZAP) and reads what it reports of connections. Belongs to one thread."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        socket: "zmq.Socket[bytes]",
        allowed: Callable[[str], bool] | None,
        log: Callable[[str], None],
    ) -> None:
        self._allowed = allowed
        self._log = log
        self.door = context.socket(zmq.REP)
        self.door.linger = 0
        self.door.bind(_ZAP)
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        self.monitor = socket.get_monitor_socket(events | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        self._open: set[int] = set()
        self.refused = 0

    def answer(self) -> None:
        """Answer all who wait at the door."""
        from zmq.utils import z85

        while True:
            try:
                request = self.door.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            version, number, _domain, address, _routing, mechanism, *credentials = request
            key = ""
            if mechanism == b"CURVE" and len(credentials) == 1 and len(credentials[0]) == _KEY_BYTES:
                key = z85.encode(credentials[0]).decode("ascii")
            if key and self._lets_in(key):
                reply = [b"200", b"OK", key.encode("ascii")]
            else:
                self.refused += 1
                self._log(f"a node at {address.decode('ascii', 'replace')} was refused: its key {key} is not known here")
                reply = [b"400", b"unknown key", b""]
            self.door.send_multipart([version, number, *reply, b""])

    def ended(self) -> list[int]:
        """File descriptors of the connections that have ended since; those that were turned away are logged."""
        from zmq.utils.monitor import parse_monitor_message

        ended: list[int] = []
        while True:
            try:
                event = parse_monitor_message(self.monitor.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return ended
            kind, value = event["event"], event["value"]
            if kind == zmq.EVENT_ACCEPTED:
                self._open.add(value)
            elif kind == zmq.EVENT_DISCONNECTED:
                self._open.discard(value)
                ended.append(value)
            elif kind == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self.refused += 1
                self._log("a connection was refused: it does not know this main server's public key, or is no node")
            else:
                self.refused += 1
                self._log("a connection broke off before it was let in: it died, had no key, or is no node")

    def is_open(self, fd: int) -> bool:
        """Is this a connection that has not ended, as far as was read?"""
        return fd in self._open

    def _lets_in(self, key: str) -> bool:
        try:
            return self._allowed is None or self._allowed(key)
        except Exception as error:  # whatever it is, the answer at the door is no
            self._log(f"a key could not be looked up: {error}")
            return False


_FORGOTTEN_MOST: Final = 4096


class MainLink:
    """Main's end. Belongs to one thread, ``wake`` excepted; poll it often, it also opens the door to new nodes."""

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
    ) -> None:
        """Listen. ``allowed`` says which public keys of nodes are let in, in this thread; None: all."""
        self._limits = limits or LinkLimits()
        self._log = log
        self._peers: dict[bytes, Peer] = {}
        self._by_fd: dict[int, Peer] = {}
        self._forgotten: OrderedDict[bytes, None] = OrderedDict()
        self._ended: list[Peer] = []
        self._closed = False
        self.counts = LinkCounts()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        try:
            self._gate = Gate(self._context, self._socket, allowed, log)
            self.endpoint, self.port = listen(self._socket, host, port, keys, self._limits)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._memory = Memory(self._limits, self._peers.values, log) if shared_memory else None
        self._waiter = Waiter(self._socket, self._gate.door, self._gate.monitor)

    def send(self, peer: bytes, message: bytes, bulk: Sequence[wire.Buffer] = ()) -> None:
        """Send without ever waiting; PeerGoneError, PeerStuckError or TooLargeError say that nothing was sent."""
        found = self._ready_peer(peer)
        memory = self._memory
        put = None
        if memory is not None and memory.reads_board(found):
            memory.begin()
            put = memory.put
        frames, size, piece = compose(found.account.received, message, bulk, put, self._limits)
        self._post(found, frames, size, piece)
        self._grow()

    def broadcast(self, messages: Mapping[bytes, bytes], bulk: bytes) -> dict[bytes, LinkError]:
        """Send each peer its message, and all of them the same bulk, which is written once for those on this host.

        Returns those to whom nothing could be sent, and why; the others have theirs.
        """
        failed: dict[bytes, LinkError] = {}
        if len(bulk) > self._limits.bulk_bytes:
            error = TooLargeError(
                f"{len(bulk)} bytes for all nodes are beyond the limit of the link, {self._limits.bulk_bytes} bytes"
            )
            return dict.fromkeys(messages, error)
        memory, stored = self._memory, None
        if memory is not None and len(bulk) > self._limits.embedded_bytes:
            memory.begin()
            if any(memory.reads_board(one) for one in (self._peers.get(peer) for peer in messages) if one is not None):
                stored = memory.put(bulk, len(bulk))
        for peer, message in messages.items():
            try:
                found = self._ready_peer(peer)
                put = (lambda _data, _length: stored) if memory is not None and memory.reads_board(found) else None
                frames, size, piece = compose(found.account.received, message, (bulk,), put, self._limits)
                self._post(found, frames, size, piece)
            except LinkError as error:
                failed[peer] = error
        self._grow()
        return failed

    def poll(self, timeout_s: float | None) -> list[Event]:
        """Wait until something happens, and say what; an empty list if nothing did in that time."""
        deadline_s = None if timeout_s is None else SYSTEM_CLOCK.monotonic_s() + timeout_s
        while True:
            left_s = None if deadline_s is None else max(0.0, deadline_s - SYSTEM_CLOCK.monotonic_s())
            events = self._poll_once(0.0 if self._ended else left_s)
            if events or left_s == 0.0:
                return events

    def wake(self) -> None:
        """Make the current or next poll return with ``Woken``; any thread may call it."""
        self._waiter.wake()

    def watch(self, fd: int, key: object) -> None:
        """Report ``Ready(key)`` at every poll as long as ``fd`` can be read."""
        self._waiter.watch(fd, key)

    def unwatch(self, fd: int) -> None:
        """Watch it no longer."""
        self._waiter.unwatch(fd)

    def peers(self) -> tuple[bytes, ...]:
        """Who is connected, in the order they came."""
        return tuple(self._peers)

    def key_of(self, peer: bytes) -> str:
        """The public key with which a peer was let in."""
        return self._known(peer).key

    def is_local(self, peer: bytes) -> bool:
        """Has the peer proved that it is on this host, so that its bulk goes through shared memory?"""
        return self._known(peer).board >= 0

    def waiting_bytes(self, peer: bytes) -> int:
        """How much was sent to a peer that it is not known to have read."""
        return self._known(peer).account.waiting_bytes

    def forget(self, peer: bytes) -> None:
        """Cut a peer off: its connection ends, its memory is freed, whatever still comes from it is dropped.

        This is at once: what was sent to it a moment before may not arrive any more.
        """
        self._fence(peer)
        found = self._peers.pop(peer, None)
        if found is not None:
            if self._by_fd.get(found.fd) is found:
                del self._by_fd[found.fd]
            found.cut()

    def close(self) -> None:
        """End all connections and free all memory; nothing that waits is sent any more."""
        if self._closed:
            return
        self._closed = True
        self._waiter.close()
        for peer in tuple(self._peers):
            self.forget(peer)
        if self._memory is not None:
            self._memory.close()
        self._socket.disable_monitor()
        self._context.destroy(linger=0)

    def _poll_once(self, timeout_s: float | None) -> list[Event]:
        ready, happened = self._waiter.wait(timeout_s)
        events: list[Event] = []
        if self._gate.door in ready:
            self._gate.answer()
        if self._gate.monitor in ready:
            self._note_ended()
        ended = tuple(self._ended)
        dry = self._drain(events)
        events += happened  # after the messages: a process that has ended may have sent its work before
        if dry:
            # All that the ended connections had brought has been read: only now may it be said that they are gone.
            for one in ended:
                self._ended.remove(one)
                if self._peers.get(one.identity) is one:
                    self.forget(one.identity)
                    events.append(Gone(one.identity))
        for peer in self._peers.values():
            if peer.account.owes_report(peer.arenas[-1].segment.size if peer.arenas else 0):
                with suppress(LinkError):
                    self._control(peer, wire.REPORT, b"")
        return events

    def _drain(self, events: list[Event]) -> bool:
        """Read what has come, up to a bound; returns whether that was all."""
        for _ in range(self._limits.messages_per_poll):
            try:
                identity = self._socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                return True
            peer = self._peers.get(identity)
            if peer is None:
                self._greet(identity)
                continue
            frame = self._socket.recv()
            after = self._rest()
            self.counts.received += 1
            size = len(frame) + sum(map(len, after))
            self.counts.wire_bytes += size
            try:
                letter = wire.unpack(frame, len(after), self._limits)
                peer.account.settle(letter.read)
                if letter.kind == wire.DATA:
                    bulk, shared_bytes = gather(letter, after, peer.arena)
                    size += shared_bytes
                    self.counts.shared_bytes += shared_bytes
                    events.append(Received(identity, letter.message, bulk))
                else:
                    self._obey(peer, letter)
            except MalformedError as error:
                self.counts.malformed += 1
                peer.malformed += 1
                if peer.malformed == 1:
                    self._log(f"a message of node {_short(identity)} was dropped, and so will others: {error}")
            except LinkError as error:
                self._log(f"node {_short(identity)}: {error}")
            peer.account.take(size)
        return False

    def _rest(self) -> list[bytes]:
        """The further frames of a message; those beyond any bound are read and let go."""
        after: list[bytes] = []
        while self._socket.getsockopt(zmq.RCVMORE):
            frame = self._socket.recv()
            if len(after) <= self._limits.bulk_parts:
                after.append(frame)
        return after

    def _obey(self, peer: Peer, letter: wire.Letter) -> None:
        """What a node's link says to ours."""
        if self._memory is None or not peer.wants_memory or letter.kind not in {wire.MAPPED, wire.WANT}:
            if letter.kind != wire.REPORT:
                raise MalformedError(f"a letter of kind {letter.kind}")
            return
        if letter.kind == wire.MAPPED:
            offer = self._memory.accept(peer, wire.unpack_answer(letter.message))
        else:
            wanted = wire.unpack_want(letter.message)
            offer = self._memory.offer_arena(peer, wanted) if peer.board >= 0 else None
        if offer is not None:
            self._control(peer, wire.MAP, wire.pack_offer(offer))

    def _greet(self, identity: bytes) -> None:
        """The first message of a connection; of anything but a greeting nothing is kept."""
        frame = self._socket.recv(copy=False)
        self._rest()
        content, fd, key = frame.bytes, frame.get(zmq.SRCFD), frame.get("User-Id")
        if identity in self._forgotten:
            self.counts.dropped += 1
            return
        try:
            if len(content) > 1 and content[0] != wire.VERSION and content[1] == wire.HELLO:
                self._log(f"a node was refused: its link has version {content[0]}, this one {wire.VERSION}")
                self._socket.send_multipart([identity, wire.pack(wire.REFUSED, 0, b"")], zmq.DONTWAIT)
                return
            letter = wire.unpack(content, 0, self._limits)
            wants_memory = wire.unpack_hello(letter)
        except (MalformedError, zmq.ZMQError) as error:
            self.counts.dropped += 1
            self._log(f"a message of an unknown peer was dropped: {error}")
            return
        self._admit(identity, int(fd), str(key), wants_memory)

    def _admit(self, identity: bytes, fd: int, key: str, wants_memory: bool) -> None:
        # The handle is doubled before the reports are read: if they do not say that the connection ended, it is the right one.
        try:
            line = second_handle(fd)
        except OSError:
            return
        self._note_ended()
        if not self._gate.is_open(fd) or fd in self._by_fd:
            if fd in self._by_fd:  # two peers at one connection: one of them has ended unseen, and the other must come again
                line.shutdown(SHUT_RDWR)
            line.close()
            self._fence(identity)
            return
        peer = Peer(identity, key, fd, line, Account(self._limits), wants_memory)
        peer.account.take(0)
        self._peers[identity] = self._by_fd[fd] = peer
        offer = self._memory.offer_board(peer) if self._memory is not None and wants_memory else None
        if offer is not None:
            with suppress(LinkError):
                self._control(peer, wire.MAP, wire.pack_offer(offer))

    def _fence(self, identity: bytes) -> None:
        """Whatever still comes under this name is dropped without a word."""
        self._forgotten[identity] = None
        if len(self._forgotten) > _FORGOTTEN_MOST:
            self._forgotten.popitem(last=False)

    def _note_ended(self) -> None:
        """Which peers' connections have ended; what they had sent may still be unread."""
        for fd in self._gate.ended():
            found = self._by_fd.pop(fd, None)
            if found is not None:
                self._ended.append(found)

    def _control(self, peer: Peer, kind: int, message: bytes) -> None:
        letter = wire.pack(kind, peer.account.received, message)
        self._post(peer, [letter], len(letter), None)

    def _post(self, peer: Peer, frames: Sequence[wire.Buffer], size: int, piece: Piece | None) -> None:
        try:
            self._socket.send(peer.identity, zmq.DONTWAIT | zmq.SNDMORE)
            for frame in frames[:-1]:
                self._socket.send(frame, zmq.DONTWAIT | zmq.SNDMORE)
            self._socket.send(frames[-1], zmq.DONTWAIT)
        except zmq.Again:
            raise self._stuck(peer) from None
        except zmq.ZMQError as error:
            raise PeerGoneError(f"node {_short(peer.identity)} is no longer connected: {error}") from None
        self.counts.sent += 1
        peer.account.post(size, piece)

    def _grow(self) -> None:
        memory = self._memory
        if memory is None or not memory.grown():
            return
        for peer in self._peers.values():
            offer = memory.offer_board(peer) if peer.board >= 0 else None
            if offer is not None:
                with suppress(LinkError):
                    self._control(peer, wire.MAP, wire.pack_offer(offer))

    def _known(self, peer: bytes) -> Peer:
        found = self._peers.get(peer)
        if found is None:
            raise PeerGoneError(f"node {_short(peer)} is not connected")
        return found

    def _ready_peer(self, peer: bytes) -> Peer:
        found = self._known(peer)
        if found.account.is_full():
            raise self._stuck(found)
        return found

    def _stuck(self, peer: Peer) -> PeerStuckError:
        account = peer.account
        return PeerStuckError(
            f"node {_short(peer.identity)} does not read: {account.waiting} messages, {account.waiting_bytes} bytes wait for it"
        )


def _short(peer: bytes) -> str:
    return peer.hex()[-8:]
