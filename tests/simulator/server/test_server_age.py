"""Messages to a client depend neither on the age of the server nor on earlier clients.

The pasts of a server, the script and what is absolute by declaration are in ``tests/support/server_age.py``;
``python -m bench age`` does the same at more sizes and over more ticks.
"""

import shutil
import struct
from dataclasses import replace

import numpy as np
import pytest

from samepath.core.states import Vector
from samepath.simulator.carla.records import write_settings
from samepath.simulator.carla.streams import LIGHTS_CHANGED, WORLD_STREAM, as_sent
from samepath.simulator.sensors.cuda.host_device import COMPILER
from samepath.simulator.sensors.events import EVENT, nanoseconds
from samepath.simulator.sensors.radio import CUSTOM_NAME, IN_SIGHT, Link
from samepath.simulator.server.actors import SignEntry
from samepath.simulator.server.commands import CallerGone, apply
from samepath.simulator.server.radio import CustomRadioSensor, Station, Transmission
from samepath.simulator.server.rendering import LocalRenderer
from samepath.simulator.server.sensors import sensor_models
from samepath.simulator.server.ticking import tick
from samepath.simulator.traffic.traffic import TrafficSettings
from tests.support.frame_clock import FrameClock
from tests.support.server_age import (
    NOON,
    PASTS,
    SILENT,
    SYNCHRONOUS,
    EmulatedRenderer,
    Script,
    Session,
    differences,
    fresh,
    in_real_time,
    reloaded,
    server,
    session,
)
from tests.support.serving import Somebody, call, described, ticks

RAIN = Script(width=61, height=37, tick_count=10)
CLEAR = Script(width=64, height=48, tick_count=10, weather=NOON)
SMALL = Script(width=17, height=11, tick_count=5)
SHORT_PASTS = (
    "2 s in real time",
    "17.35 s in real time",
    "17.35 s in lockstep",
    "a session",
    "a session and a reload",
)


@pytest.fixture(scope="module")
def renderer():
    """One renderer for all: what it drew for another server must leave no trace either."""
    made = LocalRenderer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def in_rain(renderer):
    return session(fresh, RAIN, renderer)


def test_every_kind_of_sensor_speaks(in_rain):
    speaking = {kind for kind, messages in in_rain.items() if messages}
    assert set(sensor_models()) - {SILENT} <= speaking


@pytest.mark.parametrize("past", SHORT_PASTS)
def test_a_session_in_rain_at_dusk_does_not_depend_on_the_past(past, in_rain, renderer):
    assert differences(in_rain, session(PASTS[past], RAIN, renderer)) == []


def test_a_session_at_noon_does_not_depend_on_the_past(renderer):
    wanted = session(fresh, CLEAR, renderer)
    assert differences(wanted, session(in_real_time(17.35), CLEAR, renderer)) == []


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
def test_the_kernels_of_the_card_give_the_same_bytes(renderer):
    drawn = EmulatedRenderer()
    try:
        assert differences(session(fresh, SMALL, renderer), session(in_real_time(2.0), SMALL, drawn)) == []
    finally:
        drawn.close()


def test_the_servers_own_traffic_does_not_depend_on_the_past(renderer):
    script = replace(SMALL, traffic=TrafficSettings(vehicles=12, walkers=6))
    wanted = session(fresh, script, renderer)
    past = reloaded(in_real_time(2.0))
    assert differences(wanted, session(past, script, renderer)) == []


def test_what_is_left_in_the_world_is_seen(in_rain, renderer):
    """The comparison can fail: a car that another client left behind shows."""

    def with_a_car(host):
        point = host.map.spawn_points[0].location
        call(
            host,
            "spawn_actor",
            described("vehicle.audi.tt"),
            ((point.x - 4.0, point.y + 20.0, 0.5), (0.0, 0.0, 0.0)),
        )

    lines = differences(in_rain, session(with_a_car, RAIN, renderer))
    assert {"state", "sensor.camera.rgb", "sensor.other.gnss"} <= {line.partition(":")[0] for line in lines}


def events_of(host, stream_id):
    """The header's time of each message of an event camera, and its events."""
    for payload in host.context.outbox.of(stream_id):
        yield struct.unpack_from("<d", payload, 16)[0], np.frombuffer(payload, EVENT, offset=60)


def test_events_lie_between_two_images_on_the_clock_of_the_episode(renderer):
    host = server(SMALL, renderer)
    in_real_time(17.35)(host)
    client = Session(host, SMALL)
    client.play()
    streams = [number for number, kind in client.streams.items() if kind == "sensor.camera.dvs"]
    step_s, last_ns, count = as_sent(SMALL.step_s), 0, 0
    for time_s, events in events_of(host, streams[0]):
        assert max(last_ns, nanoseconds(time_s - step_s)) <= events["t"].min()
        assert events["t"].max() <= nanoseconds(time_s)
        assert (np.diff(events["t"]) >= 0).all()
        last_ns, count = events["t"].max(), count + len(events)
    assert count > 100


def test_a_radio_counts_time_from_its_first_tick():
    """Messages wait ordered by their arrival, which the age of the server must not round otherwise."""
    sender = Station(1, 3, Vector(), 0.0, 1, 1)
    link = Link(10.0, 1.5, 1.5, IN_SIGHT)

    def after(age_s):
        radio = CustomRadioSensor(described(CUSTOM_NAME, network_profile="dsrc"), 7)
        states = []
        for number in range(50):
            sent = [(Transmission(sender, 21.5, b"%d" % turn, 200), link) for turn in range(9)]
            radio.hear(age_s + number * as_sent(0.05), sent)
            *state, began_s, _ = radio.state()
            assert began_s == age_s
            states.append(state)
        return states

    assert any(waiting for _, _, waiting, *_ in after(0.0))
    assert after(17.35) == after(0.0) == after(2.0**20 + 1.0 / 1024)


def test_lights_begin_anew_with_the_times_that_a_client_gave_them():
    """A client sets times while the wall clock runs, and then goes to synchronous mode."""

    def shown_after(seconds):
        host = server(RAIN)
        lights = [entry for entry in host.actors.all(SignEntry) if entry.light is not None]
        in_real_time(seconds)(host)
        for entry in lights:
            call(host, "set_traffic_light_green_time", entry.id, 1.5)
        in_real_time(2.0 * seconds)(host)
        call(host, "set_episode_settings", write_settings(SYNCHRONOUS))
        found = []
        for _ in range(50):
            ticks(host, 1)
            found.append(host.signals.states())
        return found

    wanted = shown_after(0.0)
    assert len({tuple(state.shows for state in states) for states in wanted}) > 1
    assert {state.green_s for state in wanted[0]} == {1.5}
    assert shown_after(0.7) == wanted
    assert shown_after(9.1) == wanted


def test_a_client_that_has_gone_is_not_waited_for_with_news_of_street_lights():
    host = server(RAIN)
    gone, here = Somebody(), Somebody()
    for caller in (gone, here):
        lamps = call(host, "query_lights_state", caller.name + str(id(caller)), caller=caller)
    apply(host, CallerGone(gone))
    name = here.name + str(id(here))
    call(host, "update_lights_state", name, [lamps[0]._replace(active=True)], False, caller=here)
    tick(host, 0.05)
    (flags,) = struct.unpack_from("<I", host.context.outbox.of(WORLD_STREAM)[-1], 80)
    assert flags & LIGHTS_CHANGED == 0
    assert list(host.lamps.told) == [name]


def test_a_name_that_several_clients_share_is_kept_until_the_last_has_gone():
    host = server(RAIN)
    first, second = Somebody(), Somebody()
    for caller in (first, second):
        call(host, "query_lights_state", "127.0.0.1:2000", caller=caller)
    apply(host, CallerGone(first))
    assert host.lamps.told == {"127.0.0.1:2000": True}
    apply(host, CallerGone(second))
    assert host.lamps.told == {}


def test_names_that_a_client_gives_up_are_not_kept():
    host, caller = server(RAIN), Somebody()
    for number in range(50):
        lamps = call(host, "query_lights_state", f"name {number}", caller=caller)
        call(host, "update_lights_state", f"name {number}", [lamps[0]], True, caller=caller)
    assert host.lamps.told == {}
    assert host.connections.disconnect(caller) == ()


def test_a_recording_does_not_depend_on_the_past(tmp_path, renderer):
    def recorded(past):
        host = server(SMALL, renderer, tmp_path)
        host.context = replace(host.context, clock=FrameClock())  # the date is in the file
        PASTS.get(past, fresh)(host)
        call(host, "start_recorder", f"{past}.log", True)
        Session(host, SMALL).play()
        call(host, "stop_recorder")
        return (tmp_path / f"{past}.log").read_bytes()

    assert recorded("17.35 s in lockstep") == recorded("nothing")
