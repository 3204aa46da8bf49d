"""The viewer's pictures in the docs, made of real runs: ``python -m bench.view_pictures`` writes them to ``docs/``.

They show a study of the demo's kind and a running server, in Chromium, as a reader would see them. The runs are new each time,
and so are the pictures: game loops part elsewhere at every run.
"""

import io
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from PIL import Image

from bench.tools import ROOT
from samepath.cli.live_view import LiveView
from samepath.instrument.demo import demo
from samepath.instrument.viewing import view
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.chromium import chromium, settle
from tests.support.serving import RawClient, served

DOCS: Final = ROOT / "docs"
# Of the moving picture: from before the collision to when all have come to rest.
FRAMES: Final = 36
GIF_PX: Final = (640, 400)
COLOURS: Final = 64


def _still(page: Any, name: str) -> None:  # noqa: ANN401 - playwright's
    settle(page)
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(256).save(DOCS / name, optimize=True)


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
        shot = Image.open(io.BytesIO(page.locator("#stage").screenshot())).convert("RGB")
        pictures.append(shot.resize(GIF_PX, Image.Resampling.LANCZOS).quantize(COLOURS))
    pictures[0].save(DOCS / name, save_all=True, append_images=pictures[1:], duration=110, loop=0, optimize=True)


_SEEK: Final = """share => {
  const line = document.getElementById('timeline'), box = line.getBoundingClientRect();
  const at = { clientX: box.left + 10 + share * (box.width - 20), clientY: box.top + 30, buttons: 1, pointerId: 1 };
  line.setPointerCapture = () => {};
  line.dispatchEvent(new PointerEvent('pointerdown', at));
}"""


def recorded(open_page: Any, folder: Path) -> None:  # noqa: ANN401 - playwright's
    """Two worlds and one test."""
    found = demo(folder, progress=False)
    server = view(found.folder, progress=False).serve()
    server.start()
    try:
        page = open_page(f"{server.url}#cell=1&tick=290")
        for _ in range(5):
            page.keyboard.press("+")
        page.keyboard.press("f")
        page.keyboard.press("f")
        _still(page, "view-parted.png")
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
    finally:
        server.stop()
    page = open_page((found.folder / "report.html").resolve().as_uri(), wait=False, width=1100, height=1000)
    _still(page, "report-opening.png")
    page.close()


def live(open_page: Any) -> None:  # noqa: ANN401 - playwright's
    """A town with some cars, driving."""
    with served(map_name="town") as server, RawClient(server) as client:
        client.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
        points = client.value("get_map_info")[1]
        cars = [client.ask("spawn_actor", [0, "vehicle.audi.tt", []], point) for point in points[:24:2]]
        watched = LiveView("127.0.0.1", server.port)
        page_server = watched.serve()
        page_server.start()
        try:
            page = open_page(page_server.url)
            for _ in range(60):
                frame = client.value("tick_cue")
            page.wait_for_selector(f"body[data-tick='{frame}']", timeout=60_000)
            page.keyboard.press("3")
            page.keyboard.press("a")
            _still(page, "view-live.png")
            page.close()
        finally:
            page_server.stop()
            watched.close()
        del cars


def main() -> None:
    """Make all of them."""
    with TemporaryDirectory() as made, chromium() as open_page:
        live(open_page)
        recorded(open_page, Path(made) / "demo")
        shutil.rmtree(Path(made) / "demo", ignore_errors=True)


if __name__ == "__main__":
    main()
