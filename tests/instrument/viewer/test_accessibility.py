"""Viewer and report under axe: no findings, light and dark, wide and narrow."""

import pytest

import samepath
from tests.support.chromium import BROWSER, chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="neither chromium, chromium-browser nor google-chrome is on PATH"),
]
LOG = "repeat,time,actor,x,y\n" + "".join(
    f"{repeat},{tick},{actor},{tick + 3 * actor},{0.02 * repeat * max(0, tick - 5)}\n"
    for repeat in range(3)
    for tick in range(20)
    for actor in (1, 2)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    (place / "log.csv").write_text(LOG)
    monitors = {"monitors": [{"name": "stays near", "expression": "abs(y_m(1)) < 0.2"}]}
    samepath.analyse(place / "log.csv", monitors=monitors, progress=False).write(place)
    return place


def test_axe_finds_nothing_in_viewer_and_report(folder):
    from axe_playwright_python.sync_playwright import Axe

    found = {}
    with chromium() as open_page:
        for name in ("view.html", "report.html"):
            page = open_page((folder / name).as_uri(), wait=name == "view.html")
            for how, rules in (("wide", None), ("dark", ["color-contrast"]), ("narrow", None)):
                page.set_viewport_size({"width": 390 if how == "narrow" else 1280, "height": 800})
                page.emulate_media(color_scheme="dark" if how == "dark" else "light")
                result = Axe().run(page, options={} if rules is None else {"runOnly": rules}).response
                assert len(result["passes"]) > (10 if rules is None else 0)  # it did look
                found[name, how] = [(violation["id"], violation["impact"]) for violation in result["violations"]]
            page.close()
    assert {key: words for key, words in found.items() if words} == {}
