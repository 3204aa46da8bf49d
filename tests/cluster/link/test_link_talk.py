"""What one end sends, the other end has: the same bytes in the same order, through shared memory and over the wire."""

import os
import threading

import numpy as np
import pytest

from samepath.cluster.link import Disconnected, LinkLimits, PeerGoneError, Readable, Received, Woken
from samepath.cluster.link.wire import LinkLimits as Limits
from samepath.cluster.link.wire import TooLargeError
from samepath.core.streams import stream
from tests.support.linking import collect, linked, node_process, segments_mapped

SIZES = (0, 1, 2048, 2049, 4096, 86_400, 1_000_000)
SMALL = LinkLimits(broadcast_bytes=1 << 14, arena_bytes=1 << 14, broadcast_bytes_max=1 << 16, arena_bytes_max=1 << 16)


def noise(key, size):
    return stream(7, "link", key).bytes(size)


def received(events):
    return [(event.message, *event.bulk) for event in events if isinstance(event, Received)]


@pytest.mark.parametrize("shared", [True, False])
def test_bytes_are_equal_both_ways(shared):
    bulk = [noise(size, size) for size in SIZES]
    with linked(shared=shared) as pair:
        pair.nodes[0].send(b"up", bulk)
        pair.main.send(pair.peers[0], b"down", bulk)
        pair.until(lambda: received(pair.at_main) and received(pair.at_nodes[0]))
        assert received(pair.at_main) == [(b"up", *bulk)]
        assert received(pair.at_nodes[0]) == [(b"down", *bulk)]
        assert (pair.main.counts.shared_bytes > 0) == shared
        assert (pair.main.counts.wire_bytes < 20_000) == shared


@pytest.mark.parametrize("shared", [True, False])
def test_arrays_are_sent_as_they_lie_in_memory(shared):
    image = np.arange(30_000, dtype=np.float32).reshape(100, 300)
    with linked(shared=shared) as pair:
        pair.nodes[0].send(b"", [image.data])
        pair.main.send(pair.peers[0], b"", [image.data])
        pair.until(lambda: received(pair.at_main) and received(pair.at_nodes[0]))
        assert received(pair.at_main) == received(pair.at_nodes[0]) == [(b"", image.tobytes())]


@pytest.mark.parametrize("shared", [True, False])
def test_bulk_of_20_megabytes_arrives_and_memory_grows_for_the_next_one(shared):
    large = noise("large", 20_000_000)
    with linked(shared=shared) as pair:
        for number in range(1, 3):
            pair.nodes[0].send(b"up", [large])
            pair.main.send(pair.peers[0], b"down", [large])
            pair.until(lambda n=number: len(received(pair.at_main)) == n and len(received(pair.at_nodes[0])) == n)
            pair.until(lambda: not shared or pair.has_room_for(len(large)))
        assert received(pair.at_main) == [(b"up", large)] * 2
        assert received(pair.at_nodes[0]) == [(b"down", large)] * 2
        assert pair.main.counts.shared_bytes == (len(large) if shared else 0)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("limits", [LinkLimits(), SMALL])
def test_many_messages_arrive_in_order_whatever_way_each_of_them_takes(shared, limits):
    chance = stream(7, "link", "sizes")
    packets = [(b"%d" % n, *(noise((n, i), int(chance.integers(0, 9000))) for i in range(n % 4))) for n in range(1500)]
    with linked(shared=shared, limits=limits) as pair:
        for count, (message, *bulk) in enumerate(packets):
            pair.nodes[0].send(message, bulk)
            pair.main.send(pair.peers[0], message, bulk)
            if count % 100 == 99:
                pair.until(lambda c=count: len(received(pair.at_main)) > c - 50 and len(received(pair.at_nodes[0])) > c - 50)
        pair.until(lambda: len(received(pair.at_main)) == len(received(pair.at_nodes[0])) == len(packets))
        assert received(pair.at_main) == packets
        assert received(pair.at_nodes[0]) == packets


def test_what_was_received_may_be_kept_while_its_memory_is_written_again():
    with linked(limits=SMALL) as pair:
        images = [noise(n, 8000) for n in range(20)]
        for count, image in enumerate(images, 1):
            pair.nodes[0].send(b"", [image])
            pair.main.broadcast({pair.peers[0]: b""}, image)
            pair.until(lambda c=count: len(received(pair.at_main)) == len(received(pair.at_nodes[0])) == c)
        assert received(pair.at_main) == received(pair.at_nodes[0]) == [(b"", image) for image in images]
        assert pair.main.counts.shared_bytes == 20 * 8000


@pytest.mark.parametrize("size", [100, 4096, 3_000_000])
def test_a_broadcast_reaches_those_with_and_without_shared_memory_and_names_those_it_does_not(size):
    bulk = noise("broadcast", size)
    with linked(3, node_shared=[True, False, True]) as pair:
        for number in range(1, 4):
            messages = {peer: b"%d" % n for n, peer in enumerate(pair.peers)} | {b"nobody": b""}
            failed = pair.main.broadcast(messages, bulk)
            assert list(failed) == [b"nobody"]
            assert isinstance(failed[b"nobody"], PeerGoneError)
            pair.until(lambda n=number: all(len(received(events)) == n for events in pair.at_nodes))
        assert [received(events) for events in pair.at_nodes] == [[(b"%d" % n, bulk)] * 3 for n in range(3)]
        assert [pair.main.is_local(peer) for peer in pair.peers] == [True, False, True]


def test_nodes_in_other_processes_send_back_what_they_got():
    with linked(0) as pair:
        main = pair.main
        with node_process(main.endpoint), node_process(main.endpoint):
            peers = [event.peer for event in collect(main, 2) if isinstance(event, Received)]
            for round_ in range(50):
                bulk = noise(round_, 50_000)
                assert not main.broadcast(dict.fromkeys(peers, b"%d" % round_), bulk)
                found = {event.peer: (event.message, *event.bulk) for event in collect(main, 2)}
                assert found == dict.fromkeys(peers, (b"%d" % round_, bulk))
            assert all(map(main.is_local, peers))


def test_another_thread_wakes_the_poll_and_descriptors_are_watched():
    with linked() as pair:
        main = pair.main
        thread = threading.Thread(target=main.wake)
        thread.start()
        assert main.poll(60.0) == [Woken()]
        thread.join()
        assert main.poll(0.0) == []
        reading, writing = os.pipe()
        main.watch(reading, ("pipe", 1))
        assert main.poll(0.0) == []
        os.write(writing, b"x")
        assert main.poll(60.0) == main.poll(60.0) == [Readable(("pipe", 1))]
        main.unwatch(reading)
        main.unwatch(reading)
        assert main.poll(0.0) == []
        os.close(reading)
        os.close(writing)
        pair.nodes[0].wake()
        assert pair.nodes[0].poll(60.0) == [Woken()]


def test_a_link_may_be_closed_twice_and_woken_afterwards():
    with linked() as pair:
        for link in pair.nodes:
            link.close()
            link.close()
            link.wake()
        gone = [event for event in collect(pair.main, len(pair.nodes), Disconnected) if isinstance(event, Disconnected)]
        assert len(gone) == len(pair.nodes), "each has gone once"
        pair.main.close()
        mapped = segments_mapped()
        pair.main.close()
        pair.main.wake()
        assert segments_mapped() == mapped


def test_what_is_beyond_the_limits_is_refused_before_it_is_sent():
    limits = Limits(message_bytes=100, bulk_bytes=10_000, bulk_parts=3)
    with linked(limits=limits) as pair:
        for send in (pair.nodes[0].send, lambda *args: pair.main.send(pair.peers[0], *args)):
            for message, bulk in ((bytes(101), ()), (b"", [bytes(10_001)]), (b"", [b""] * 4)):
                with pytest.raises(TooLargeError, match="limit"):
                    send(message, bulk)
            send(bytes(100), [bytes(10_000)] * 3)
        pair.until(lambda: received(pair.at_main) and received(pair.at_nodes[0]))
        refused = pair.main.broadcast({pair.peers[0]: b""}, bytes(10_001))
        assert [type(error) for error in refused.values()] == [TooLargeError]
        assert pair.main.broadcast({pair.peers[0]: b""}, bytes(10_000)) == {}
