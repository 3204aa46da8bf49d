"""Nodes that die, freeze or talk nonsense harm nobody but themselves; a main server that dies leaves nothing behind."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from samepath.cluster.link import (
    Disconnected,
    Keys,
    LinkLimits,
    LinkLostError,
    NodeLink,
    PeerGoneError,
    PeerStuckError,
    Readable,
    Received,
    wire,
)
from samepath.cluster.link.memory import Segment
from samepath.core.streams import stream
from tests.support import linking
from tests.support.linking import NODE_KEYS, collect, handles, linked, node_process, raw_dealer, segments_mapped, wait_until

IMAGE = bytes(range(256)) * 400
TIGHT = LinkLimits(waiting_messages=50, waiting_bytes=4 << 20, ack_messages=8)


def joined(main, count=1):
    return [event.peer for event in collect(main, count) if isinstance(event, Received)]


def test_a_frozen_node_does_not_block_main_and_is_cut_off_when_forgotten():
    with linked(0, limits=TIGHT) as pair:
        main = pair.main
        with node_process(main.endpoint) as frozen, ExitStack() as later:
            (slow,) = joined(main)
            well = later.enter_context(node_process(main.endpoint))
            (other,) = joined(main)
            for peer in (slow, other):
                main.send(peer, b"ping")
            collect(main, 2)
            frozen.send_signal(signal.SIGSTOP)
            text = ""
            served = {slow: 0, other: 0}

            def answered():
                for event in main.poll(0.02):
                    served[event.peer] -= 1
                return not served[other]

            while not text:
                main.send(other, b"draw", [IMAGE])
                served[other] += 1
                try:
                    main.send(slow, b"draw", [IMAGE])
                    served[slow] += 1
                except PeerStuckError as error:
                    text = str(error)
                # Waited for: a machine that is busy may let this one stand still, too, and it would be the one that is stuck.
                wait_until(answered)
            assert "does not read" in text
            assert served[slow] <= 51
            assert main.waiting_bytes(slow) <= 5 << 20
            main.disconnect(slow)
            with pytest.raises(PeerGoneError):
                main.send(slow, b"draw")
            main.send(other, b"still", [IMAGE])
            wait_until(lambda: any(isinstance(event, Received) and event.message == b"still" for event in main.poll(0.1)))
            frozen.send_signal(signal.SIGCONT)
            assert frozen.stdout.readline().startswith("LinkLostError: ")
            assert frozen.wait(60) == 0
            assert well.poll() is None


def test_a_killed_node_is_gone_after_its_last_message_and_its_memory_is_freed():
    with linked(0) as pair:
        main = pair.main
        before = handles(), segments_mapped()
        with node_process(main.endpoint) as process:
            (peer,) = joined(main)
            handle = os.pidfd_open(process.pid)
            main.watch(handle, "node-1")
            for n in range(30):
                main.send(peer, b"%d" % n, [IMAGE])
            collect(main, 10)
            assert segments_mapped() == before[1] + 1
            process.kill()
            events = collect(main, 1, Disconnected)
            assert events[-1] == Disconnected(peer)
            wait_until(lambda: Readable("node-1") in main.poll(0.1))
            main.unwatch(handle)
            os.close(handle)
            with pytest.raises(PeerGoneError, match="not connected"):
                main.send(peer, b"there?")
            assert list(main.broadcast({peer: b""}, IMAGE)) == [peer]
            assert main.peers() == ()
        wait_until(lambda: main.poll(0.01) or (handles(), segments_mapped()) == before)


def test_all_that_a_node_sent_before_it_left_is_received_before_it_is_gone():
    with linked(1, limits=LinkLimits(messages_per_poll=100)) as pair:
        node = pair.nodes.pop()
        pair.at_nodes.pop()
        for n in range(1500):
            node.send(b"%d" % n, [IMAGE] if n % 100 == 0 else ())
        closing = threading.Thread(target=node.close, args=(60.0,))
        closing.start()
        pair.until(lambda: Disconnected(node.identity) in pair.at_main)
        closing.join()
        assert [event.message for event in pair.at_main[:-1]] == [b"%d" % n for n in range(1500)]
        assert pair.at_main[1400].bulk == (IMAGE,)


def test_every_node_that_came_is_gone_once_however_fast_they_come_and_go():
    with linked(0) as pair:
        main = pair.main
        before = handles(), segments_mapped()
        came, gone = [], []

        def note(timeout_s):
            for event in main.poll(timeout_s):
                (gone if isinstance(event, Disconnected) else came).append(event.peer)

        for n in range(25):
            node = NodeLink(main.endpoint, NODE_KEYS, linking.MAIN_KEYS.public)
            node.send(b"here")
            left = n
            while node.identity not in came if n % 2 else left:
                note(0.001)
                left -= 1
                try:
                    node.poll(0.0)
                except LinkLostError:  # main has not yet seen that another one left this place: the node must come again
                    node.close()
                    node = NodeLink(main.endpoint, NODE_KEYS, linking.MAIN_KEYS.public)
                    node.send(b"here")
            node.close()
        # Connections that ended before they were made are closed by ZeroMQ when it sees it.
        wait_until(lambda: note(0.01) or (len(gone) >= len(came) and (handles(), segments_mapped()) == before))
        assert len(came) >= 12
        assert sorted(came) == sorted(gone)
        assert main.peers() == ()


def test_closing_frees_everything_on_both_sides():
    before = handles(), segments_mapped()
    with linked(2) as pair:
        assert segments_mapped() > before[1]
        pair.nodes[0].send(b"", [IMAGE])
    assert (handles(), segments_mapped()) == before


def shared_files():
    return set(Path("/dev/shm").iterdir()) if Path("/dev/shm").is_dir() else set()


def test_a_main_server_that_is_killed_leaves_no_memory_and_its_node_is_told():
    shown = shared_files()
    process = subprocess.Popen([sys.executable, linking.__file__, "main"], stdout=subprocess.PIPE, text=True)
    endpoint, main_public, public, secret = process.stdout.readline().split()
    node = NodeLink(endpoint, Keys(public, secret), main_public)
    before = segments_mapped()
    wait_until(lambda: (node.poll(0.01), node.is_local)[1])
    node.send(b"here", [IMAGE])
    (event,) = collect(node, 1)
    assert event.bulk == (IMAGE,)
    assert segments_mapped() == before + 2
    process.kill()
    process.wait()
    process.stdout.close()
    with pytest.raises(LinkLostError, match="has gone"):
        node.poll(60.0)
    with pytest.raises(LinkLostError):
        node.send(b"here", [IMAGE])
    node.close()
    assert segments_mapped() == before
    # Tests beside this one have files there, too, for a moment: what would be left of the main server stays.
    wait_until(lambda: shared_files() <= shown)


def test_what_a_forgotten_node_still_sends_is_dropped_and_it_cannot_come_back_under_its_name():
    with linked(0) as pair:
        main = pair.main
        with raw_dealer(main.endpoint, b"ghost") as ghost:
            ghost.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(False))))
            ghost.send(wire.pack(wire.PacketKind.DATA, 0, b"here"))
            assert joined(main) == [b"ghost"]
            ghost.send(wire.pack(wire.PacketKind.DATA, 0, b"sent before it was forgotten"))
            main.disconnect(b"ghost")
            # ZeroMQ connects again by itself and greets with the same name.
            while not main.counts.dropped:
                ghost.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(False))))
                assert main.poll(0.02) == []
        assert main.peers() == ()


def test_junk_of_an_authenticated_peer_is_dropped_with_one_line_and_others_are_served():
    chance = stream(7, "link", "junk")
    good = wire.pack(wire.PacketKind.DATA, 0, b"message", [wire.PartRef(wire.Via.INLINE, 0, 0, 3)], [b"abc"])
    with linked(1) as pair, raw_dealer(pair.main.endpoint, b"rogue") as rogue:
        rogue.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(True))))
        pair.until(lambda: b"rogue" in pair.main.peers())
        pair.log.clear()
        for n in range(1500):
            frames = [chance.bytes(int(chance.integers(0, 80))) for _ in range(int(chance.integers(1, 4)))]
            if n % 3:
                packet = bytearray(wire.pack(n % 8, int(chance.integers(0, 3)), frames[0]) if n % 2 else good)
                packet[int(chance.integers(0, len(packet)))] = int(chance.integers(0, 256))
                frames[:1] = [bytes(packet)]
            rogue.send_multipart(frames)
        before = pair.main.counts.received
        pair.nodes[0].send(b"good", [IMAGE])
        pair.until(lambda: pair.main.counts.received >= before + 1501)
        assert Received(pair.peers[0], b"good", (IMAGE,)) in pair.at_main
        assert pair.main.counts.malformed > 1000
        assert len(pair.log) <= 2
        assert "was dropped" in pair.log[0]
        pair.main.send(pair.peers[0], b"fine", [IMAGE])
        pair.until(lambda: pair.at_nodes[0])


@pytest.mark.parametrize(
    "place",
    [
        wire.PartRef(wire.Via.SHARED, 1, 0, 1000),
        wire.PartRef(wire.Via.SHARED, 0, 0, 10),
        wire.PartRef(wire.Via.SHARED, 2, 1 << 40, 10),
        wire.PartRef(wire.Via.SHARED, 2, (4 << 20) - 5, 10),
        wire.PartRef(wire.Via.FRAME, 0, 0, 10),
        wire.PartRef(wire.Via.INLINE, 0, 0, 10),
        wire.PartRef(wire.Via.INLINE, 0, 0, 1 << 63),
    ],
)
def test_a_place_that_is_not_the_peers_own_is_not_read(place):
    with linked(1) as pair, raw_dealer(pair.main.endpoint, b"rogue") as rogue:
        greet_truly(pair, rogue)
        rogue.send(wire.pack(wire.PacketKind.DATA, 2, b"", [place]))
        pair.until(lambda: pair.main.counts.malformed == 1)
        rogue.send(wire.pack(wire.PacketKind.DATA, 2, b"", [wire.PartRef(wire.Via.SHARED, 2, (4 << 20) - 10, 10)]))
        pair.until(lambda: pair.at_main)
        assert pair.at_main == [Received(b"rogue", b"", (bytes(10),))]


def greet_truly(pair, rogue):
    """Do what a node does until it has an arena; it is the second of this main server."""
    rogue.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(True))))
    for read in (1, 2):
        pair.until(lambda: rogue.poll(0))
        offer = wire.unpack_control(wire.SegmentOffer, wire.unpack(rogue.recv(), 0, LinkLimits()).message)
        segment = Segment.open(offer, write=offer.use == wire.SegmentUse.ARENA)
        reply = wire.SegmentReply(offer.use, offer.generation, True, segment.nonce)
        rogue.send(wire.pack(wire.PacketKind.MAPPED, read, wire.pack_control(reply)))
        segment.close()
    pair.until(lambda: pair.main.is_local(b"rogue"))


@pytest.mark.parametrize("opened", [True, False])
def test_a_peer_that_cannot_tell_the_nonce_is_not_taken_for_one_of_this_host(opened):
    with linked(0, compress="off") as pair, raw_dealer(pair.main.endpoint, b"liar") as liar:
        liar.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(True))))
        liar.send(
            wire.pack(
                wire.PacketKind.MAPPED, 0, wire.pack_control(wire.SegmentReply(wire.SegmentUse.BROADCAST, 0, opened, bytes(16)))
            )
        )
        liar.send(wire.pack(wire.PacketKind.GROW, 0, wire.pack_control(wire.GrowRequest(1 << 20))))
        liar.send(wire.pack(wire.PacketKind.DATA, 0, b"end"))
        assert joined(pair.main) == [b"liar"]
        assert not pair.main.is_local(b"liar")
        pair.main.send(b"liar", b"image", [IMAGE])
        assert liar.recv_multipart()[0][1] == wire.PacketKind.MAP
        assert liar.recv_multipart()[1] == IMAGE


@pytest.mark.parametrize("where", ["main has none", "main is short of it later", "a node cannot reach it"])
def test_without_shared_memory_everything_goes_over_the_wire_and_that_is_said_once(monkeypatch, where):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    if where == "main has none":
        monkeypatch.setattr(os, "memfd_create", refuse)
    elif where == "a node cannot reach it":
        monkeypatch.setattr(Segment, "open", refuse)
    sizes = [100_000, 9_000_000, 9_000_000]
    with linked(2, node_shared=[False, False]) as pair:
        late = NodeLink(pair.main.endpoint, NODE_KEYS, linking.MAIN_KEYS.public, log=pair.log.append)
        pair.nodes.append(late)
        pair.at_nodes.append([])
        try:
            pair.until(lambda: len(pair.main.peers()) == 3)
            if where == "main is short of it later":
                pair.until(lambda: late.is_local and pair.main.is_local(late.identity))
                monkeypatch.setattr(os, "memfd_create", refuse)
            for count, size in enumerate(sizes, 1):
                late.send(b"up", [bytes(size)])
                pair.main.send(late.identity, b"down", [bytes(size)])
                pair.until(lambda c=count: len(pair.at_main) == c and len(pair.at_nodes[2]) == c)
            assert [len(event.bulk[0]) for event in pair.at_main] == sizes
            assert [len(event.bulk[0]) for event in pair.at_nodes[2]] == sizes
            assert pair.main.counts.shared_bytes == (100_000 if where == "main is short of it later" else 0)
            assert sum("travel over the wire" in line for line in pair.log) == (2 if where == "a node cannot reach it" else 1)
        finally:
            late.close()


def test_a_segment_that_was_replaced_while_a_node_looked_for_it_is_shown_to_it_again():
    with linked(1) as pair, raw_dealer(pair.main.endpoint, b"slow") as slow:
        slow.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(True))))
        pair.until(lambda: b"slow" in pair.main.peers())
        first = wire.unpack_control(wire.SegmentOffer, slow.recv()[12:])
        pair.main.send(pair.peers[0], b"more than the segment holds", [bytes(3_000_000)])
        with pytest.raises(OSError, match="Errno"):
            Segment.open(first, write=False)
        slow.send(
            wire.pack(
                wire.PacketKind.MAPPED,
                1,
                wire.pack_control(wire.SegmentReply(wire.SegmentUse.BROADCAST, first.generation, False, bytes(16))),
            )
        )
        pair.until(lambda: slow.poll(0))
        second = wire.unpack_control(wire.SegmentOffer, slow.recv()[12:])
        segment = Segment.open(second, write=False)
        answer = wire.SegmentReply(wire.SegmentUse.BROADCAST, second.generation, True, segment.nonce)
        slow.send(wire.pack(wire.PacketKind.MAPPED, 2, wire.pack_control(answer)))
        pair.until(lambda: pair.main.is_local(b"slow"))
        segment.close()
        assert pair.log == []


def test_memory_cannot_be_pulled_away_and_the_broadcast_segment_cannot_be_written_by_nodes():
    broadcast, arena = Segment.make(10_000, nodes_write=False), Segment.make(10_000, nodes_write=True)
    for segment in (broadcast, arena):
        offer = segment.offer(0, 0)
        fd = os.open(f"/proc/{offer.pid}/fd/{offer.fd}", os.O_RDWR)
        for size in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        os.close(fd)
    with pytest.raises(PermissionError):
        Segment.open(broadcast.offer(0, 0), write=True)
    node = Segment.open(arena.offer(1, 0), write=True)
    node.write(9_990, b"0123456789", 10)
    assert arena.read(9_990, 10) == b"0123456789"
    for segment in (node, broadcast, arena):
        segment.close()


def test_a_handle_that_is_another_file_is_not_taken_for_shared_memory(tmp_path):
    segment, other = Segment.make(5000, nodes_write=True), Segment.make(5000, nodes_write=True)
    offer = segment.offer(0, 0)
    plain = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    for changes in (
        {"fd": plain},
        {"fd": other.offer(0, 0).fd},
        {"fd": 10_000},
        {"pid": 0},
        {"size": 4999},
        {"identity": bytes(16)},
    ):
        with pytest.raises(OSError, match=r"Errno"):
            Segment.open(msgspec.structs.replace(offer, **changes), write=True)
    Segment.open(offer, write=True).close()
    os.close(plain)
    segment.close()
    other.close()


def test_a_node_whose_main_server_does_not_read_waits_and_then_says_so():
    limits = LinkLimits(waiting_bytes=1 << 20, stuck_s=0.2, ack_messages=2)
    with linked(1, shared=False, limits=limits) as pair:
        with pytest.raises(PeerStuckError, match=r"has not read for 0.2 s"):
            for _ in range(100):
                pair.nodes[0].send(b"", [IMAGE])
        pair.until(lambda: len(pair.at_main) == 11 and not pair.nodes[0]._flow.is_full())
        pair.nodes[0].send(b"again", [IMAGE])
        pair.until(lambda: pair.at_main[-1].message == b"again")
