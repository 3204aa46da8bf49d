"""The pictures of viewer and report in the docs, made of real runs: ``python -m bench.view_pictures`` writes them to ``docs/``.

They show a study of the demo's kind and a running server, in Chromium, as a reader would see them, and on paper as a printer
would get it. The runs are new each time, and so are the pictures: game loops part elsewhere at every run. ``live``,
``recorded`` and ``reports`` as arguments make only those.
"""

import io
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from PIL import Image, ImageOps

from bench.tools import ROOT
from samepath.cli.live_view import LiveView
from samepath.instrument.demo import demo
from samepath.instrument.viewing import view
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.chromium import chromium, settle
from tests.support.serving import RawClient, RawListener, described, served

DOCS: Final = ROOT / "docs"
# Of the moving picture: from before the collision to when all have come to rest.
FRAMES: Final = 36
GIF_PX: Final = (640, 400)
COLOURS: Final = 255
# A sheet of A4 without its margins of 1 cm, as a browser lays it out: 96 pixels to the inch.
A4_PX: Final = (718, 1047)
MONITORS: Final = {
    "monitors": [
        {"name": "keeps clear", "kind": "ttc", "of": "ego", "to": "others", "at_least": "1.5 s"},
        {"name": "no collision", "kind": "no-collision", "of": "ego"},
        {"name": "at most 10 m/s", "kind": "speed", "of": "ego", "at_most": "10 m/s"},
    ]
}


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """Find one palette for all pictures, in which small things keep their colours.

    A colour counts by the root of how often it is there: by how often, roads and meadows would take the whole palette, and
    the cars, which all this is about, would be grey.
    """
    pixels = np.concatenate([np.asarray(picture).reshape(-1, 3) for picture in pictures])
    colours, counts = np.unique(pixels & 0xFC, axis=0, return_counts=True)
    often = np.repeat(colours, np.ceil(np.sqrt(counts) / 4).astype(int), axis=0)
    return Image.fromarray(often[None].astype(np.uint8)).quantize(COLOURS, Image.Quantize.MEDIANCUT)


def _still(page: Any, name: str, *, printed: bool = False) -> None:  # noqa: ANN401 - playwright's
    if printed:  # as a browser does it, which tells the page first
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
    settle(page)
    page.wait_for_timeout(1500)  # when all rests it is drawn once more, with smooth edges
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(palette=_palette([picture]), dither=Image.Dither.NONE).save(DOCS / name, optimize=True)


def _ticks(page: Any) -> list[int]:  # noqa: ANN401 - playwright's
    slider = page.locator("#timeline")
    return [int(slider.get_attribute(name)) for name in ("aria-valuemin", "aria-valuemax")]


def _moving(page: Any, name: str) -> None:  # noqa: ANN401 - playwright's
    """Let the runs meet and part: the stage alone, tick by tick."""
    page.evaluate("() => document.body.classList.add('folded')")
    page.evaluate("() => document.getElementById('names').click()")
    last = _ticks(page)[1]
    pictures = []
    for number in range(FRAMES):
        tick = round(0.25 * last + number * (0.62 * last) / (FRAMES - 1))
        page.evaluate(_SEEK, tick / last)
        settle(page)
        page.wait_for_timeout(900)
        shot = Image.open(io.BytesIO(page.locator("#stage").screenshot())).convert("RGB")
        pictures.append(ImageOps.fit(shot, GIF_PX, Image.Resampling.LANCZOS))  # cut, not squeezed
    palette = _palette(pictures)
    flat = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    flat[0].save(DOCS / name, save_all=True, append_images=flat[1:], duration=110, loop=0, optimize=False)


_SEEK: Final = """share => {
  const line = document.getElementById('timeline'), box = line.getBoundingClientRect();
  const at = { clientX: box.left + 10 + share * (box.width - 20), clientY: box.top + 30, buttons: 1, pointerId: 1 };
  line.setPointerCapture = () => {};
  line.dispatchEvent(new PointerEvent('pointerdown', at));
}"""


def recorded(open_page: Any, folder: Path) -> None:  # noqa: ANN401 - playwright's
    """Two worlds and one test."""
    server = view(folder, monitors=MONITORS, progress=False).serve()
    server.start()
    try:
        page = open_page(f"{server.url}#cell=1&tick=290")
        for _ in range(5):
            page.keyboard.press("+")
        page.keyboard.press("f")
        page.keyboard.press("f")
        _still(page, "view-parted.png")
        page.close()
        page = open_page(f"{server.url}#cell=1&tick=232&follow=2")
        page.locator("#shoot").click()
        page.wait_for_selector("body[data-pictures]", timeout=300_000)
        _still(page, "view-picture.png")
        page.close()
        page = open_page(f"{server.url}#cell=0,1&tick=260&view=3d", dark=True)
        _still(page, "view-side-by-side.png")
        page.close()
        page = open_page(f"{server.url}#cell=1", width=400, height=820)
        _still(page, "view-narrow.png")
        page.close()
        page = open_page(f"{server.url}#cell=1&tick=100", width=1000, height=760)
        _moving(page, "parting.gif")
        page.close()
        page = open_page(f"{server.url}#cell=1&tick=290", width=1280, height=900)
        page.set_viewport_size({"width": A4_PX[0], "height": A4_PX[1] * 2 // 3})
        _still(page, "view-printed.png", printed=True)
        page.close()
    finally:
        server.stop()


def reports(open_page: Any, folder: Path) -> None:  # noqa: ANN401 - playwright's
    """The first screen of the report of the same, wide, narrow, dark and on paper."""
    address = (folder / "report.html").resolve().as_uri()
    looks = {
        "report-opening.png": {"width": 1100, "height": 1000},
        "report-narrow.png": {"width": 390, "height": 900},
        "report-dark.png": {"width": 1100, "height": 1000, "dark": True},
        "report-printed.png": {"width": A4_PX[0], "height": A4_PX[1]},
    }
    for name, look in looks.items():
        page = open_page(address, wait=False, **look)
        _still(page, name, printed="printed" in name)
        page.close()


def live(open_page: Any) -> None:  # noqa: ANN401 - playwright's
    """A town with some cars, driving."""
    with served(map_name="town") as server, RawClient(server) as client:
        client.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
        points = client.value("get_map_info")[1]
        kinds = [described("vehicle.audi.tt", role_name="hero"), *[[0, "vehicle.audi.tt", []]] * 11]
        cars = [client.value("spawn_actor", kind, point)[0] for kind, point in zip(kinds, points[:24:2], strict=True)]
        for car in cars:
            client.ask("apply_control_to_vehicle", car, [0.35, 0.0, 0.0, False, False, False, 0])
        camera = client.value(
            "spawn_actor_with_parent", described("sensor.camera.rgb", image_size_x=480, image_size_y=270),
            [[-6.0, 0.0, 3.0], [-10.0, 0.0, 0.0]], cars[0], 0, "",
        )  # fmt: skip
        stream = int.from_bytes(bytes(camera[5])[:4], "little")
        client.value("get_sensor_token", stream)
        watched = LiveView("127.0.0.1", server.port)
        page_server = watched.serve()
        page_server.start()
        try:
            over = threading.Event()
            with RawListener(server, stream) as listener:

                def drive() -> None:
                    while not over.wait(0.2):
                        client.value("tick_cue")
                        listener.message()

                driver = threading.Thread(target=drive)
                driver.start()
                page = open_page(page_server.url)
                page.keyboard.press("3")
                page.wait_for_selector("#sensors img[src]", timeout=120_000)
                _still(page, "view-live.png")
                over.set()
                driver.join()
                page.close()
        finally:
            page_server.stop()
            watched.close()


def main() -> None:
    """Make all of them, or those that were asked for."""
    asked = set(sys.argv[1:]) or {"live", "recorded", "reports"}
    with TemporaryDirectory() as made, chromium() as open_page:
        if "live" in asked:
            live(open_page)
        if asked & {"recorded", "reports"}:
            folder = demo(Path(made) / "demo", progress=False).folder
            if "recorded" in asked:
                recorded(open_page, folder)
            if "reports" in asked:
                reports(open_page, folder)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
