"""The proxy: every byte passes, every call and state is written down, at its tick; nobody can bring it down."""

import asyncio
import random
import select
import socket
import struct
import threading

import msgpack
import pytest

from samepath.core.errors import InputError, StoreError
from samepath.sessions.compare import compare_sessions
from samepath.sessions.proxy import ProxySettings, SessionProxy, read_address, reason
from samepath.sessions.recording import SessionAnswer, SessionCall, SessionFrame, SessionState, read_session
from samepath.sessions.timeline import content
from samepath.simulator.carla.codec import answer, token, value_result
from tests.support.rpc import RawRpc
from tests.support.serving import RawListener, served
from tests.support.sessions import KnownServer, actor, connected, proxied, receive, row

SYNCHRONOUS = [True, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]


def events(path, kind):
    return [event for event in read_session(path).events if isinstance(event, kind)]


def scattered(connection, data, seed):
    """Send in pieces of odd sizes, so that nothing depends on messages arriving whole."""
    draw = random.Random(seed)
    while data:
        size = draw.choice((1, 2, 7, 100, 5000))
        connection.sendall(data[:size])
        data = data[size:]


def test_no_byte_of_a_call_or_an_answer_changes(tmp_path):
    draw = random.Random(1)
    values = [draw.random(), "text" * 2000, bytes(300), [[1, [2.5, None]]], "ü"]
    calls = b"".join(msgpack.packb([0, number, f"method_{number}", [[False], value]]) for number, value in enumerate(values))
    answers = b"".join(msgpack.packb([1, number, None, [[1, value]]]) for number, value in enumerate(values))
    answers += msgpack.packb([1, 99, "nobody asked", None])
    with KnownServer() as server, proxied(server.port, tmp_path / "s") as proxy:
        with connected(proxy.port) as client:
            scattered(client, calls, 2)
            server.accept()
            assert server.receive(len(calls)) == calls
            sending = threading.Thread(target=scattered, args=(server.socket, answers, 3), daemon=True)
            sending.start()
            assert receive(client, len(answers)) == answers
            sending.join()
        assert proxy.rewritten_bytes == 0
    found = events(tmp_path / "s", SessionCall)
    assert [call.method for call in found] == [f"method_{number}" for number in range(len(values))]
    assert [content(call.arguments)[1] for call in found] == values
    assert [content(event.result) for event in events(tmp_path / "s", SessionAnswer)] == [[[1, value]] for value in values]


def test_of_a_token_only_the_way_to_the_streams_changes_and_the_stream_itself_does_not(tmp_path):
    picture = struct.pack("<QQd6f", 13, 7, 1.0, *[0.0] * 6) + random.Random(4).randbytes(200_000)
    state = struct.pack("<QQd6f", 17, 7, 1.0, *[0.0] * 6) + struct.pack("<QdfiiiI", 1, 5.0, 0.05, 0, 0, 0, 0) + row(1) + row(2)
    stream = b"".join(struct.pack("<I", len(message)) + message for message in (state, picture))
    with KnownServer() as server, KnownServer() as streams, proxied(server.port, tmp_path / "s") as proxy:  # noqa: SIM117 - one line would be too long
        with connected(proxy.port) as client:
            client.sendall(call := msgpack.packb([0, 1, "get_sensor_token", [[False], 5]]))
            server.accept()
            server.receive(len(call))
            told = answer(1, value_result((token(5, streams.port),)))
            server.socket.sendall(told)
            assert receive(client, len(told)) == answer(1, value_result((token(5, proxy.stream_port),)))
            with connected(proxy.stream_port) as listener:
                listener.sendall(struct.pack("<I", 5))
                streams.accept()
                assert streams.receive(4) == struct.pack("<I", 5)
                sending = threading.Thread(target=scattered, args=(streams.socket, stream, 5), daemon=True)
                sending.start()
                assert receive(listener, len(stream)) == stream
                sending.join()
    end = read_session(tmp_path / "s").end
    assert 0 < end.rewritten_bytes <= 2
    (found,) = events(tmp_path / "s", SessionState)
    assert (found.frame, found.actors, found.rows) == (7, 2, row(1) + row(2))
    (frame,) = events(tmp_path / "s", SessionFrame)
    assert (frame.stream, frame.sensor_type, frame.frame, frame.size_bytes) == (5, 13, 7, 200_000)


def drive(port, stream_port, ticks=5, throttle=0.5):
    """A small session, by hand: a synchronous world, a car, a few ticks."""
    with RawRpc("127.0.0.1", port) as client:
        client.value("get_episode_info")
        given = struct.unpack("<IHBB16s", client.value("get_sensor_token", 1)[0])
        assert given[:2] == (1, stream_port)
        with socket.create_connection(("127.0.0.1", stream_port), 20) as listener:
            listener.sendall(struct.pack("<I", 1))
            client.value("set_episode_settings", SYNCHRONOUS)
            kind = next(
                blueprint for blueprint in client.value("get_actor_definitions") if blueprint[1] == "vehicle.tesla.model3"
            )
            point = client.value("get_map_info")[1][0]
            car = client.value("spawn_actor", [kind[0], kind[1], []], point)[0]
            frames = []
            for _ in range(ticks):
                client.ask("apply_control_to_vehicle", car, [throttle, 0.0, 0.0, False, False, False, 0])
                frames.append(client.value("tick_cue"))
                while state_frame(listener) < frames[-1]:
                    pass
    return car, frames


def state_frame(listener):
    size = struct.unpack("<I", receive(listener, 4))[0]
    return struct.unpack_from("<QQ", receive(listener, size))[1]


@pytest.fixture
def server(tmp_path):
    with served(data_folder=tmp_path / "data") as server:
        yield server


def test_calls_and_states_stand_at_their_ticks(server, tmp_path):
    with proxied(server.port, tmp_path / "s") as proxy:
        _, frames = drive(proxy.port, proxy.stream_port)
    assert frames == list(range(frames[0], frames[0] + 5))
    controls = [call for call in events(tmp_path / "s", SessionCall) if call.method == "apply_control_to_vehicle"]
    assert [call.frame for call in controls] == [frame - 1 for frame in frames]
    states = [state.frame for state in events(tmp_path / "s", SessionState)]
    assert states == sorted(set(states))
    assert states[-5:] == frames
    assert read_session(tmp_path / "s").truncated == ""


def test_two_sessions_of_one_server_are_the_same_although_ids_and_frames_go_on(server, tmp_path):
    with RawRpc("127.0.0.1", server.port) as client:
        client.ask("load_new_episode", "", True, 0xFFFF)  # the first one begins as the second does, whoever was here before
    for name in ("a", "b"):
        with proxied(server.port, tmp_path / name) as proxy:
            car, _ = drive(proxy.port, proxy.stream_port)
        with RawRpc("127.0.0.1", server.port) as client:
            client.ask("destroy_actor", car)
            client.ask("load_new_episode", "", True, 0xFFFF)
    found = compare_sessions(read_session(tmp_path / "a"), read_session(tmp_path / "b"))
    assert found.difference is None
    assert found.ticks == 5


def test_several_clients_and_listeners_share_a_recording_and_states_are_written_once(server, tmp_path):
    with proxied(server.port, tmp_path / "s") as proxy:
        proxy.host = "127.0.0.1"
        with RawRpc("127.0.0.1", proxy.port) as a, RawRpc("127.0.0.1", proxy.port) as b:
            a.value("set_episode_settings", SYNCHRONOUS)
            for client in (a, b):
                client.value("get_sensor_token", 1)
            with RawListener(proxy, 1) as first, RawListener(proxy, 1) as second:
                for _ in range(6):
                    a.send("set_weather_parameters", [0.0] * 14, asynchronous=True)
                    b.send("tick_cue")
                    a.send("set_weather_parameters", [1.0] * 14, asynchronous=True)
                    frame = b.receive()[2][0][1]
                    a.receive(), a.receive()
                    for listener in (first, second):
                        while state_frame(listener.socket) < frame:
                            pass
    states = [state.frame for state in events(tmp_path / "s", SessionState)]
    assert states == sorted(set(states))
    assert len(states) >= 6


def test_in_synchronous_mode_a_tick_and_others_calls_reach_the_server_in_the_order_that_is_recorded(tmp_path):
    """While a tick is with the server, calls of others wait; while calls of others are, a tick does. Reads never wait."""
    done = answer(1, value_result(1))
    with (
        KnownServer() as server,
        proxied(server.port, tmp_path / "s") as proxy,
        connected(proxy.port) as a,
        connected(proxy.port) as b,
    ):
        server.accept()
        first = server.socket
        server.accept()
        second = server.socket
        settings = msgpack.packb([0, 1, "set_episode_settings", [[False], SYNCHRONOUS]])
        # Which of the two the server met first is not for us to say.
        a.sendall(settings)
        sockets = [first, second]
        ours = next(end for end in _readable(sockets))
        theirs = next(end for end in sockets if end is not ours)
        assert receive(ours, len(settings)) == settings
        ours.sendall(done)
        receive(a, len(done))
        tick, call, read = (
            msgpack.packb([0, 1, name, [[False]]]) for name in ("tick_cue", "reset_all_traffic_lights", "version")
        )
        a.sendall(tick)
        assert receive(ours, len(tick)) == tick
        b.sendall(read)
        assert receive(theirs, len(read)) == read
        theirs.sendall(done)
        receive(b, len(done))
        b.sendall(call)
        assert not _readable([theirs], wait_s=0.2)
        ours.sendall(done)
        assert receive(theirs, len(call)) == call
        receive(a, len(done))
        a.sendall(tick)
        assert not _readable([ours], wait_s=0.2)
        theirs.sendall(done)
        assert receive(ours, len(tick)) == tick
        ours.sendall(done)
        receive(a, len(done))
        # One that goes without waiting for its answer holds nobody up.
        b.sendall(call)
        assert receive(theirs, len(call)) == call
        a.sendall(tick)
        assert not _readable([ours], wait_s=0.2)
        b.close()
        assert receive(ours, len(tick)) == tick
        first.close()
        second.close()
    methods = [call.method for call in events(tmp_path / "s", SessionCall)]
    once = ["tick_cue", "version", "reset_all_traffic_lights", "tick_cue"]
    assert methods == ["set_episode_settings", *once, "reset_all_traffic_lights", "tick_cue"]


def _readable(sockets, wait_s=20.0):
    return select.select(sockets, [], [], wait_s)[0]


def test_a_client_that_does_not_read_is_not_read_for(tmp_path):
    """What waits for it stays with the server: the proxy holds a few MiB and no more."""
    message = struct.pack("<QQd6f", 13, 7, 1.0, *[0.0] * 6) + bytes(4 << 20)
    data = struct.pack("<I", len(message)) + message
    with KnownServer() as server, proxied(server.port - 1, tmp_path / "s") as proxy:  # noqa: SIM117 - one line would be too long
        with connected(proxy.stream_port) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            listener.sendall(struct.pack("<I", 5))
            server.accept()
            server.socket.setblocking(False)
            sent = 0
            while _writable(server.socket):
                sent += server.socket.send(data)
                assert sent < 64 << 20, "everything was taken, and nobody reads it"
            assert receive(listener, 4 + 48)[:4] == data[:4]


def _writable(connection):
    return select.select([], [connection], [], 0.5)[1]


@pytest.mark.parametrize(
    "garbage", [b"\xc1" * 100, b"GET / HTTP/1.1\r\n\r\n" * 9, msgpack.packb([7, 7, 7]), msgpack.packb("text")]
)
def test_garbage_costs_its_sender_the_connection_and_nobody_else(server, tmp_path, garbage):
    with proxied(server.port, tmp_path / "s") as proxy, RawRpc("127.0.0.1", proxy.port) as other:
        with RawRpc("127.0.0.1", proxy.port) as bad:
            bad.socket.sendall(garbage)
            assert bad.is_closed()
        assert other.value("version") == "0.9.16"
        assert any("was disconnected: it sent" in line for line in proxy.lines)


def test_a_server_that_is_not_there_is_said_in_one_line(tmp_path):
    with socket.socket() as taken:  # so that no other process gets this port meanwhile; it does not listen
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with proxied(port, tmp_path / "s") as proxy:
            with RawRpc("127.0.0.1", proxy.port) as client:
                assert client.is_closed()
            assert any(f"127.0.0.1:{port} cannot be reached" in line for line in proxy.lines)


def test_a_name_that_cannot_be_one_is_said_in_one_line(tmp_path):
    with proxied(2000, tmp_path / "s", server_host="a..b") as proxy:
        with RawRpc("127.0.0.1", proxy.port) as client:
            assert client.is_closed()
        assert any("a..b:2000 cannot be reached (" in line and line.endswith("was disconnected") for line in proxy.lines)


def test_why_nothing_is_reached_is_a_short_line_however_much_is_said():
    # As asyncio words it where a name stands for many addresses.
    many = OSError(f"Multiple exceptions: {', '.join(f'[Errno 111] Connect call failed (10.0.{n}.1, 1)' for n in range(256))}")
    assert reason(many).startswith("Multiple exceptions: [Errno 111]")
    assert len(reason(many)) == 120
    assert reason(OSError("two\nlines\x1b[2J")) == "two lines [2J"
    assert reason(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    assert reason(TimeoutError()) == "no answer"


def test_a_stream_that_is_no_carlas_is_passed_on_and_not_recorded(tmp_path):
    with KnownServer() as server, proxied(server.port - 1, tmp_path / "s") as proxy:
        with connected(proxy.stream_port) as listener:
            listener.sendall(struct.pack("<I", 5))
            server.accept()
            server.socket.sendall(bytes(100) + b"all the same")
            assert receive(listener, 112).endswith(b"all the same")
        assert any("passed on but not recorded" in line for line in proxy.lines)


def test_a_recording_that_cannot_be_written_on_does_not_stop_the_session(server, tmp_path):
    with proxied(server.port, tmp_path / "s", most_bytes=3000) as proxy:
        _, frames = drive(proxy.port, proxy.stream_port, ticks=40)
        assert len(frames) == 40
    assert any("the recording ends here" in line and "clients are served on" in line for line in proxy.lines)
    assert read_session(tmp_path / "s").truncated


def test_a_file_that_is_there_is_refused_before_anybody_connects(tmp_path):
    (tmp_path / "s").write_text("precious")
    with pytest.raises(StoreError, match="never overwritten"), proxied(1, tmp_path / "s"):
        pass
    assert (tmp_path / "s").read_text() == "precious"


def test_a_port_that_is_taken_leaves_no_file_behind(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        proxy = SessionProxy(ProxySettings("127.0.0.1", 1, port=taken.getsockname()[1]), tmp_path / "s", print)
        with pytest.raises(InputError, match="cannot be served"):
            asyncio.run(proxy.start())
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("text", "found"), [("sim:2100", ("sim", 2100)), ("sim", ("sim", 2000)), ("[::1]:7", ("::1", 7)), ("[::1]", ("::1", 2000))]
)
def test_addresses_are_read(text, found):
    assert read_address(text) == found


@pytest.mark.parametrize("text", ["", ":2000", "sim:", "sim:x", "sim:0", "sim:65535", "sim:-1", "sim:²"])
def test_bad_addresses_are_one_line(text):
    with pytest.raises(InputError, match="HOST:PORT was wanted"):
        read_address(text)


def test_answers_that_hold_actors_are_kept_whole(tmp_path):
    many = msgpack.packb([1, 1, None, [[1, [actor(number, "vehicle.x") for number in range(1, 400)]]]])
    with KnownServer() as server, proxied(server.port, tmp_path / "s") as proxy, connected(proxy.port) as client:
        client.sendall(call := msgpack.packb([0, 1, "get_actors_by_id", [[False], [1]]]))
        server.accept()
        server.receive(len(call))
        server.socket.sendall(many)
        receive(client, len(many))
    (found,) = events(tmp_path / "s", SessionAnswer)
    assert found.result.is_whole
    assert found.result.size_bytes > 16 << 10
