"""Batches that tick: the client holds Python's lock until it has read the state, so what sensors send comes behind."""

import queue
import socket
from contextlib import contextmanager

import pytest

from samepath.simulator.carla.codec import stream_of
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.server import batch_ticks
from tests.support.serving import RawClient, RawListener, described, served

LONG_S = 600.0
HERE = ((0.0, 0.0, 2.0), (0.0, 0.0, 0.0))


@pytest.fixture
def server(monkeypatch):
    """A server that does not look whether a client has left its call."""
    monkeypatch.setattr(batch_ticks, "_LOOK_S", LONG_S)
    with served() as found:
        yield found


@contextmanager
def listening(server):
    """A client in synchronous mode that listens to a sensor."""
    with RawClient(server) as client:
        settings = client.value("get_episode_settings")
        client.value("set_episode_settings", [True, settings[1], [True, 0.05], *settings[3:]])
        stream = stream_of(bytes(client.value("spawn_actor", described("sensor.other.gnss"), HERE)[5]))
        client.value("get_sensor_token", stream)
        with RawListener(server, stream) as sensor:
            client.value("tick_cue")
            sensor.message()
            yield client, sensor


def batch_tick(client):
    assert client.ask("apply_batch", [], False) == (None, [])
    return client.value("tick_cue")


def is_silent(sensor):
    """Is nothing there? What the server sends before an answer is there when the answer is: both are on this machine."""
    sensor.socket.setblocking(False)
    try:
        return not sensor.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        sensor.socket.settimeout(60.0)


def frame_of(message):
    return int.from_bytes(message[8:16], "little")


def test_what_a_sensor_sends_waits_for_a_tick_of_another_kind_and_the_state_does_not(server):
    with listening(server) as (client, sensor), RawListener(server, WORLD_STREAM) as world:
        world.message()
        frames = []
        for _ in range(3):
            frames.append(batch_tick(client))
            assert frame_of(world.message()) == frames[-1]
            assert is_silent(sensor)
        assert client.value("get_weather_parameters")
        assert is_silent(sensor)
        frames.append(client.value("tick_cue"))
        assert [frame_of(sensor.message()) for _ in frames] == frames


def test_what_a_sensor_sends_is_let_go_when_the_client_is_quiet(server, monkeypatch):
    monkeypatch.setattr(batch_ticks, "_LOOK_S", 0.002)
    waits = server._rpc.managers._batch_ticks._quiet_s
    with listening(server) as (client, sensor):
        for wait_s in (0.05, 0.025, 0.0125, 0.01, 0.01):
            frame = batch_tick(client)
            assert frame_of(sensor.message()) == frame
            assert list(waits.values()) == [wait_s]
        monkeypatch.setattr(batch_ticks, "_LOOK_S", LONG_S)
        batch_tick(client)
        batch_tick(client)  # one right after the other
        client.value("tick_cue")
        [sensor.message() for _ in range(3)]
        monkeypatch.setattr(batch_ticks, "_LOOK_S", 0.002)
        for _ in range(2):
            frame = batch_tick(client)
            assert frame_of(sensor.message()) == frame
            assert list(waits.values()) == [0.05]


@pytest.mark.parametrize("reads", [True, False])
def test_what_a_sensor_sends_waits_until_the_state_is_read(server, monkeypatch, reads):
    monkeypatch.setattr(batch_ticks, "_LOOK_S", 0.001)
    monkeypatch.setattr(batch_ticks, "_LEAVE_S", LONG_S if reads else 0.05)
    looks, look = queue.SimpleQueue(), server._rpc.managers.has_unread_state
    monkeypatch.setattr(server._rpc.managers, "has_unread_state", lambda host: looks.put(found := look(host)) or found)
    with listening(server) as (client, sensor), RawListener(server, WORLD_STREAM) as world:
        world.message()
        frame = batch_tick(client)
        assert all(looks.get(timeout=60.0) for _ in range(5 if reads else 1))
        if reads:
            assert is_silent(sensor)
            assert frame_of(world.message()) == frame
        assert frame_of(sensor.message()) == frame


def test_what_a_sensor_sends_waits_until_the_cycle_of_a_traffic_manager_is_over(server, monkeypatch):
    monkeypatch.setattr(batch_ticks, "_LOOK_S", 0.001)
    monkeypatch.setattr(batch_ticks, "_LEAVE_S", LONG_S)
    with listening(server) as (client, sensor):
        assert client.value("add_traffic_manager_running", ["127.0.0.1", 8000]) is True
        looks, has_left = queue.SimpleQueue(), server._rpc.managers._has_left_tick
        monkeypatch.setattr(
            server._rpc.managers._batch_ticks, "_is_outside", lambda client: looks.put(None) or has_left(client)
        )
        client.value("get_vehicle_light_states")
        assert client.ask("apply_batch", [], False) == (None, [])
        client.value("get_episode_settings")
        frame = batch_tick(client)
        client.value("get_vehicle_light_states")
        for _ in range(5):
            looks.get(timeout=60.0)
        assert is_silent(sensor)
        assert client.ask("apply_batch", [], False) == (None, [])
        assert frame_of(sensor.message()) == frame


def test_what_a_sensor_sends_is_let_go_when_the_client_goes(server):
    with listening(server) as (client, sensor), RawClient(server) as other:
        assert other.ask("apply_batch", [], False) == (None, [])
        frame = other.value("tick_cue")
        assert is_silent(sensor)
        # A tick of another client is none of that client's: it stays inside.
        second = client.value("tick_cue")
        assert is_silent(sensor)
        other.close()
        assert [frame_of(sensor.message()) for _ in range(2)] == [frame, second]


def test_a_batch_without_a_tick_holds_nothing_up(server):
    with listening(server) as (client, sensor):
        assert client.ask("apply_batch", [], False) == (None, [])
        client.value("get_weather_parameters")
        frame = client.value("tick_cue")
        assert frame_of(sensor.message()) == frame


def test_the_batch_of_a_traffic_manager_is_told_from_its_clients(server):
    with listening(server) as (client, sensor):
        assert client.value("add_traffic_manager_running", ["127.0.0.1", 8000]) is True

        def cycle():
            client.value("get_vehicle_light_states")
            assert client.ask("apply_batch", [], False) == (None, [])

        cycle()
        client.value("get_episode_settings")
        frame = client.value("tick_cue")
        assert frame_of(sensor.message()) == frame
        cycle()
        assert client.ask("apply_batch", [], False) == (None, [])
        client.value("get_episode_settings")  # of the traffic manager's thread, which may be late
        frame = client.value("tick_cue")
        cycle()
        client.value("get_episode_settings")
        assert is_silent(sensor)
        client.value("tick_cue")
        assert frame_of(sensor.message()) == frame


def test_only_so_much_is_kept(server, monkeypatch):
    monkeypatch.setattr(batch_ticks, "_MAX_KEPT_BYTES", 0)
    with listening(server) as (client, sensor):
        frame = batch_tick(client)
        assert frame_of(sensor.message()) == frame
