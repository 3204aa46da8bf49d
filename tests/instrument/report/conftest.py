"""Pages about the same few cells: their figures, most of the work, are drawn once, and one browser shows them all."""

import pytest

from samepath.instrument.report import cell_view
from tests.support.chromium import chromium

DRAWN = {}


@pytest.fixture(autouse=True, scope="module")
def drawn():
    """What was drawn so far; a test that wants figures drawn anew clears it."""
    draw = cell_view._figures

    def figures_of(cell):
        if id(cell) not in DRAWN:
            DRAWN[id(cell)] = cell, tuple(draw(cell))  # a cell that is kept keeps its id
        return iter(DRAWN[id(cell)][1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_view, "_figures", figures_of)
        yield DRAWN


# The page itself allows no script; the browser's own hand looks at it.
LOOK = """
() => {
  const cut = [], covered = [];
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  for (const svg of document.querySelectorAll("svg")) {
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
  return { width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight, cut, covered };
}
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as open_page:
        yield open_page


@pytest.fixture
def browse(browser, tmp_path):
    """Open a page, as wide as a screen is."""

    def opened(page: str, width_px: int = 1200, height_px: int = 900):
        source = tmp_path / "page.html"
        source.write_text(page, encoding="utf-8")
        return browser(source.as_uri(), width=width_px, height=height_px, wait=False)

    return opened


@pytest.fixture
def look(browse):
    """How wide and high a page becomes, and which of its figures' labels are cut off or covered."""
    return lambda page, width_px: browse(page, width_px).evaluate(LOOK)
