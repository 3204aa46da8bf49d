"""On one host: packets through pipes, in one order with what goes over ZeroMQ; frames from node to node, where they lie."""

import threading

import pytest

from samepath.cluster.link import ArenaPart, Disconnected, LinkLimits, Received, ReceivedInPlace, channel, node_link, wire
from samepath.cluster.link.channel import PACKET_MOST, OfferedPipes, PipeChannel
from samepath.core.streams import stream
from tests.support.linking import linked, node_process, segments_mapped, wait_until

SMALL = LinkLimits(broadcast_bytes=1 << 16, arena_bytes=1 << 16, broadcast_bytes_max=1 << 16, arena_bytes_max=1 << 16)


def noise(key, size=20_000):
    return stream(7, "neighbours", key).bytes(size)


def received(events):
    return [(event.message, *event.bulk) for event in events if isinstance(event, Received)]


def piped(pair):
    """Wait until everything goes through pipes."""
    pair.until(lambda: all(node._reads_pipe for node in pair.nodes))
    return pair


def passed_on(pair, writer, reader, frames):
    """Let main pass on so many frames of one node to another, which does not read them yet."""
    for number in frames:
        pair.nodes[writer].send(b"%d" % number, [noise(number)])
    left = len(frames)

    def pass_on():
        nonlocal left
        for event in pair.main.poll(1.0, in_place=True):
            if isinstance(event, Received | ReceivedInPlace):
                pair.main.send(pair.peers[reader], event.message, (b"head", *event.bulk))
                left -= 1
        return not left

    wait_until(pass_on)


def test_a_frame_goes_from_node_to_node_and_main_never_copies_it():
    with linked(2) as pair:
        piped(pair)
        passed_on(pair, 0, 1, [1])  # the first time the reader is told where the memory is, and gets a copy
        pair.until(lambda: received(pair.at_nodes[1]))
        assert pair.main.counts.passed_bytes == 0
        pair.until(lambda: pair.main._peers[pair.peers[1]].memory.neighbours)
        pair.until(lambda: all(pair.main._peers[pair.peers[1]].memory.neighbours.values()))
        passed_on(pair, 0, 1, range(2, 6))
        pair.until(lambda: len(received(pair.at_nodes[1])) == 5)
        assert received(pair.at_nodes[1]) == [(b"%d" % number, b"head", noise(number)) for number in range(1, 6)]
        assert pair.main.counts.passed_bytes == 4 * 20_000


def told(pair):
    """Both nodes have each other's memory."""
    piped(pair)
    for writer, reader in ((0, 1), (1, 0)):
        passed_on(pair, writer, reader, [0])
        neighbours = pair.main._peers[pair.peers[reader]].memory.neighbours
        pair.until(lambda known=neighbours: known and all(known.values()))
    pair.until(lambda: all(received(events) for events in pair.at_nodes))
    for events in pair.at_nodes:
        events.clear()
    pair.main.counts.passed_bytes = 0


def test_what_was_passed_on_is_not_overwritten_before_it_is_read():
    """The writer's memory has room for three frames. It writes forty, and who is to read them is busy with something else."""
    with linked(2, limits=SMALL) as pair:
        told(pair)
        for first in range(1, 41, 4):
            passed_on(pair, 0, 1, range(first, first + 4))
            pair.nodes[0].poll(0.0)
        assert pair.main.counts.passed_bytes >= 3 * 20_000
        pair.until(lambda: len(received(pair.at_nodes[1])) == 40)
        assert received(pair.at_nodes[1]) == [(b"%d" % number, b"head", noise(number)) for number in range(1, 41)]


def test_memory_becomes_free_when_the_reader_has_read_and_when_it_is_gone():
    with linked(2, limits=SMALL) as pair:
        told(pair)
        writer, reader = pair.nodes

        def waits_for(message):
            """How much the writer has to keep once it has read this."""
            pair.main.poll(0.0)
            pair.main.send(writer.identity, message)
            wait_until(lambda: any(isinstance(event, Received) for event in writer.poll(0.01)))
            return writer._flow.waiting

        passed_on(pair, 0, 1, [1, 2])
        assert waits_for(b"not yet") == 2
        wait_until(lambda: any(isinstance(event, Received) for event in reader.poll(0.01)))
        reader.send(b"read")
        wait_until(lambda: any(isinstance(event, Received) for event in pair.main.poll(0.01)))
        assert waits_for(b"now") == 0
        passed_on(pair, 0, 1, [3, 4])
        assert waits_for(b"not yet") == 2
        pair.main.disconnect(reader.identity)
        assert waits_for(b"now") == 0


def test_what_a_node_wrote_before_it_was_killed_is_read_by_the_other_and_its_memory_is_let_go():
    with linked(1) as pair:
        piped(pair)
        main, (reader,) = pair.main, pair.nodes
        before = segments_mapped()
        with node_process(main.endpoint) as process:
            pair.until(lambda: len(main.peers()) == 2)
            (writer,) = set(main.peers()) - {reader.identity}
            pair.until(lambda: main.is_local(writer) and main._peers[writer].channel is not None)
            for number in range(3):
                main.send(writer, b"%d" % number, [noise(number)])  # it sends everything back
            came = []

            def look():
                for event in main.poll(1.0, in_place=True):
                    if isinstance(event, ReceivedInPlace):
                        came.append(event.message)
                        main.send(reader.identity, event.message, event.bulk)
                        pair.at_nodes[0].extend(reader.poll(0.0))
                return len(came)

            wait_until(lambda: look() >= 3)
            pair.until(lambda: True in main._peers[reader.identity].memory.neighbours.values())
            for number in range(3, 6):
                main.send(writer, b"%d" % number, [noise(number)])
            wait_until(lambda: look() >= 6)
            assert main.counts.passed_bytes > 0
            process.kill()
            process.wait()
            pair.until(lambda: Disconnected(writer) in pair.at_main)
        pair.until(lambda: len(received(pair.at_nodes[0])) == 6)
        assert received(pair.at_nodes[0]) == [(b"%d" % number, noise(number)) for number in range(6)]
        pair.until(lambda: segments_mapped() == before)


def test_there_is_one_order_of_what_goes_through_the_pipe_and_over_zeromq():
    with linked() as pair:
        piped(pair)
        sizes = [10, PACKET_MOST + 1, 20, 100_000, PACKET_MOST - 40, 3, 60_000, 1] * 8
        messages = [b"%04d" % number + bytes(size) for number, size in enumerate(sizes)]
        for message in messages:
            pair.nodes[0].send(message)
            pair.main.send(pair.peers[0], message)
        pair.until(lambda: len(received(pair.at_main)) == len(received(pair.at_nodes[0])) == len(messages))
        assert [message for (message,) in received(pair.at_main)] == messages
        assert [message for (message,) in received(pair.at_nodes[0])] == messages
        assert pair.nodes[0]._reads_pipe


def test_a_full_pipe_holds_nobody_up_and_loses_nothing():
    with linked() as pair:
        piped(pair)
        count = 5000
        for number in range(count):  # 1.5 MB, of which a pipe holds a sixth
            pair.main.send(pair.peers[0], b"%d" % number + bytes(300))
            pair.nodes[0].send(b"%d" % number + bytes(300))
        assert pair.main._peers[pair.peers[0]].channel.has_unsent
        assert pair.nodes[0]._channel.has_unsent
        pair.until(lambda: len(received(pair.at_main)) == len(received(pair.at_nodes[0])) == count)
        for events in (pair.at_main, pair.at_nodes[0]):
            assert [message.rstrip(b"\0") for (message,) in received(events)] == [b"%d" % number for number in range(count)]


def test_any_thread_may_write_to_the_pipe_and_keeps_its_order():
    with linked() as pair:
        piped(pair)
        node, refused = pair.nodes[0], []

        def say(thread):
            sent = [
                node.try_send(b"%d %d" % (thread, number), [noise(thread, 3000)] if number % 7 == 0 else ())
                for number in range(300)
            ]
            refused.extend([thread] * sent.count(False))

        threads = [threading.Thread(target=say, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        pair.until(lambda: len(received(pair.at_main)) + len(refused) == 1200)
        for thread in threads:
            thread.join()
        for number in range(4):
            own = [event for event in received(pair.at_main) if event[0].startswith(b"%d " % number)]
            order = [int(event[0].split()[1]) for event in own]
            assert order == sorted(order)
            assert all(event[1] == noise(number, 3000) for event in own if len(event) > 1)
        assert len(refused) < 100  # while the memory was full


def test_where_there_are_no_pipes_and_no_shared_memory_nothing_is_sent_by_others_than_the_links_thread():
    with linked(shared=False) as pair:
        assert not pair.nodes[0].try_send(b"from anywhere")


def test_what_no_pipe_takes_is_left_to_the_links_thread_and_leaves_the_memory_as_it_was():
    with linked(limits=SMALL) as pair:
        piped(pair)
        node = pair.nodes[0]
        ring = node._arena.ring
        before = ring.head, ring.tail
        assert not node.try_send(b"", [noise(1), noise(2), noise(3), noise(4)])  # the fourth does not fit
        assert (ring.head, ring.tail) == before
        assert node._flow.waiting == 0 or node._flow.sent > 0
        assert not node.try_send(bytes(PACKET_MOST))
        node.send(b"", [noise(1), noise(2), noise(3), noise(4)])
        pair.until(lambda: received(pair.at_main))
        assert received(pair.at_main) == [(b"", noise(1), noise(2), noise(3), noise(4))]


def test_a_node_that_cannot_open_the_pipes_is_spoken_to_over_the_wire(monkeypatch):
    def refuse(_):
        raise PermissionError("no")

    monkeypatch.setattr(node_link.channel, "opened", refuse)
    with linked() as pair:
        pair.nodes[0].send(b"up", [noise(1)])
        pair.main.send(pair.peers[0], b"down", [noise(2)])
        pair.until(lambda: received(pair.at_main) and received(pair.at_nodes[0]))
        assert received(pair.at_main) == [(b"up", noise(1))]
        assert received(pair.at_nodes[0]) == [(b"down", noise(2))]
        pair.until(lambda: any("pipes of the main server cannot be used" in line for line in pair.log))
        assert pair.main._peers[pair.peers[0]].channel is None


def test_a_node_cannot_name_the_memory_of_another_one():
    with linked(2) as pair:
        told(pair)
        (generation, _), *_ = pair.main._peers[pair.peers[1]].memory.arenas
        part = wire.PartRef(wire.Via.NEIGHBOUR, generation, 0, 20_000)
        pair.nodes[0]._send_frames([wire.pack(wire.PacketKind.DATA, 0, b"mine", [part])], 100, None)
        pair.until(lambda: pair.main.counts.malformed)
        assert not [event for event in pair.at_main if isinstance(event, Received) and event.message == b"mine"]


@pytest.mark.parametrize("rubbish", [b"\xff\xff\xff\xff", (PACKET_MOST + 1).to_bytes(4, "little") + b"x"])
def test_rubbish_in_a_pipe_ends_the_pipe_and_nothing_else(rubbish):
    pipes = OfferedPipes()
    theirs = channel.opened(pipes.offer())
    ours = pipes.accept()
    theirs.put(b"before")
    theirs._write(rubbish)
    with pytest.raises(wire.MalformedError):
        ours.take()
    assert ours.read_fd == -1
    assert ours.take() == b"before"
    assert ours.take() is None
    ours.close()
    theirs.close()


def test_pipes_of_another_namespace_are_not_opened():
    pipes = OfferedPipes()
    offer = pipes.offer()
    other = wire.PipesOffer(offer.pid, offer.down, offer.up, ("pipe:[1]", offer.names[1]))
    with pytest.raises(FileNotFoundError, match="not on this host"):
        channel.opened(other)
    pipes.close()


def test_a_part_that_is_read_in_place_is_the_bytes_that_were_written():
    with linked() as pair:
        piped(pair)
        pair.nodes[0].send(b"", [noise(9)])
        (event,) = [event for event in pair.main.poll(1.0, in_place=True) if isinstance(event, ReceivedInPlace)]
        (part,) = event.bulk
        assert isinstance(part, ArenaPart)
        assert len(part) == 20_000
        assert part.read() == noise(9)
        assert isinstance(pair.main._peers[pair.peers[0]].channel, PipeChannel)
