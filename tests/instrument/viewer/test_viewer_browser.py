"""The viewer in a real Chromium: it draws what the trace says where it says it, keys and buttons work, names do nothing."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from samepath.instrument.monitors.file import read_monitors
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.viewer.page import (
    ViewServer,
    ViewSource,
    cell_block,
    ground_block,
    index_of,
    index_row,
    served_page,
    whole_page,
)
from samepath.instrument.viewer.scene import Ground, Surface, view_cell
from tests.conftest import cell_of
from tests.support.chromium import BROWSER, chromium, settle

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="neither chromium, chromium-browser nor google-chrome is on PATH"),
]
CHANNELS = ("x_m", "y_m", "z_m", "yaw_deg")
ODD = "</script><img src=x onerror=\"document.title='caught'\"><b>"
APART_M = 0.5


def run(repeat, *, apart_m=0.0, names=("vehicle.tesla.model3", "walker.pedestrian.0001"), reason="done", detail=""):
    """A car along x and a walker along y; from tick 20 on the car is displaced to the right."""
    recorder = Recorder(repeat, CHANNELS, 0.05)
    for number, name in enumerate(names, start=1):
        recorder.actor(number, name)
    for tick in range(60):
        shift = apart_m if tick >= 20 else 0.0
        recorder.state(tick, 1, {"x_m": 100.0 + 0.2 * tick, "y_m": -40.0 + shift, "z_m": 0.0, "yaw_deg": 0.0})
        recorder.state(tick, 2, {"x_m": 106.0, "y_m": -50.0 + 0.1 * tick, "z_m": 0.9, "yaw_deg": 90.0})
    if apart_m:
        recorder.event(40, "collision", 1, other=2, detail=detail)
    recorder.end(59, reason)
    return recorder.finish()


def cells(**odd):
    runs = [run(0, **odd), run(1, **odd), run(2, apart_m=APART_M, **odd)]
    yield cell_of(runs, channels=CHANNELS, step_s=0.05, cell=odd.get("reason", "three"))
    yield cell_of(runs[:2], channels=CHANNELS, step_s=0.05, cell="two alike")


def parts(title="a study", monitor="on the left", **odd):
    monitors = read_monitors({"monitors": [
        {"name": monitor, "expression": "y_m(1) < -39.9"},
        {"name": "nobody's", "expression": "speed(77) < 1"},
    ]}, "test")  # fmt: skip
    views = [view_cell(cell, monitors=monitors) for cell in cells(**odd)]
    square = np.array([[80, -60, 0], [130, -60, 0], [130, -20, 0], [80, -20, 0]], np.float32)
    ground = Ground("square", (Surface("road", square, np.array([[0, 1, 2], [0, 2, 3]], np.uint32)),))
    index = index_of(title, "1.2.3", [index_row(views[0], 0), index_row(views[1], None)], ["square"], ["behind", "ahead"])
    return index, [cell_block(view) for view in views], [ground_block(ground)]


@pytest.fixture(scope="module")
def browser():
    with chromium() as open_page:
        yield open_page


ASKED = []  # of pictures, what the page asked for


def drawn(fields):
    """A picture; who draws real ones is tested elsewhere."""
    ASKED.append(dict(fields))
    sink = io.BytesIO()
    Image.new("RGB", (64, 36), (200, 100, 50)).save(sink, "JPEG")
    return sink.getvalue()


@pytest.fixture(scope="module")
def url():
    index, blocks, grounds = parts()
    server = ViewServer(ViewSource(lambda: served_page(index), blocks.__getitem__, grounds.__getitem__, drawn))
    server.start()
    yield server.url
    server.stop()


def pixels(page):
    """What is seen when all rests: some time after the last change the processor draws once more, with smooth edges."""
    settle(page)
    page.evaluate("() => new Promise(done => setTimeout(done, 350))")  # of the page's clock, begun after its own 300
    settle(page)
    return np.asarray(Image.open(io.BytesIO(page.locator("#stage").screenshot())).convert("RGB")).astype(int)


def text(page, name):
    return page.locator(f"#{name}").inner_text()


def blob(picture, near, within=45):
    """Middle of all pixels near a colour, as x and y, and how many there are."""
    rows, columns = np.nonzero(np.abs(picture - np.array(near)).max(axis=2) < within)
    return (columns.mean(), rows.mean(), len(rows)) if len(rows) else (None, None, 0)


def pixels_per_m(page):
    length, unit = re.fullmatch(r"([\d.]+) (\w+)", text(page, "scale")).groups()
    metres = float(length) * {"m": 1.0, "cm": 0.01, "km": 1000.0}[unit]
    return page.locator("#scale").bounding_box()["width"] / metres


@pytest.fixture(scope="module")
def opened(browser, url):
    """One page for all tests that change nothing which the next cannot set back: to load it takes longer than to use it."""
    made = browser(url)
    yield made
    assert made.complaints == []
    made.close()


@pytest.fixture
def page(opened):
    opened.set_viewport_size({"width": 1280, "height": 800})
    opened.emulate_media(color_scheme="light")
    opened.locator("#colour").select_option("outcome")
    opened.locator("#follow").select_option("")
    opened.locator("[data-magnify='1']").click()
    opened.locator("#help").evaluate("one => one.close()")
    for key in ("2", "Home", "a"):
        opened.keyboard.press(key)
    for box in opened.locator("#outcomes input, #paths, #names").all():
        box.check()
    return opened


def tick_of(page):
    return int(page.locator("body").get_attribute("data-tick"))


def test_it_says_what_there_is_and_asks_nobody_but_its_server(page, url):
    assert all(address.startswith((url, "data:", "blob:")) for address in page.asked)
    assert page.title() == "a study \u2013 samepath view"
    assert text(page, "subtitle") == "three \u2013 3 repeats, 2 outcomes"
    assert "2: walker.pedestrian.0001" in page.locator("#follow").inner_text()
    assert "repeat 0, 1 (reference)" in text(page, "outcomes")
    assert "parts at 20" in text(page, "outcomes")
    assert text(page, "endings").splitlines() == ["2 repeats: no collision; done", "1 repeat: collision 1 with 2; done"]
    assert "actor 1 hits actor 2 (1 of 3)" in text(page, "events")


def test_keys_and_buttons_move_through_the_run(page):
    assert tick_of(page) == 0
    keys = (
        ("ArrowRight", 1),
        ("Shift+ArrowRight", 11),
        ("ArrowLeft", 10),
        ("End", 59),
        ("Home", 0),
        ("p", 20),
        ("]", 40),
        ("[", 20),
    )
    for key, wanted in keys:
        page.keyboard.press(key)
        assert tick_of(page) == wanted, key
    page.keyboard.press("Home")
    page.keyboard.press("c")
    assert tick_of(page) == 20
    assert text(page, "apart") == "50.0 cm apart at most"
    box = page.locator("#timeline").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 10, box["y"] + 40)
    assert tick_of(page) == 59
    slider = page.locator("#timeline")
    assert slider.get_attribute("aria-valuenow") == "59"
    assert slider.get_attribute("aria-valuetext") == "tick 59, 2.95 seconds, 50.0 cm apart at most"
    page.keyboard.press("Home")
    page.locator("#speed").select_option("16")
    page.locator("#play").click()
    page.wait_for_selector("body[data-tick='59']", timeout=60_000)
    assert text(page, "play") == "Play"  # it stops at the end
    page.locator("#help").wait_for(state="hidden")
    page.keyboard.press("?")
    page.locator("#help").wait_for(state="visible")
    page.keyboard.press("Escape")
    page.locator("#help").wait_for(state="hidden")


def test_the_scale_says_how_long_its_bar_is_at_every_distance(page):
    settle(page)
    near, seen = pixels_per_m(page), set()
    for presses in range(1, 19):
        page.keyboard.press("-")
        settle(page)
        seen.add(text(page, "scale"))
        assert pixels_per_m(page) == pytest.approx(near * 0.8**presses, rel=0.02)
    assert {"10 m", "100 m"} <= seen


def test_an_outcome_is_drawn_where_it_was_and_magnified_differences_where_they_would_be(page):
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    for name in ("paths", "names"):
        page.locator(f"#{name}").uncheck()
    boxes = page.locator("#outcomes input")
    boxes.nth(1).uncheck()
    reference = blob(pixels(page), (0, 90, 160), 40)
    assert reference[2] > 100
    boxes.nth(1).check()
    boxes.nth(0).uncheck()
    other = blob(pixels(page), (213, 94, 0), 60)
    assert other[2] > 100
    scale = pixels_per_m(page)
    # To the right in CARLA's frame is downwards here.
    assert other[1] - reference[1] == pytest.approx(APART_M * scale, abs=2.0)
    assert other[0] == pytest.approx(reference[0], abs=2.0)
    page.locator("[data-magnify='10']").click()
    assert text(page, "magnified") == "differences in place \u00d710"
    far = blob(pixels(page), (213, 94, 0), 60)
    assert far[1] - other[1] == pytest.approx(9 * APART_M * scale, abs=3.0)


def test_three_dimensions_and_following(page):
    page.keyboard.press("3")
    page.keyboard.press("f")
    settle(page)
    assert page.locator("#solid").get_attribute("aria-pressed") == "true"
    assert page.locator("#scale").is_hidden()
    label = page.locator("#labels .actor", has_text="1 car")
    before = label.bounding_box()
    page.keyboard.press("End")
    settle(page)
    after = label.bounding_box()
    # The followed actor stays where it is in the picture, although it has driven 12 m.
    assert after["x"] == pytest.approx(before["x"], abs=2)
    assert after["y"] == pytest.approx(before["y"], abs=2)
    assert "view=3d" in page.url
    assert "follow=1" in page.url


def test_in_flight_the_camera_goes_where_it_looks(page):
    page.keyboard.press("v")
    settle(page)
    label = page.locator("#labels .actor", has_text="1 car")
    before = label.bounding_box()
    page.keyboard.down("s")
    page.wait_for_function(
        "from => document.body.dataset.frames > from + 3", arg=int(page.locator("body").get_attribute("data-frames"))
    )
    page.keyboard.up("s")
    settle(page)
    after = label.bounding_box()
    assert before != after
    page.keyboard.press("v")
    assert "flying" not in (page.locator("body").get_attribute("class") or "")


def test_monitors_have_their_bars_words_and_colours(page):
    assert text(page, "monitors").splitlines()[:2] == ["on the left", "passes in 2 of 3, smallest margin -0.4 m"]
    assert "not judged: " in text(page, "monitors")
    page.locator("#monitors button", has_text="tick 20").click()
    assert tick_of(page) == 20
    page.locator("#monitors button", has_text="colour by it").click()
    assert page.locator("#colour").input_value() == "verdict"
    page.locator("#names").uncheck()
    picture = pixels(page)
    assert blob(picture, (179, 38, 30), 60)[2] > 30  # who fails
    assert blob(picture, (0, 121, 90), 60)[2] > 30  # who passes
    # On the timeline: all hold until they part, then they disagree.
    line = np.asarray(Image.open(io.BytesIO(page.locator("#timeline").screenshot())).convert("RGB"))
    holds, flips = ({tuple(pixel) for pixel in line[-40:-26, int(share * line.shape[1])].tolist()} for share in (0.32, 0.8))
    assert (46, 139, 87) in holds
    assert (182, 80, 0) in flips


def test_cells_stand_side_by_side_under_one_timeline(page):
    page.locator("#cells input").nth(1).check()
    page.locator("#labels .title").first.wait_for()
    assert page.locator("#labels .title").all_inner_texts() == ["three", "two alike"]
    page.keyboard.press("Shift+ArrowRight")
    picture = pixels(page)
    half = picture.shape[1] // 2
    assert len(np.unique(picture[:, :half].reshape(-1, 3), axis=0)) > 10
    assert len(np.unique(picture[:, half:].reshape(-1, 3), axis=0)) > 10
    page.locator("#cells input").nth(0).uncheck()
    page.locator("#labels .title").first.wait_for(state="detached")
    assert text(page, "subtitle") == "two alike \u2013 2 repeats, 1 outcome"
    assert text(page, "apart") == "all repeats are the same to the bit"
    assert page.locator("#part").is_disabled()
    page.locator("#cells input").nth(0).check()
    page.locator("#cells input").nth(1).uncheck()
    page.wait_for_function("() => document.getElementById('subtitle').textContent.startsWith('three')")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (390, True)])
def test_it_fits_a_desk_and_a_telephone_in_both_themes(page, width, dark):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if dark else "light")
    settle(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == (
        "rgb(22, 28, 34)" if dark else "rgb(255, 255, 255)"
    )
    outside = page.evaluate(
        """() => [...document.querySelectorAll("header *, footer *, #panel *")].filter(one => {
            const box = one.getBoundingClientRect();
            return box.width && (box.right > innerWidth + 1 || box.left < -1);
        }).map(one => one.outerHTML.slice(0, 80))"""
    )
    assert outside == []
    page.keyboard.press("t")
    assert page.evaluate("() => document.documentElement.dataset.theme") == ("light" if dark else "dark")
    page.keyboard.press("t")


SHAPES = """() => ["world", "timeline"].map(name => {
  const canvas = document.getElementById(name), box = canvas.getBoundingClientRect();
  return [canvas.width / canvas.height, box.width / box.height, box.width];
})"""


def test_on_paper_the_pictures_keep_the_shape_in_which_they_were_drawn(page):
    """A browser tells the page, and lays it out anew for a sheet of paper without drawing it again."""
    drawn = [shape for shape, _, _ in page.evaluate(SHAPES)]
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1047})
    for before, (_, shown, width_px) in zip(drawn, page.evaluate(SHAPES), strict=True):
        assert shown == pytest.approx(before, rel=0.02)
        assert width_px <= 718
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("#stage").get_attribute("style") in ("", None)


def test_a_picture_is_asked_for_with_what_the_page_shows(page):
    page.keyboard.press("Shift+ArrowRight")
    page.locator("#picture-of").select_option("2")
    page.keyboard.press("i")
    page.wait_for_selector("#figure:not([hidden]) img[src^='blob:']")
    assert text(page, "picture-words") == "repeat 2 at tick 10, behind actor 1"
    assert ASKED[-1] == {"cell": "0", "repeat": "2", "tick": "10", "from": "behind", "actor": "1"}
    page.locator("#mount").select_option("view")
    page.wait_for_function("() => document.getElementById('picture-words').textContent.endsWith('page looks')")
    where = ASKED[-1]
    # From above, over the middle of what is shown.
    assert (where["pitch"], where["yaw"]) == ("-90", "-90")
    assert float(where["x"]) == pytest.approx(106.0, abs=6.0)
    assert float(where["y"]) == pytest.approx(-44.0, abs=6.0)
    page.locator("#picture-close").click()
    assert page.locator("#figure").is_hidden()
    page.locator("#mount").select_option("behind")


def test_a_deep_link_shows_what_it_says(browser, url):
    page = browser(url + "#cell=0,1&tick=25&view=3d&follow=1&magnify=10")
    assert page.locator("#labels .title").all_inner_texts() == ["three", "two alike"]
    assert tick_of(page) == 25
    assert page.locator("#solid").get_attribute("aria-pressed") == "true"
    assert page.locator("#follow").input_value() == "0"
    assert text(page, "magnified") == "differences in place \u00d710"
    assert page.complaints == []
    page.close()


def test_of_very_many_the_reference_is_on_top_from_above_and_in_three_dimensions(browser):
    """Three hundred bodies and more are drawn by another way: solid, and from the front to the back."""
    runs = [run(repeat, apart_m=0.001 * repeat) for repeat in range(160)]
    made = view_cell(cell_of([*runs, run(160)], channels=CHANNELS, step_s=0.05, cell="many"))
    index, blocks, _ = parts()
    index = {**index, "cells": [index_row(made, None)._asdict()]}
    server = ViewServer(ViewSource(lambda: served_page(index), [cell_block(made)].__getitem__, blocks.__getitem__))
    server.start()
    page = browser(server.url + "#tick=10")
    try:
        page.locator("#names").uncheck()
        page.locator("#paths").uncheck()
        for key in ("2", "3"):
            page.keyboard.press(key)
            assert blob(pixels(page), (0, 82, 146), 30)[2] > 60, key
        # Without the reference the others are seen, which stand at the same place until they part.
        page.keyboard.press("2")
        page.locator("#outcomes input").first.uncheck()
        assert blob(pixels(page), (0, 82, 146), 20)[2] == 0
        assert page.complaints == []
    finally:
        page.close()
        server.stop()


def test_names_from_a_trace_are_text_in_the_file_and_on_the_page(browser, tmp_path):
    index, blocks, grounds = parts(ODD, ODD, names=(ODD, "walker.<script>"), reason=ODD, detail=ODD)
    index["pictures"] = [[{"tick": 1, "repeat": 0, "words": ODD, "jpeg": ODD}], []]
    file = tmp_path / "view.html"
    file.write_text(whole_page(index, blocks, grounds), encoding="utf-8")
    page = browser(file.as_uri() + "#tick=30&follow=<b>&colour=%22%3E<script>&cell=-1,zz,9999")
    assert page.complaints == []
    assert page.asked == [page.url.split("#")[0]] or all(
        address.startswith(("file:", "blob:", "data:")) for address in page.asked
    )
    assert page.title() == f"{ODD} \u2013 samepath view"
    assert page.locator("img:not(#picture), b, body script:not([type]):not(:last-of-type)").count() == 0
    assert text(page, "title") == ODD
    assert f"1: {ODD}" in page.locator("#follow").inner_text()
    assert ODD in text(page, "endings")
    assert ODD in text(page, "monitors")
    assert ODD in text(page, "kept-pictures")
    page.close()


def test_a_browser_without_webgl_is_told_so(browser, url):
    page = browser("about:blank", wait=False)
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null;")
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    assert "no WebGL 2" in text(page, "trouble")
    page.close()


def test_a_server_that_is_gone_is_one_line_on_the_page(browser):
    index, _, grounds = parts()

    def broken(number):
        raise KeyError(number)

    server = ViewServer(ViewSource(lambda: served_page(index), broken, grounds.__getitem__))
    server.start()
    page = browser(server.url)
    server.stop()
    assert text(page, "trouble") == "there is no such block"
    page.close()


LOSE = """() => {
    window.lost = document.getElementById('world').getContext('webgl2').getExtension('WEBGL_lose_context');
    window.lost.loseContext();
}"""


def settle_finely(page):
    """Wait for the finer image that a page without a graphics card draws when nothing has changed for a moment."""
    width_px = page.evaluate("document.getElementById('world').clientWidth")
    page.wait_for_selector(f'#world[width="{2 * width_px}"]')
    settle(page)


@pytest.mark.parametrize("view", ["2d", "3d"])
def test_the_page_draws_on_when_the_graphics_card_is_back(browser, url, view):
    page = browser(f"{url}#view={view}")
    settle_finely(page)
    before = page.screenshot()
    page.evaluate(LOSE)
    page.wait_for_selector("#trouble", state="visible")
    assert "graphics card was taken away" in page.text_content("#trouble")
    page.evaluate("window.lost.restoreContext()")
    page.wait_for_selector("#trouble", state="hidden")
    settle(page)
    settle_finely(page)
    assert page.screenshot() == before
    assert page.complaints == []
