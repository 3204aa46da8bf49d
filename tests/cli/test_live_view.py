"""A running server in the viewer: seen by one more client that commands nothing, and missed when it has gone."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from samepath.cli.live_view import LiveView
from samepath.core.errors import InputError
from samepath.sessions.observer import WorldObserver, address_of
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.chromium import BROWSER, chromium, settle
from tests.support.serving import RawClient, RawListener, served

SYNCHRONOUS = write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05))


@pytest.fixture
def town():
    """A server with a car and a walker, its client, and a view of it."""
    with served(map_name="t-junction") as server, RawClient(server) as client:
        client.ask("set_episode_settings", SYNCHRONOUS)
        points = client.value("get_map_info")[1]
        client.ask("spawn_actor", [0, "vehicle.audi.tt", []], points[0])
        client.ask("spawn_actor", [0, "walker.pedestrian.0001", []], points[1])
        client.value("tick_cue")
        live = LiveView("127.0.0.1", server.port)
        page = live.serve()
        page.start()
        yield server, client, page
        page.stop()
        live.close()


def state(page):
    with urllib.request.urlopen(f"{page.url}live.json", timeout=30) as answer:
        return json.loads(answer.read())


def until(page, wanted):
    """Ask until a state fits; states come by a thread of their own."""
    for _ in range(2000):
        found = state(page)
        if wanted(found):
            return found
    raise AssertionError(found)


def test_it_tells_who_is_there_and_where_as_the_server_does(town):
    _, client, page = town
    frame = client.value("tick_cue")
    found = until(page, lambda seen: seen["frame"] >= frame)
    assert found["map"] == "t-junction"
    kinds = {actor["type"]: actor for actor in found["actors"]}
    assert set(kinds) == {"vehicle.audi.tt", "walker.pedestrian.0001"}
    car = kinds["vehicle.audi.tt"]
    assert car["shape"]["kind"] == "car"
    assert car["shape"]["length_m"] == pytest.approx(4.18, abs=0.01)
    point = client.value("get_map_info")[1][0]
    assert [car["x"], car["y"]] == pytest.approx(point[0][:2], abs=0.5)


def test_an_actor_that_comes_or_goes_is_seen_to(town):
    _, client, page = town
    new = client.value("spawn_actor", [0, "vehicle.tesla.model3", []], client.value("get_map_info")[1][2])[0]
    client.value("tick_cue")
    assert until(page, lambda seen: len(seen["actors"]) == 3)
    client.value("destroy_actor", new)
    client.value("tick_cue")
    assert until(page, lambda seen: len(seen["actors"]) == 2)


def test_a_world_is_the_same_with_an_observer_and_without():
    def last(*, watched):
        with served(map_name="t-junction") as server, RawClient(server) as client:
            client.ask("set_episode_settings", SYNCHRONOUS)
            car = client.value("spawn_actor", [0, "vehicle.audi.tt", []], client.value("get_map_info")[1][0])[0]
            observer = WorldObserver("127.0.0.1", server.port) if watched else None
            client.ask("apply_control_to_vehicle", car, [0.8, 0.1, 0.0, False, False, False, 0])
            for _ in range(20):
                client.value("tick_cue")
                if observer is not None:
                    observer.world()
            if observer is not None:
                observer.close()
            with RawListener(server, 1) as listener:
                frame = client.value("tick_cue")
                # Who begins to listen may get the state of the tick before as well.
                message = listener.message()
                while int.from_bytes(message[8:16], "little") < frame:
                    message = listener.message()
            return message[48 + 36 :]  # without the header and the times of the wall clock: all actors, byte by byte

    assert last(watched=True) == last(watched=False)


def test_nothing_can_be_changed_from_the_page(town):
    _, _, page = town
    request = urllib.request.Request(f"{page.url}live.json", data=b"{}", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    assert caught.value.code == 405
    caught.value.close()


def test_a_server_that_has_gone_is_one_line():
    with served(map_name="t-junction") as server:
        live = LiveView("127.0.0.1", server.port)
        page = live.serve()
        page.start()
        state(page)
    for _ in range(200):
        try:
            state(page)
        except urllib.error.HTTPError as error:
            assert error.code == 503
            assert "127.0.0.1" in json.loads(error.read())["trouble"]
            error.close()
            break
    else:
        raise AssertionError("nothing was said")
    page.stop()
    live.close()


@pytest.mark.parametrize("text", ["", "x", "host:", "host:0", "host:99999", "host:-1"])
def test_an_address_that_is_none_is_one_line(text):
    with pytest.raises(InputError, match="localhost:2000"):
        address_of(text)


def test_nobody_at_an_address_is_one_line():
    with pytest.raises(InputError, match="is a CARLA server there"):
        WorldObserver("127.0.0.1", 1)


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="neither chromium, chromium-browser nor google-chrome is on PATH")
def test_the_page_draws_the_world_as_it_moves(town, tmp_path):
    _, client, page = town
    with chromium() as open_page:
        seen = open_page(page.url)
        assert seen.complaints == []
        assert "t-junction at 127.0.0.1" in seen.locator("#subtitle").inner_text()
        seen.wait_for_selector("body[data-actors='2']")
        frame = client.value("tick_cue")
        for _ in range(5):
            frame = client.value("tick_cue")
        seen.wait_for_selector(f"body[data-tick='{frame}']", timeout=60_000)
        settle(seen)
        labels = seen.locator("#labels .actor").all_inner_texts()
        assert sorted(text.split()[1] for text in labels) == ["car", "walker"]
        assert seen.locator("#timeline").is_hidden()
        seen.keyboard.press("3")
        settle(seen)
        assert seen.locator("#solid").get_attribute("aria-pressed") == "true"
        assert seen.complaints == []
        seen.screenshot(path=tmp_path / "live.png")


def test_serve_view_shows_the_world_in_a_process_that_ends_with_the_server(tmp_path):
    command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--data", str(tmp_path / "d"), "--view"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = next(line.split()[1] for line in process.stderr if line.startswith("view: "))
            with urllib.request.urlopen(f"{url}live.json", timeout=30) as answer:
                assert json.loads(answer.read())["map"] == "t-junction"
        finally:
            process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) == 0, said
    with pytest.raises(OSError, match=r"refused|reset"):
        urllib.request.urlopen(url, timeout=10)
