"""The streaming port: nothing is lost on the way to a listener, and a listener that does not read stops nobody."""

import asyncio
import queue
import select
import socket
import struct
from contextlib import ExitStack, suppress

import numpy as np
import pytest

from samepath.simulator.carla import blueprints
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import ACTOR_STATE
from samepath.simulator.server.streams import StreamConnection, StreamHub
from tests.support.serving import RawClient, RawListener, served


@pytest.fixture
def server():
    with served() as found:
        yield found


def synchronous(client, step_s=0.05):
    settings = client.value("get_episode_settings")
    settings[0], settings[2] = True, [True, step_s]
    client.value("set_episode_settings", settings)


def frame_of(message):
    return struct.unpack_from("<QQd", message)[1]


def spawn_gnss(client, x=0.0):
    blueprint = blueprints.find("sensor.other.gnss")
    actor = client.value("spawn_actor", [blueprint.uid, blueprint.id, []], [[x, 0.0, 5.0], [0.0, 0.0, 0.0]])
    return actor[0], struct.unpack("<I", actor[5][:4])[0]


def test_whoever_connects_gets_the_state_at_once(server):
    with RawClient(server) as client:
        synchronous(client)
        frame = client.value("tick_cue")
        with RawListener(server, 1) as listener:
            assert frame_of(listener.message()) == frame


def test_frames_grow_by_one_per_tick_and_across_a_reload(server):
    with RawClient(server) as client, RawListener(server, 1) as listener:
        synchronous(client)
        first = client.value("tick_cue")
        client.ask("load_new_episode", "", False, 0xFFFF)
        frames = [client.value("tick_cue") for _ in range(3)]
        assert frames == [first + 1, first + 2, first + 3]
        got = frame_of(listener.message())
        while got < frames[-1]:
            following = listener.message()
            got = frame_of(following)
        assert struct.unpack_from("<Q", following, 48)[0] == 2


def test_the_first_measurement_waits_for_its_listener(server):
    with RawClient(server) as client:
        synchronous(client)
        _, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        frames = [client.value("tick_cue") for _ in range(5)]
        with RawListener(server, stream_id) as listener:
            assert [frame_of(listener.message()) for _ in frames] == frames
            frames = [client.value("tick_cue") for _ in range(5)]
            assert [frame_of(listener.message()) for _ in frames] == frames


def test_the_first_measurement_waits_for_every_listener_that_asked(server):
    """Three clients ask; one connects at once, the others only after ticks: none of them misses a frame."""
    with RawClient(server) as client:
        synchronous(client)
        _, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        client.value("get_sensor_token", stream_id)
        with RawListener(server, stream_id) as first:
            frames = [client.value("tick_cue")]
            assert frame_of(first.message()) == frames[0]
            client.value("get_sensor_token", stream_id)
            frames += [client.value("tick_cue") for _ in range(2)]
            with RawListener(server, stream_id) as second:
                assert [frame_of(second.message()) for _ in frames] == frames
                with RawListener(server, stream_id) as third:
                    frames.append(client.value("tick_cue"))
                    assert [frame_of(third.message()) for _ in frames[1:]] == frames[1:]
                    assert frame_of(second.message()) == frames[-1]
            assert [frame_of(first.message()) for _ in frames[1:]] == frames[1:]


@pytest.mark.parametrize("strangers", [1, 5])
@pytest.mark.parametrize("they_leave", [False, True])
def test_a_listener_that_never_asked_takes_nothing_from_the_one_that_did(server, strangers, they_leave):
    with RawClient(server) as client, ExitStack() as stack:
        synchronous(client)
        _, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        frames = [client.value("tick_cue")]
        for _ in range(strangers):
            stranger = stack.enter_context(RawListener(server, stream_id))
            assert frame_of(stranger.message()) == frames[0]
            if they_leave:
                stranger.socket.close()
        frames.append(client.value("tick_cue"))
        with RawListener(server, stream_id) as owner:
            frames.append(client.value("tick_cue"))
            assert [frame_of(owner.message()) for _ in frames] == frames


def test_messages_are_kept_on_for_a_moment_only_and_then_nothing_is_measured():
    unheard = queue.SimpleQueue()
    with served(limits=ServerLimits(early_again_s=0.05)) as server, RawClient(server) as client:
        synchronous(client)
        server._hub._unheard = unheard.put
        _, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        frame = client.value("tick_cue")
        with RawListener(server, stream_id) as listener:
            assert frame_of(listener.message()) == frame
        assert unheard.get(timeout=60) == stream_id
        assert not server._hub.is_heard(stream_id)


def test_a_large_picture_is_not_kept_on_for_a_listener_that_has_come():
    async def listen():
        hub = StreamHub(ServerLimits(), print, pytest.fail)
        hub.expect(7)
        connection = StreamConnection(hub)
        connection.connection_made(Wire())
        connection.data_received(struct.pack("<I", 7))
        for _ in range(10):
            hub.send(7, bytes(1 << 20), lossless=True)
        assert hub.memory.held_bytes == 0
        connection.connection_lost(None)

    asyncio.run(listen())


def test_nothing_is_measured_for_nobody(server):
    with RawClient(server) as client:
        synchronous(client)
        _, stream_id = spawn_gnss(client)
        client.value("tick_cue")
        with RawListener(server, stream_id) as listener:
            client.value("tick_cue")
            listener.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                listener.message()


def test_what_nobody_fetches_is_not_kept_for_ever():
    with served(limits=ServerLimits(early_messages=10)) as server, RawClient(server) as client:
        synchronous(client)
        _, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        for _ in range(30):
            client.value("tick_cue")
        with RawListener(server, stream_id) as listener:
            listener.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                listener.message()


def test_many_listen_to_one_stream(server):
    with RawClient(server) as client:
        synchronous(client)
        _, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        client.value("tick_cue")
        with RawListener(server, stream_id) as first:
            first.message()
            client.value("get_sensor_token", stream_id)
            frame = client.value("tick_cue")
            with RawListener(server, stream_id) as second:
                assert frame_of(first.message()) == frame_of(second.message()) == frame


def test_a_sensor_that_dies_leaves_its_listeners_in_silence(server):
    with RawClient(server) as client:
        synchronous(client)
        actor_id, stream_id = spawn_gnss(client)
        client.value("get_sensor_token", stream_id)
        client.value("tick_cue")
        with RawListener(server, stream_id) as listener:
            listener.message()
            assert client.value("destroy_actor", actor_id) is True
            client.value("tick_cue")
            listener.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):  # silence, not the end of the connection
                listener.message()


def test_a_listener_that_does_not_read_is_cut_off_and_the_tick_goes_on():
    with served(limits=ServerLimits(backlog_bytes=200_000)) as server, RawClient(server) as client:
        synchronous(client)
        for number in range(200):
            spawn_gnss(client, x=float(number))  # so that a state is long and the sockets' own room is soon full
        with RawListener(server, 1) as _lazy, RawListener(server, 1) as busy:
            for _ in range(2000):
                frame = client.value("tick_cue")
                while frame_of(busy.message()) < frame:
                    pass
                if any("cut off" in line for line in server.lines):
                    break
            else:
                pytest.fail("nobody was cut off")
            frame = client.value("tick_cue")
            assert frame_of(busy.message()) == frame


def test_an_asynchronous_listener_gets_frames_by_itself(server):
    with RawListener(server, 1) as listener:
        frames = [frame_of(listener.message()) for _ in range(4)]
    assert frames == list(range(frames[0], frames[0] + 4))


def spawn_call(name="static.prop.trafficcone01", x=0.0, z=5.0):
    blueprint = blueprints.find(name)
    return [blueprint.uid, blueprint.id, []], [[x, 0.0, z], [0.0, 0.0, 0.0]]


def shown_by_now(listener):
    """The ids in the last state that has arrived."""
    message = listener.message()
    while select.select([listener.socket], [], [], 0)[0]:
        message = listener.message()
    return set(np.frombuffer(message[84:], ACTOR_STATE)["id"].tolist())


def test_in_asynchronous_mode_a_spawn_is_answered_when_a_state_shows_the_actor(server):
    with RawClient(server) as client, RawListener(server, 1) as listener:
        for number in range(10):
            actor = client.value("spawn_actor", *spawn_call(x=3.0 * number))[0]
            assert actor in shown_by_now(listener)
            sensor = client.value("spawn_actor_with_parent", *spawn_call("sensor.other.gnss"), actor, 0, "")[0]
            assert sensor in shown_by_now(listener)


def test_in_asynchronous_mode_a_batch_that_spawns_is_answered_when_a_state_shows_the_actors(server):
    with RawClient(server) as client, RawListener(server, 1) as listener:
        for number in range(5):
            batch = [[[0, [*spawn_call(x=3.0 * item, z=5.0 + 5.0 * number), [False], 0, "", []]]] for item in range(4)]
            _, answers = client.ask("apply_batch", batch, False)
            ids = {value for ((fine, value),) in answers if fine}
            assert len(ids) == 4
            assert ids <= shown_by_now(listener)


def test_in_synchronous_mode_a_spawn_is_answered_at_once(server):
    with RawClient(server) as client, RawListener(server, 1) as listener:
        synchronous(client)
        client.value("tick_cue")
        actor = client.value("spawn_actor", *spawn_call())[0]
        client.ask("apply_batch", [[[0, [*spawn_call(x=3.0), [False], 0, "", []]]]], False)
        assert actor not in shown_by_now(listener)
        client.value("tick_cue")
        assert actor in shown_by_now(listener)


def test_who_waits_for_a_state_when_the_mode_becomes_synchronous_waits_no_longer(server):
    with RawClient(server) as client, RawClient(server) as other:
        settings = other.value("get_episode_settings")
        settings[2] = [True, 1.0]
        other.value("set_episode_settings", settings)
        there = len(other.value("get_actors_by_id", list(range(200))))
        client.send("spawn_actor", *spawn_call())
        while len(other.value("get_actors_by_id", list(range(200)))) == there:
            pass
        synchronous(other)
        assert client.receive()[2][0][0] == 1


def test_a_stream_connection_that_says_nothing_is_closed():
    with served() as server, RawListener(server, 1) as good:
        good.message()
        server._hub.limits = ServerLimits(idle_hello_s=0.5)  # from now on: the good one may be as slow as this thread is
        with (
            socket.create_connection(("127.0.0.1", server.stream_port), timeout=60) as mute,
            suppress(ConnectionError),  # it was closed before it could say even that
        ):
            mute.sendall(b"\x01\x00")
            assert mute.recv(10) == b""
        good.message()


def test_one_stream_too_many_is_refused():
    with served(limits=ServerLimits(subscriptions=1)) as server, RawListener(server, 1) as first:
        first.message()
        with RawListener(server, 1) as second, pytest.raises((EOFError, ConnectionResetError)):
            second.message()
        first.message()


class Wire(asyncio.Transport):
    """Takes what is written, and nothing of it is ever waiting."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = []

    def is_closing(self):
        return False

    def get_write_buffer_size(self):
        return 0

    def write(self, data):
        self.written.append(data)


@pytest.mark.parametrize("head", [b"", b"what stands before"])
@pytest.mark.parametrize("size", [10, (1 << 18) - 1, 1 << 18, 1 << 20])
def test_a_large_message_is_the_same_bytes_and_is_not_copied(size, head):
    async def listen():
        hub = StreamHub(ServerLimits(), lambda _: None, print)
        connection, wire = StreamConnection(hub), Wire()
        connection.connection_made(wire)
        connection.data_received(struct.pack("<I", 7))
        payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        hub.send(7, payload, lossless=True, head=head)
        connection.connection_lost(None)
        return payload, wire.written

    payload, written = asyncio.run(listen())
    assert b"".join(written) == struct.pack("<I", len(head) + size) + head + payload
    assert any(isinstance(part, memoryview) and part.obj is payload for part in written) is (size >= 1 << 18)
