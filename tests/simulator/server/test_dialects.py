"""Clients of CARLA 0.9.15 and 0.9.14 are served in their own protocol, older ones are told so; by hand, over the wire."""

import os
import struct
import subprocess
import sys

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.simulator.carla.blueprints import library
from samepath.simulator.carla.streams import SENSOR_TYPES, WORLD_OBSERVER, WORLD_STREAM
from samepath.simulator.server.dialects import TOO_OLD, dialect_of
from tests.support.serving import RawClient, RawListener, served

OLD = pytest.mark.parametrize("version", ["0.9.15", "0.9.14"])
PLACE = [[34.0, -200.0, 0.3], [0.0, 90.0, 0.0]]
BOOL, INT, FLOAT, STRING, COLOUR = range(5)  # as they were


def settings_of(version, step_s=0.05):
    """CARLA's settings: eleven fields, of which the last came with 0.9.15."""
    return [True, False, [True, step_s], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, *([True] if version == "0.9.15" else [])]


@pytest.fixture
def world(version):
    with served(protocol=version, map_name="oval") as server, RawClient(server) as client:
        client.value("set_episode_settings", settings_of(version))
        yield server, client


def kind_of(message):
    return struct.unpack_from("<Q", message)[0]


@OLD
def test_the_version_is_the_clients_and_the_state_has_its_number(world, version):
    server, client = world
    assert client.value("version") == version
    with RawListener(server, WORLD_STREAM) as listener:
        assert kind_of(listener.message()) == WORLD_OBSERVER - 1
        client.value("tick_cue")
        assert kind_of(listener.message()) == WORLD_OBSERVER - 1


@OLD
def test_settings_have_as_many_fields_as_the_client_knows(world, version):
    _, client = world
    assert client.value("get_episode_settings") == settings_of(version)


@OLD
def test_types_of_attributes_count_from_0(world, version):
    _, client = world
    ours = {blueprint.id: blueprint for blueprint in library()}
    definitions = client.value("get_actor_definitions")
    assert len(definitions) > 200
    for _, name, _, attributes in definitions:
        assert [(key, kind) for key, kind, *_ in attributes] == [(a.id, int(a.type) - 1) for a in ours[name].attributes]
    car = client.value(
        "spawn_actor", [0, "vehicle.tesla.model3", [["color", COLOUR, "1,2,3"], ["role_name", STRING, "x"]]], PLACE
    )
    given_back = {key: (kind, value) for key, kind, value in car[2][2]}
    assert given_back["color"] == (COLOUR, "1,2,3")
    assert given_back["number_of_wheels"] == (INT, "4")
    assert client.value("get_actors_by_id", [car[0]])[0][2] == car[2]
    assert client.value("get_spectator")[2][1] == "spectator"


@OLD
def test_what_is_attached_has_no_socket_and_a_batch_neither(world, version):
    server, client = world
    car = client.value("spawn_actor", [0, "vehicle.tesla.model3", []], PLACE)[0]
    here = [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
    touch = client.value("spawn_actor_with_parent", [0, "sensor.other.collision", []], here, car, 0)
    other = [[34.0, -191.0, 0.3], [0.0, 90.0, 0.0]]
    go = [[2, [0, [1.0, 0.0, 0.0, False, False, False, 0]]]]
    wall = [[[0, [[0, "vehicle.audi.a2", [["color", COLOUR, "9,9,9"]]], other, [False], [go]]]]]
    error, answers = client.ask("apply_batch", wall, False)
    assert error is None
    assert answers[0][0][0] == 1
    stream = struct.unpack_from("<I", bytes(client.value("get_sensor_token", token_stream(touch))[0]))[0]
    with RawListener(server, stream) as listener:
        client.ask("apply_control_to_vehicle", car, [1.0, 0.0, 0.0, False, False, False, 0])
        client.ask("apply_control_to_vehicle", answers[0][0][1], [1.0, 0.0, 0.0, False, False, True, -1])
        for _ in range(60):
            client.value("tick_cue")
        message = listener.message()
    assert kind_of(message) == SENSOR_TYPES["sensor.other.collision"]
    this, that, _ = msgpack.unpackb(message[48:])
    assert {this[2][1], that[2][1]} == {"vehicle.tesla.model3", "vehicle.audi.a2"}
    assert ["color", COLOUR, "9,9,9"] in that[2][2]


def token_stream(actor):
    return struct.unpack_from("<I", bytes(actor[5]))[0]


@OLD
def test_a_replay_has_no_offset_and_a_box_no_actor(tmp_path, version):
    with served(protocol=version, data_folder=tmp_path) as server, RawClient(server) as client:
        client.value("set_episode_settings", settings_of(version))
        client.value("start_recorder", "a.log", False)
        client.value("tick_cue")
        client.ask("stop_recorder")
        assert "Replaying" in client.value("replay_file", "a.log", 0.0, 0.0, 0, False)
        box = [[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], [0.0, 0.0, 0.0], 0.1]
        assert client.ask("draw_debug_shape", [[3, box], [255, 0, 0], 1.0, True]) == (None, [[False]])
        assert "socket" not in str(client.ask("set_episode_settings", [True])[0])  # nonsense is refused as ever


def test_the_newest_needs_no_dialect_and_others_are_refused():
    assert dialect_of("0.9.16") is None
    for version in ("0.9.13", "0.10.0", "", "latest"):
        with pytest.raises(InputError, match=r"0\.9\.16, 0\.9\.15, 0\.9\.14 was wanted"):
            dialect_of(version)


@pytest.mark.parametrize("protocol", ["0.9.16", "0.9.15"])
def test_a_client_that_is_too_old_is_told_so_and_gets_no_state_that_would_end_it(protocol):
    """Up to 0.9.13 clients fetch the state's stream without asking for its token."""
    with served(protocol=protocol) as server, RawClient(server) as client:
        client.value("version")
        client.value("get_episode_info")
        with RawListener(server, WORLD_STREAM, timeout_s=0.3) as listener:
            with pytest.raises(TimeoutError):
                listener.message()
            error, result = client.ask("get_episode_settings")
        assert (error, result) == (None, [[0, [TOO_OLD]]])
        assert any("was refused" in line and TOO_OLD in line for line in server.lines)
        # Others are served meanwhile.
        with RawClient(server) as another:
            for name in ("version", "get_episode_info"):
                another.value(name)
            another.value("get_sensor_token", WORLD_STREAM)
            assert len(another.value("get_episode_settings")) == 11


SHORT_SCRIPT = """
import carla, os, sys
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(60.0)
if sys.argv[2] == "version":
    client.get_server_version()
else:
    client.get_world()
sys.stdout.flush()
if sys.argv[3] == "killed":
    os._exit(0)  # no destructor runs: the sockets close as when a client ends itself
"""


@pytest.mark.parametrize("synchronous", [False, True], ids=["asynchronous", "synchronous"])
@pytest.mark.parametrize("end", ["returned", "killed"])
@pytest.mark.parametrize("calls", ["version", "get_world"])
def test_a_short_script_with_the_right_client_leaves_no_hint(synchronous, end, calls, tmp_path):
    pytest.importorskip("carla")
    with served() as server, RawClient(server) as other:
        if synchronous:
            other.value("set_episode_settings", settings_of("0.9.15"))
        command = [sys.executable, "-c", SHORT_SCRIPT, str(server.port), calls, end]
        cache = {**os.environ, "CARLA_CACHE_DIR": str(tmp_path)}
        subprocess.run(command, timeout=120, check=True, env=cache)
        other.value("tick_cue")  # the event loop has seen the script go
        assert not any("--protocol VERSION" in line for line in server.lines)


def test_one_that_ends_at_its_first_state_leaves_a_hint():
    with served() as server:
        with RawClient(server) as client:
            client.value("version")
            client.value("get_episode_info")
            client.value("get_sensor_token", WORLD_STREAM)
            client.value("get_episode_settings")
        with RawClient(server) as other:
            other.value("version")
            other.value("tick_cue")  # the event loop has seen the first one go
        assert any("--protocol VERSION" in line for line in server.lines)


PLAIN = st.none() | st.integers(-5, 5) | st.text(max_size=3)
TRANSLATED = "spawn_actor spawn_actor_with_parent apply_batch replay_file set_episode_settings draw_debug_shape"


@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=5), max_leaves=30))
def test_whatever_a_client_sends_is_translated_or_passed_on(arguments):
    dialect = dialect_of("0.9.14")
    for name in TRANSLATED.split():
        message = msgpack.packb([0, 1, name, arguments])
        found = msgpack.unpackb(dialect.request(message, 1 << 20))
        assert found[:3] == [0, 1, name]
    assert dialect.request(b"\xc1", 1 << 20) == b"\xc1"
    assert dialect.request(b"\x00" * 9, 8) == b"\x00" * 9


def test_a_client_beside_one_that_is_on_its_way_in_is_not_taken_for_an_old_one():
    with served() as server, RawClient(server) as first, RawClient(server) as second:
        for client in (first, second):
            client.value("version")
            client.value("get_episode_info")
        second.value("get_sensor_token", WORLD_STREAM)
        with RawListener(server, WORLD_STREAM) as listener:
            assert kind_of(listener.message()) == WORLD_OBSERVER
        # Without a token of its own a listener waits until the first one is through, and then has its state.
        with RawListener(server, WORLD_STREAM) as listener:
            first.value("get_sensor_token", WORLD_STREAM)
            assert kind_of(listener.message()) == WORLD_OBSERVER
