"""What waits for clients: when it is too much in all, whoever has most of it goes, and nobody else."""

import asyncio
import gc
import socket
import threading
from contextlib import suppress

import msgpack
import pytest

from samepath.simulator.carla.codec import Framer
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.memory import MemoryBudget, process_budget
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Connection, MalformedCallError, RpcServer, parse
from samepath.simulator.server.streams import StreamHub
from tests.support.serving import RawClient, RawListener, call, described, episode, served

MIB = 1 << 20


class Holder:
    """Holds what it is told; ``kept`` of it stays when it is cut off."""

    def __init__(self, name, kept=0):
        self.name, self.kept, self.size, self.held_bytes, self.is_cut = name, kept, 0, 0, False

    def hold_bytes(self):
        return self.size

    def cut_off(self):
        self.is_cut, self.size = True, self.kept


@pytest.fixture
def lines():
    return []


@pytest.fixture
def budget(lines):
    return MemoryBudget(10 * MIB, lines.append)


def holders(budget, *names):
    found = [Holder(name) for name in names]
    for holder in found:
        budget.join(holder)
    return found


def hold(budget, holder, size):
    holder.size = size
    budget.update(holder, size)


def test_whoever_has_most_is_cut_off_with_one_line_and_the_others_go_on(budget, lines):
    small, large, last = holders(budget, "small", "large", "last")
    hold(budget, small, 3 * MIB)
    hold(budget, large, 6 * MIB)
    assert lines == []
    hold(budget, last, 2 * MIB)
    assert [holder.is_cut for holder in (small, large, last)] == [False, True, False]
    assert lines == [
        "large was cut off: 11.0 MiB wait for clients, 10 are allowed (--memory-mib), and it has most of them, 6.0"
    ]
    assert budget.held_bytes == 5 * MIB


def test_among_equals_it_is_who_came_first(budget):
    found = holders(budget, "first", "second", "third")
    for holder in found:
        hold(budget, holder, 4 * MIB)
    assert [holder.is_cut for holder in found] == [True, False, False]


def test_what_is_reserved_is_taken_from_the_budget_and_named(lines):
    budget = MemoryBudget(10 * MIB, lines.append, 2 * MIB)
    first, _ = holders(budget, "first", "second")
    hold(budget, first, 9 * MIB)
    assert first.is_cut
    assert "8 are allowed (--memory-mib, beside 2 for what is on its way)" in lines[0]


@pytest.mark.parametrize(("memory_mib", "reserved_mib"), [(1024, 96), (288, 96), (255, 85), (15, 5)])
def test_a_server_keeps_memory_for_what_no_client_is_counted_for(memory_mib, reserved_mib, lines):
    assert process_budget(memory_mib * MIB, lines.append).most_bytes == (memory_mib - reserved_mib) * MIB


def test_what_was_fetched_meanwhile_is_counted_before_anybody_is_cut_off(budget, lines):
    first, second = holders(budget, "first", "second")
    hold(budget, first, 8 * MIB)
    first.size = 0  # its socket took all of it, and it had no reason to say so
    hold(budget, second, 8 * MIB)
    assert lines == []
    assert budget.held_bytes == 8 * MIB


def test_for_what_stays_of_who_was_cut_off_nobody_small_has_to_go(budget, lines):
    stubborn, small, large = holders(budget, "stubborn", "small", "large")
    stubborn.kept = 11 * MIB
    hold(budget, small, MIB // 2)
    hold(budget, stubborn, 12 * MIB)
    assert [holder.is_cut for holder in (stubborn, small, large)] == [True, False, False]
    assert budget.is_spent  # nobody new is let in
    hold(budget, large, 2 * MIB)
    assert [holder.is_cut for holder in (stubborn, small, large)] == [True, False, True]
    assert len(lines) == 2
    budget.leave(stubborn)
    budget.leave(stubborn)
    assert not budget.is_spent
    budget.leave(small)
    budget.leave(large)
    assert budget.held_bytes == 0


def test_many_small_ones_that_are_too_much_together_are_cut_off_too(budget):
    many = holders(budget, *map(str, range(30)))
    for holder in many:
        hold(budget, holder, MIB // 2)
    assert [holder.is_cut for holder in many].count(True) == 10


def test_ids_that_are_repeated_are_answered_once_in_the_order_of_their_first_mention():
    host = episode()
    spectator = host.spectator.id
    cone = call(host, "spawn_actor", described("static.prop.trafficcone01"), [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]).id
    found = call(host, "get_actors_by_id", [cone, spectator, 9999, cone, spectator] * 1000)
    assert [actor.id for actor in found] == [cone, spectator]


def test_a_client_that_fetches_no_answers_is_cut_off_when_memory_is_short_and_the_others_go_on():
    limits = ServerLimits(memory_bytes=2 * MIB)
    with served(limits=limits) as server, RawClient(server) as good, RawClient(server) as greedy:
        request = msgpack.packb([0, 1, "get_map_data", [[False]]])
        greedy.socket.settimeout(60)
        with pytest.raises(ConnectionError):
            while True:
                greedy.socket.sendall(request * 20)
        assert good.value("version") == "0.9.16"
        assert good.value("get_map_data")
        assert len([line for line in server.lines if "was cut off" in line and "--memory-mib" in line]) == 1


def test_messages_that_have_come_in_part_count_and_the_longest_goes_first():
    limits = ServerLimits(memory_bytes=4 * MIB)
    whole = msgpack.packb([0, 1, "copy_opendrive_to_file", [[False], "<" * 150_000, [2.0, 50.0, 1.0, 0.6, True, True, True]]])
    with (
        served(limits=limits) as server,
        RawClient(server) as patient,
        RawClient(server) as longest,
        RawClient(server) as last,
    ):
        patient.socket.sendall(whole[:-10])
        assert last.value("version") == "0.9.16"
        with suppress(ConnectionError):  # it may be cut off before the last byte is on its way
            longest.socket.sendall(b"\xdb\x00\xff\xff\xff" + bytes(1_350_000))
        assert longest.is_closed()
        patient.socket.sendall(whole[-10:])
        assert patient.receive()[2][0][0] is True  # it was read whole, and is no map
        assert last.value("version") == "0.9.16"


def test_a_message_that_has_begun_must_end_in_time_and_silence_before_one_may_last():
    with (
        served(limits=ServerLimits(message_s=0.2)) as server,
        RawClient(server) as silent,
        RawClient(server) as half,
        RawClient(server) as trickling,
    ):
        assert silent.value("version") == "0.9.16"
        half.socket.sendall(msgpack.packb([0, 1, "version", [[False]]])[:-3])
        trickling.socket.sendall(b"\xdb\x00\xff\xff\xff")
        trickling.socket.settimeout(0.01)
        with pytest.raises((ConnectionError, EOFError)):
            while True:
                trickling.socket.sendall(b"x")
                try:
                    if not trickling.socket.recv(1):
                        raise EOFError
                except TimeoutError:
                    continue
        assert half.is_closed()
        assert silent.value("version") == "0.9.16"
        assert (
            sorted(line.partition(": ")[2] for line in server.lines if "was disconnected" in line)
            == ["it sent the beginning of a message and not the rest of it within 0.2 s"] * 2
        )


class Wire(asyncio.Transport):
    """A transport that takes everything and remembers whether it is read from."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.is_paused = self.is_aborted = False

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.is_aborted

    def write(self, data):
        pass

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False

    def abort(self):
        self.is_aborted = True


def connected(server):
    connection, wire = Connection(server), Wire()
    connection.connection_made(wire)
    return connection, wire


async def until(fact):
    while not fact():
        await asyncio.sleep(0)


def test_no_deadline_passes_for_a_message_that_it_is_us_who_do_not_read():
    """The world is busy, so a client with calls that wait is read no further; half a message of it may lie here for long."""
    limits = ServerLimits(message_s=0.02, calls_waiting=2)
    request = msgpack.packb([0, 1, "get_spectator", [[False]]])

    async def run():
        submitted = []
        server = RpcServer(methods(), submitted.append, lambda _: None, submitted.append, lambda _: None, print, limits)
        busy, busy_wire = connected(server)
        busy.data_received(request * 3 + request[:5])
        idle, idle_wire = connected(server)
        idle.data_received(request[:5])
        while not idle_wire.is_aborted:  # which tells that the time was over for both
            await asyncio.sleep(0.005)
        assert busy_wire.is_paused
        assert not busy_wire.is_aborted
        busy.answer(1, b"\xc0")
        busy.answer(1, b"\xc0")
        busy.answer(1, b"\xc0")
        assert not busy_wire.is_paused
        while not busy_wire.is_aborted:
            await asyncio.sleep(0.005)
        return len(submitted)

    assert asyncio.run(run()) == 3


def test_calls_that_wait_are_weighed_and_a_client_with_heavy_ones_is_read_no_further():
    limits = ServerLimits(calls_waiting_bytes=MIB)
    batch = msgpack.packb(
        [0, 1, "apply_batch", [[False], [[[1, [7]]]] * 20_000, False]]
    )  # each of them is refused with a line of its own

    async def run():
        submitted = []
        server = RpcServer(methods(), submitted.append, lambda _: None, submitted.append, lambda _: None, print, limits)
        connection, wire = connected(server)
        connection.data_received(batch * 10)
        assert wire.is_paused
        await until(lambda: submitted)
        assert len(submitted) == 1
        assert wire.is_paused
        assert server.memory.held_bytes > 20_000 * 100
        for number in range(1, 11):
            await until(lambda number=number: len(submitted) == number)
            connection.answer(1, b"\xc0")
        assert server.memory.held_bytes == 0
        assert not wire.is_paused
        connection.connection_lost(None)
        server.close()
        return server.memory.held_bytes

    assert asyncio.run(run()) == 0


def test_a_client_that_was_cut_off_counts_until_its_calls_are_done():
    limits = ServerLimits(memory_bytes=MIB)
    batch = msgpack.packb([0, 1, "apply_batch", [[False], [[[1, [7]]]] * 20_000, False]])

    async def run():
        submitted, lines = [], []
        server = RpcServer(methods(), submitted.append, lambda _: None, submitted.append, lambda _: None, lines.append, limits)
        connection, wire = connected(server)
        connection.data_received(batch)
        await until(lambda: wire.is_aborted)
        connection.connection_lost(None)
        assert server.memory.held_bytes > MIB
        connection.answer(1, b"\xc0")
        assert server.memory.held_bytes == 0
        server.close()
        return lines

    assert len(asyncio.run(run())) == 1


def heavy(number, count=20_000):
    return msgpack.packb([0, number, "apply_batch", [[False], [[[1, [7]]]] * count, False]])


def test_large_messages_are_read_beside_the_event_loop_and_calls_keep_their_order():
    """While one client's batch is read, another's call is made at once; calls of one client do not overtake its batch."""

    async def run():
        submitted, gone = [], []
        server = RpcServer(methods(), submitted.append, lambda _: None, submitted.append, gone.append, print, ServerLimits())
        go_on = threading.Event()
        server.reader.submit(go_on.wait, 20)  # whatever is read takes as long as this
        (caller, _), (other, _) = connected(server), connected(server)
        caller.data_received(heavy(1) + msgpack.packb([0, 2, "get_spectator", [[False]]]))
        other.data_received(msgpack.packb([0, 3, "get_spectator", [[False]]]))
        assert [(call.caller, call.id) for call in submitted] == [(other, 3)]
        go_on.set()
        await until(lambda: len(submitted) == 3)
        assert [(call.caller, call.id) for call in submitted[1:]] == [(caller, 1), (caller, 2)]
        # A client that goes while its batch is read: the batch is done, and then it has gone.
        other.data_received(heavy(4))
        other.connection_lost(None)
        assert gone == []
        await until(lambda: gone)
        assert submitted[-1].id == 4
        # One that is cut off while its batch is read: nothing of it is done.
        caller.data_received(heavy(5))
        caller.cut_off()
        caller.connection_lost(None)
        await until(lambda: caller in gone)
        assert submitted[-1].id == 4
        server.close()

    asyncio.run(run())


def test_a_large_message_that_is_no_call_closes_its_connection_and_one_with_wrong_arguments_is_refused():
    with served() as server, RawClient(server) as bad, RawClient(server) as wrong:
        bad.socket.sendall(msgpack.packb([5] * 50_000))
        assert bad.is_closed()
        error, _ = wrong.ask("get_actors_by_id", ["x"] * 50_000)
        assert "a whole number" in error
        assert wrong.value("version") == "0.9.16"
        assert len([line for line in server.lines if "was disconnected" in line]) == 1


def test_a_connection_keeps_no_buffers_of_a_long_message_that_is_over():
    framer = Framer(ServerLimits().message_bytes, MalformedCallError)
    message = msgpack.packb("x" * (8 * MIB))
    scanner = framer._scanner
    assert [len(found) for found in framer.feed(message)] == [len(message)]
    assert framer._scanner is not scanner  # msgpack's never gives memory back
    assert list(framer.feed(message[:100])) == []
    assert framer.size_bytes == 100
    assert [len(found) for found in framer.feed(message[100:])] == [len(message)]


@pytest.mark.parametrize("tail", [b"", b"\xc1"])
def test_the_garbage_collector_is_on_again_after_a_large_message_whatever_was_in_it(tail):
    message = msgpack.packb([0, 1, "get_actors_by_id", [[False], [1] * 20_000]])[: None if not tail else -1] + tail
    try:
        parse(message, ServerLimits())
    except Exception as error:
        assert tail, error
    assert gc.isenabled()


def test_streams_that_nobody_comes_for_are_given_up_largest_first_when_memory_is_short():
    unheard, lines = [], []
    hub = StreamHub(ServerLimits(memory_bytes=MIB, early_again_s=0.01), unheard.append, lines.append)
    for stream in (5, 6, 7):
        hub.expect(stream)
    for _ in range(3):
        hub.send(5, bytes(100_000), lossless=True)
        hub.send(6, bytes(200_000), lossless=True)
        hub.send(7, bytes(60_000), lossless=True)
    assert unheard == [6]
    assert len(lines) == 1
    assert lines[0].startswith("who asked for stream 6 and has not connected was cut off: ")
    got = []

    class Late:
        def send(self, message, *, lossless):
            got.append(len(message))

    async def come():
        hub.join(5, Late())
        assert hub.memory.held_bytes > 0  # for a moment: it may not have been the one that asked
        while hub.memory.held_bytes >= 300_000:
            await asyncio.sleep(0.001)

    asyncio.run(come())
    assert got == [100_004] * 3
    hub.forget(7)
    assert hub.memory.held_bytes == 0


def test_what_waits_for_several_on_their_way_to_one_stream_is_kept_once():
    hub = StreamHub(ServerLimits(memory_bytes=MIB), pytest.fail, pytest.fail)
    for _ in range(100):
        hub.expect(5)
    for _ in range(5):
        hub.send(5, bytes(100_000), lossless=True)
    assert 500_000 <= hub.memory.held_bytes < 600_000


def test_listeners_that_do_not_read_count_together_and_the_tick_goes_on():
    limits = ServerLimits(memory_bytes=MIB)
    with served(limits=limits) as server, RawClient(server) as client:
        settings = client.value("get_episode_settings")
        settings[0], settings[2] = True, [True, 0.05]
        client.value("set_episode_settings", settings)
        camera = described("sensor.camera.depth", image_size_x=512, image_size_y=512)
        actor = client.value("spawn_actor", [camera.uid, camera.id, camera.attributes], [[0.0, 0.0, 50.0], [0.0, 0.0, 0.0]])
        stream_id = int.from_bytes(actor[5][:4], "little")
        lazy = []
        for _ in range(3):
            client.value("get_sensor_token", stream_id)
            lazy.append(RawListener(server, stream_id))
            lazy[-1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frames = []
        while not any("was cut off" in line for line in server.lines):
            frames.append(client.value("tick_cue"))
            assert len(frames) < 100
        assert client.value("tick_cue") == frames[-1] + 1
        for listener in lazy:
            listener.socket.close()
