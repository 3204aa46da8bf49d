"""The page in a real browser: it shows, it fits a telephone, and no label is cut off or covers another."""

from dataclasses import replace

import pytest

from samepath.instrument.report.html import render_html
from tests.support.headless import MARKS
from tests.support.report_cells import MISSING, all_cells, case_study, controller_study, document_of, nice_study, noisy

pytestmark = MARKS


def test_the_browser_shows_the_verdict_and_the_figures(browse):
    dom = browse(render_html(document_of(*all_cells()))).content()
    assert "Exceeds tolerance: 5 of 8 cells differ by more than 1 cm, or in structure" in dom
    assert dom.count("<svg") > 15
    assert 'id="cell-8"' in dom
    assert "<script" not in dom


@pytest.fixture(scope="module")
def partial_page() -> str:
    return render_html(document_of(*all_cells(), partial="2 cells were not run"))


@pytest.mark.parametrize("width_px", [1200, 400])
def test_the_page_does_not_scroll_sideways_and_no_label_is_cut_off_or_covered(look, partial_page, width_px):
    seen = look(partial_page, width_px)
    assert seen["width"] <= width_px
    assert seen["height"] > 3000
    assert seen["cut"] == []
    assert seen["covered"] == []


@pytest.fixture(scope="module")
def study_page() -> str:
    apart = [replace(cell, header=replace(cell.header, variant="a loop with a long name")) for cell in nice_study()]
    return render_html(document_of(*case_study(), *apart, *controller_study(), missing=MISSING))


@pytest.mark.parametrize("width_px", [1200, 400])
def test_a_study_fits_too_with_every_kind_of_figure_and_table(look, study_page, width_px):
    for words in (
        "Is it deterministic?",
        "Max sigma against nice",
        "Single repeats per level of controller",
        "CARLA, published",
    ):
        assert words in study_page
    seen = look(study_page, width_px)
    assert seen["width"] <= width_px
    assert seen["cut"] == []
    assert seen["covered"] == []


@pytest.fixture(scope="module")
def noisy_page() -> str:
    return render_html(document_of(noisy()))


@pytest.mark.parametrize("width_px", [1200, 400])
def test_the_page_is_not_blank(browse, tmp_path, noisy_page, width_px):
    from matplotlib.image import imread
    from playwright.sync_api import Error

    picture = tmp_path / "page.png"
    page = browse(noisy_page, width_px, 2400)
    # Chromium's process for graphics may end and come again on a busy machine; what it was asked for then fails.
    for last in (False, False, True):
        try:
            page.screenshot(path=picture)
            break
        except Error:
            if last:
                raise
    pixels = imread(picture)
    assert pixels.shape[1] == width_px
    inked = (pixels[:, :, :3].min(axis=2) < 0.95).mean(axis=1)
    assert (inked[:1800] > 0).mean() > 0.5
