"""Traffic managers on the wire: their settings and the answer to a tick never reach a client together."""

import time

import msgpack
import pytest
from serving import RawClient, RawListener, served

from samepath.sim.server import managers
from samepath.sim.server.frames import WORLD_STREAM

LONG_S, MOMENT_S = 15.0, 0.3


@pytest.fixture
def server(monkeypatch):
    """A server that is in no hurry: what waits does so for as long as the test needs to see it."""
    monkeypatch.setattr(managers, "_LONGEST_S", LONG_S)
    with served() as found:
        with RawClient(found) as client:
            settings = client.value("get_episode_settings")
            client.value("set_episode_settings", [True, settings[1], [True, 0.05], *settings[3:]])
        yield found


class Manager(RawClient):
    """A client that has a traffic manager, which makes the calls of its cycles."""

    def __init__(self, server, port=8000):
        super().__init__(server)
        assert self.value("add_traffic_manager_running", ["127.0.0.1", port]) is True

    def cycle(self):
        self.value("get_vehicle_light_states")
        self.value("get_weather_parameters")
        assert self.ask("apply_batch", [], False) == (None, [])

    def together(self, *names):
        """Send calls in one go, as two threads do; gives their names in the order of the answers."""
        sent = {}
        data = b""
        for name in names:
            self._id += 1
            sent[self._id] = name
            data += msgpack.packb([0, self._id, name, [[False]]])
        self.socket.sendall(data)
        return [sent[self.receive()[0]] for _ in names]


def test_settings_are_told_while_a_tick_is_made(server):
    with RawClient(server) as client:
        for _ in range(20):
            assert Manager.together(client, "tick_cue", "get_episode_settings") == ["get_episode_settings", "tick_cue"]


def test_settings_that_are_being_changed_are_told_afterwards(server):
    with RawClient(server) as client:
        settings = client.value("get_episode_settings")
        for step_s in (0.1, 0.2, 0.05):
            client._id += 2
            change = [0, client._id - 1, "set_episode_settings", [[False], [*settings[:2], [True, step_s], *settings[3:]]]]
            client.socket.sendall(msgpack.packb(change) + msgpack.packb([0, client._id, "get_episode_settings", [[False]]]))
            assert client.receive()[0] == client._id - 1
            number, _, answer = client.receive()
            assert (number, answer[0][1][2]) == (client._id, [True, step_s])


def test_a_tick_is_answered_after_the_settings_that_end_a_cycle_but_its_state_goes_out_at_once(server):
    with Manager(server) as client, RawListener(server, WORLD_STREAM) as listener:
        listener.message()
        for _ in range(5):
            client.cycle()
            tick = client.send("tick_cue")
            listener.message()  # today's state: the tick is made, and only its answer waits
            settings = client.send("get_episode_settings")
            assert [client.receive()[0], client.receive()[0]] == [settings, tick]


def test_between_settings_and_tick_there_is_a_moment(server, monkeypatch):
    monkeypatch.setattr(managers, "_APART_S", MOMENT_S)
    with Manager(server) as client:
        client.cycle()
        client.value("get_episode_settings")
        start_s = time.perf_counter()
        client.value("tick_cue")
        assert time.perf_counter() - start_s > 0.9 * MOMENT_S


def test_whoever_ticks_waits_for_the_cycles_of_all(server):
    with Manager(server) as client, Manager(server, 8001), RawClient(server) as ticker:
        ticker.value("tick_cue")
        client.cycle()
        tick = ticker.send("tick_cue")
        ticker.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            ticker.receive()
        client.value("get_episode_settings")
        ticker.socket.settimeout(LONG_S / 2)
        assert ticker.receive()[0] == tick


@pytest.mark.parametrize("how", ["none", "destroyed", "gone", "settled", "users own"])
def test_where_no_cycle_is_open_no_tick_waits(server, how):
    with RawClient(server, timeout_s=LONG_S / 2) as ticker:
        if how == "none":
            ticker.value("get_vehicle_light_states")
            ticker.value("tick_cue")
            return
        with Manager(server) as client:
            client.cycle()
            if how == "destroyed":
                client.value("destroy_traffic_manager", 8000)
            elif how != "gone":
                client.value("get_episode_settings")
            if how == "users own":
                client.value("get_vehicle_light_states")
            if how != "gone":
                ticker.value("tick_cue")
                return
        ticker.value("tick_cue")


def test_a_client_that_goes_lets_go_of_the_ticks_that_wait_for_it(server):
    with RawClient(server, timeout_s=LONG_S / 2) as ticker:
        with Manager(server) as client:
            client.cycle()
            tick = ticker.send("tick_cue")
            ticker.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                ticker.receive()
        ticker.socket.settimeout(LONG_S / 2)
        assert ticker.receive()[0] == tick


def test_a_traffic_manager_that_does_not_ask_is_waited_for_once(server, monkeypatch):
    monkeypatch.setattr(managers, "_LONGEST_S", 1.0)
    with Manager(server) as client:
        took_s = []
        for _ in range(3):
            client.cycle()
            start_s = time.perf_counter()
            client.value("tick_cue")
            took_s.append(time.perf_counter() - start_s)
        assert took_s[0] > 0.9
        assert max(took_s[1:]) < 0.9
