"""The page in a real browser: it shows, it fits a telephone, and no label is cut off or covers another."""

import html
import json
import re
import subprocess
from dataclasses import replace

import pytest

from samepath.instrument.report.html import render_html
from tests.support.headless import HEADLESS, MARKS
from tests.support.report_cells import MISSING, all_cells, case_study, controller_study, document_of, nice_study, noisy

pytestmark = MARKS

# The page itself allows no script; this one stands in a page around it and looks in.
LOOK = """
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const page = frame.contentDocument, cut = [], covered = [];
  page.querySelectorAll("details").forEach(one => { one.open = true; });
  for (const svg of page.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()]);
    texts.forEach(([words, a], index) => {
      if (a.left < box.left - 1 || a.right > box.right + 1 || a.top < box.top - 1 || a.bottom > box.bottom + 1) cut.push(words);
      for (const [others, b] of texts.slice(index + 1)) {
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 1 && y > 4) covered.push(words + " | " + others);
      }
    });
  }
  const seen = { width: page.documentElement.scrollWidth, height: page.documentElement.scrollHeight, cut, covered };
  document.body.dataset.seen = JSON.stringify(seen);
});
"""


def browse(folder, page: str, *arguments: str) -> str:
    source = folder / "page.html"
    source.write_text(page, encoding="utf-8")
    command = [*HEADLESS, f"--user-data-dir={folder / 'profile'}", *arguments, source.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True).stdout


def look_in(folder, page: str, width_px: int) -> dict:
    frame = f'<iframe style="width:{width_px}px;height:900px;border:0" srcdoc="{html.escape(page)}"></iframe>'
    dom = browse(folder, f"<!DOCTYPE html><body>{frame}<script>{LOOK}</script></body>", "--dump-dom")
    return json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))


def test_the_browser_shows_the_verdict_and_the_figures(tmp_path):
    dom = browse(tmp_path, render_html(document_of(*all_cells())), "--dump-dom")
    assert "Exceeds tolerance: 5 of 8 cells differ by more than 1 cm, or in structure" in dom
    assert dom.count("<svg") > 15
    assert 'id="cell-8"' in dom
    assert "<script" not in dom


@pytest.fixture(scope="module")
def partial_page() -> str:
    return render_html(document_of(*all_cells(), partial="2 cells were not run"))


@pytest.mark.parametrize("width_px", [1200, 400])
def test_the_page_does_not_scroll_sideways_and_no_label_is_cut_off_or_covered(tmp_path, partial_page, width_px):
    seen = look_in(tmp_path, partial_page, width_px)
    assert seen["width"] <= width_px
    assert seen["height"] > 3000
    assert seen["cut"] == []
    assert seen["covered"] == []


@pytest.fixture(scope="module")
def study_page() -> str:
    apart = [replace(cell, header=replace(cell.header, variant="a loop with a long name")) for cell in nice_study()]
    return render_html(document_of(*case_study(), *apart, *controller_study(), missing=MISSING))


@pytest.mark.parametrize("width_px", [1200, 400])
def test_a_study_fits_too_with_every_kind_of_figure_and_table(tmp_path, study_page, width_px):
    for words in (
        "Is it deterministic?",
        "Max sigma against nice",
        "Single repeats per level of controller",
        "CARLA, published",
    ):
        assert words in study_page
    seen = look_in(tmp_path, study_page, width_px)
    assert seen["width"] <= width_px
    assert seen["cut"] == []
    assert seen["covered"] == []


@pytest.fixture(scope="module")
def noisy_page() -> str:
    return render_html(document_of(noisy()))


@pytest.mark.parametrize("width_px", [1200, 400])
def test_the_page_is_not_blank(tmp_path, noisy_page, width_px):
    from matplotlib.image import imread

    picture = tmp_path / "page.png"
    browse(tmp_path, noisy_page, f"--window-size={width_px},2400", f"--screenshot={picture}")
    pixels = imread(picture)
    assert pixels.shape[1] == width_px
    inked = (pixels[:, :, :3].min(axis=2) < 0.95).mean(axis=1)
    assert (inked[:1800] > 0).mean() > 0.5
