"""A running server in the viewer: seen by one more client that commands nothing, and missed when it has gone."""

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.cli.live_view import LiveView
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.sessions.observer import WorldObserver, address_of
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.chromium import BROWSER, chromium, settle
from tests.support.serving import RawClient, RawListener, described, served

LONGEST_S = 60.0

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
    end_s = SYSTEM_CLOCK.monotonic_s() + LONGEST_S
    while not wanted(found := state(page)):
        assert SYSTEM_CLOCK.monotonic_s() < end_s, found
    return found


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


TOKEN = "a-token-that-nobody-guesses"


def steer(page, query, token=TOKEN):
    """Ask to steer; returns the code and the line."""
    headers = {} if token is None else {"X-Samepath-Token": token}
    request = urllib.request.Request(f"{page.url}steer?{query}", data=b"", headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def steered():
    """A world that ticks by itself, its client, and a view of it with a token."""
    with served(map_name="t-junction") as server, RawClient(server) as client:
        client.value("get_map_info")
        live = LiveView("127.0.0.1", server.port, TOKEN)
        page = live.serve()
        page.start()
        yield client, page
        page.stop()
        live.close()


def test_who_has_the_token_lets_a_world_stand_step_and_go_slower(steered):
    client, page = steered
    assert state(page)["pace"] == 1.0
    assert steer(page, "pace=0") == (200, "it stands\n")
    still = until(page, lambda seen: seen["pace"] == 0.0)
    frame = client.value("tick_cue") - 1  # of a world that ticks by itself: the frame to come
    until(page, lambda seen: seen["frame"] == frame)
    assert state(page)["frame"] == frame >= still["frame"]
    assert steer(page, "pace=0&steps=3")[0] == 200
    until(page, lambda seen: seen["frame"] == frame + 3)
    assert client.value("tick_cue") - 1 == frame + 3
    assert steer(page, "pace=0.5") == (200, "it goes on at 0.5 of its pace\n")
    until(page, lambda seen: seen["frame"] > frame + 3)


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x"])
def test_who_has_not_the_token_cannot_steer(steered, token):
    _, page = steered
    code, words = steer(page, "pace=0", token)
    assert (code, "--view-token" in words) == (403, True)
    assert state(page)["pace"] == 1.0


def test_a_world_that_a_client_ticks_is_not_steered_and_says_so(steered):
    client, page = steered
    client.ask("set_episode_settings", SYNCHRONOUS)
    code, words = steer(page, "pace=0")
    assert (code, "a client ticks this world" in words) == (409, True)
    for query in ("pace=2", "pace=x", "", "pace=0&steps=-1", "pace=0&pace=1"):
        assert steer(page, query)[0] == 409, query


def test_when_the_view_goes_the_world_goes_on(steered):
    client, page = steered
    steer(page, "pace=0")
    other = LiveView("127.0.0.1", int(state(page)["address"].split(":")[1]))
    other._observer.set_pace(0.0)
    frame = client.value("tick_cue")
    other.close()
    until(page, lambda seen: seen["frame"] > frame)


def test_it_tells_of_lights_clients_and_cameras_and_shows_what_a_client_sees():
    with served(map_name="town") as server, RawClient(server) as client:
        client.ask("set_episode_settings", SYNCHRONOUS)
        point = client.value("get_map_info")[1][0]
        car = client.value("spawn_actor", [0, "vehicle.audi.tt", []], point)[0]
        above = [[-6.0, 0.0, 3.0], [-10.0, 0.0, 0.0]]
        small = described("sensor.camera.rgb", image_size_x=160, image_size_y=90)
        cameras = [client.value("spawn_actor_with_parent", small, above, car, 0, "") for _ in range(2)]
        heard, unheard = (camera[0] for camera in cameras)
        stream = int.from_bytes(bytes(cameras[0][5])[:4], "little")
        client.value("get_sensor_token", stream)
        live = LiveView("127.0.0.1", server.port)
        page = live.serve()
        page.start()
        try:
            with RawListener(server, stream) as listener:
                client.value("tick_cue")
                found = until(page, lambda seen: len(seen["sensors"]) == 2 and seen["clients"])
                assert len(found["lights"]) == 23
                assert {light[4] for light in found["lights"]} <= {0, 1, 2}
                assert found["synchronous"] is True
                assert len(found["clients"]) == 1  # not the view itself
                assert {(sensor["id"], sensor["parent"], sensor["seen"]) for sensor in found["sensors"]} == {
                    (heard, car, True), (unheard, car, False),
                }  # fmt: skip
                over = threading.Event()

                def drive():
                    while not over.wait(0.05):
                        client.value("tick_cue")
                        listener.message()

                driver = threading.Thread(target=drive)
                driver.start()
                try:
                    with urllib.request.urlopen(f"{page.url}sensor-{heard}.png", timeout=120) as answer:
                        assert answer.read().startswith(b"\x89PNG")
                    with urllib.request.urlopen(f"{page.url}picture.jpg?from=behind&actor={car}", timeout=120) as answer:
                        assert answer.read().startswith(b"\xff\xd8")
                    for path, code in (
                        (f"sensor-{unheard}.png", 409), ("sensor-999.png", 404), ("picture.jpg?from=behind&actor=999", 409),
                    ):  # fmt: skip
                        with pytest.raises(urllib.error.HTTPError) as caught:
                            urllib.request.urlopen(f"{page.url}{path}", timeout=30)
                        assert caught.value.code == code, path
                        caught.value.close()
                finally:
                    over.set()
                    driver.join(60)
        finally:
            page.stop()
            live.close()


def test_a_server_that_has_gone_is_one_line():
    with served(map_name="t-junction") as server:
        live = LiveView("127.0.0.1", server.port)
        page = live.serve()
        page.start()
        state(page)
    end_s = SYSTEM_CLOCK.monotonic_s() + LONGEST_S
    while SYSTEM_CLOCK.monotonic_s() < end_s:
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


# How much of the world is seen from above to below: the bar of the scale says how many metres it is long.
METRES_TALL = """() => {
  const bar = document.getElementById('scale'), stage = document.getElementById('stage');
  return parseFloat(bar.textContent) * stage.clientHeight / bar.getBoundingClientRect().width;
}"""


def follows(seen, who):
    """Wait until the page follows somebody, and keeps it in the middle."""
    seen.wait_for_function("who => document.getElementById('follow').selectedOptions[0].textContent === who", arg=who)
    settle(seen)
    where = seen.locator("#labels .actor").filter(has_text=who.partition(":")[0]).first.bounding_box()
    stage = seen.locator("#stage").bounding_box()
    assert abs(where["x"] + where["width"] / 2 - stage["x"] - stage["width"] / 2) < 0.2 * stage["width"]
    assert abs(where["y"] - stage["y"] - stage["height"] / 2) < 0.2 * stage["height"]


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="neither chromium, chromium-browser nor google-chrome is on PATH")
def test_the_page_draws_the_world_as_it_moves(town, tmp_path):
    _, client, page = town
    with chromium() as open_page:
        seen = open_page(page.url)
        assert seen.complaints == []
        assert "t-junction at 127.0.0.1" in seen.locator("#subtitle").inner_text()
        seen.wait_for_selector("body[data-actors='2']")
        (car,) = (actor["id"] for actor in state(page)["actors"] if actor["type"] == "vehicle.audi.tt")
        follows(seen, f"{car}: vehicle.audi.tt")
        assert 55 < seen.evaluate(METRES_TALL) < 70, "of an only car so much is seen around it that one knows where it is"
        frame = client.value("tick_cue")
        for _ in range(5):
            frame = client.value("tick_cue")
        seen.wait_for_selector(f"body[data-tick='{frame}']", timeout=60_000)
        settle(seen)
        labels = seen.locator("#labels .actor").all_inner_texts()
        assert sorted(text.split()[1] for text in labels) == ["car", "walker"]
        assert seen.locator("#timeline").is_hidden()
        hero = client.value(
            "spawn_actor", described("vehicle.tesla.model3", role_name="hero"), client.value("get_map_info")[1][2]
        )[0]
        client.value("tick_cue")
        follows(seen, f"{hero}: vehicle.tesla.model3")
        seen.keyboard.press("a")
        seen.wait_for_function("() => document.getElementById('follow').value === ''")
        client.ask("destroy_actor", car)
        client.value("tick_cue")
        seen.wait_for_selector("body[data-actors='2']")
        assert seen.locator("#follow").input_value() == "", "who has looked elsewhere is left alone"
        seen.keyboard.press("3")
        settle(seen)
        assert seen.locator("#solid").get_attribute("aria-pressed") == "true"
        assert seen.complaints == []
        seen.screenshot(path=tmp_path / "live.png")


@pytest.mark.parametrize(
    "verb",
    [
        ["serve"],
        pytest.param(
            ["cluster", "start", "--nodes", "0", "--link-port", "0", "--page-port", "0", "--run", "{folder}/run"],
            marks=pytest.mark.cluster,
        ),
    ],
    ids=["serve", "cluster"],
)
def test_the_view_of_a_server_is_a_process_that_ends_with_it(tmp_path, verb):
    own = ["--port", "0", "--data", str(tmp_path / "d"), "--view", "--view-token", str(tmp_path / "token")]
    command = [sys.executable, "-m", "samepath", *(part.format(folder=tmp_path) for part in verb), *own]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = next(line.split()[1] for line in process.stderr if line.startswith("view: "))
            url, _, token = address.partition("#token=")
            assert token == (tmp_path / "token").read_text().strip()
            with urllib.request.urlopen(f"{url}live.json", timeout=30) as answer:
                assert json.loads(answer.read())["map"] == "t-junction"
        finally:
            process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) == 0, said
    with pytest.raises(OSError, match=r"refused|reset"):
        urllib.request.urlopen(url, timeout=10)


@pytest.mark.parametrize("verb", [["serve"], ["cluster", "start"], ["view", "tests/data/tsl_format.txt"]])
def test_a_token_without_a_page_to_steer_from_is_one_line(verb):
    result = CliRunner().invoke(app, [*verb, "--view-token", "nowhere/token"])
    assert result.exit_code != 0
    assert "--view-token: " in str(result.exception)
