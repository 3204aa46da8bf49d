"""The page says the right things, in the right order, and needs nothing but itself."""

import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser

import pytest

import samepath
from samepath.instrument.analysis.cell import AnalysisOptions
from samepath.instrument.analysis.verdict import Criterion
from samepath.instrument.report import figures
from samepath.instrument.report.html import render_html
from tests.support.report_cells import (
    all_cells,
    analyse,
    document_of,
    drive,
    ends_early,
    hostile,
    identical,
    no_shift,
    noisy,
    rounded,
    strangers,
    two_outcomes,
    within,
)

DRAWINGS = (figures.sigma_over_time, figures.paths, figures.outcome_tree, figures.growth)


class Page(HTMLParser):
    """What a reader sees, and the elements it is made of."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._texts: list[str] = []
        self._hidden = 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._hidden += tag in ("style", "script")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data):
        if not self._hidden:
            self._texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())  # a space that does not break is a space

    def having(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.elements if attribute in attrs]


PAGES: dict[tuple[int, ...], tuple[str, object]] = {}


def html_of(*cells) -> str:
    """The page about some cells, made once: many tests look at the same."""
    key = tuple(id(cell) for cell in cells)
    if key not in PAGES:
        PAGES[key] = render_html(document_of(*cells)), cells  # a cell that is kept keeps its id
    return PAGES[key][0]


def page_of(*cells, **fields) -> Page:
    return Page(render_html(document_of(*cells, **fields)) if fields else html_of(*cells))


def test_the_verdict_comes_before_every_table_and_figure():
    html = html_of(identical(), noisy())
    verdict = html.index("Exceeds tolerance: 1 of 2 cells differs by more than 1 cm", html.index("<body>"))
    assert verdict < html.index("<svg") < html.index("<table")  # the first figure is the picture of what happened
    assert html.index("<svg") > html.index('<figure class="opening">') > verdict


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([identical], "Bit-identical: all repeats have the same bits"),
        ([identical, identical], "Bit-identical: all repeats of each of the 2 cells have the same bits"),
        ([rounded], "Identical at resolution: all logs are equal, but rounded: smaller differences cannot be seen"),
        ([identical, rounded], "Identical at resolution: all logs are equal, but in 1 of 2 cells rounded"),
        ([within], "Within tolerance: repeats differ, none by more than 1 cm"),
        ([two_outcomes, noisy, identical], "Exceeds tolerance: 2 of 3 cells differ by more than 1 cm"),
        ([ends_early], "Exceeds tolerance: repeats differ in structure"),
        ([ends_early, noisy], "Exceeds tolerance: 2 of 2 cells differ by more than 1 cm, or in structure"),
    ],
)
def test_the_headline_says_the_verdict_in_plain_words(cells, words):
    assert words in page_of(*(cell() for cell in cells)).text


def test_judged_by_sigma_alone_the_headline_claims_nothing_about_single_repeats():
    runs = [drive(repeat, lambda repeat, tick, actor: 0.05 * (repeat == 3)) for repeat in range(50)]
    cell = analyse(runs, AnalysisOptions(criterion=Criterion.SIGMA))
    assert cell.summary.max_deviation_m > 0.01
    assert "Within tolerance: repeats differ, none by a max sigma above 1 cm" in page_of(cell).text


def test_the_worst_cell_gives_the_reason():
    assert "Worst cell: noisy: max sigma 35.7 cm is above 1 cm." in page_of(identical(), noisy(), within()).text


def test_a_partial_result_is_said_before_the_verdict():
    text = page_of(identical(), partial="2 cells were not run").text
    body = text.index("Crossing study", text.index("Partial result"))
    assert text.index("Partial result. 2 cells were not run") < body
    assert "Partial result" not in page_of(identical()).text


def test_the_table_states_its_restriction_and_both_sigmas():
    text = page_of(noisy()).text
    assert "Restricted: before the first collision" in text
    row = text[text.index("Max sigma, unrestricted") :]
    assert "toy crash yes 40 35.7 cm Exceeds tolerance 0 (exact) Bit-identical noisy" in row


def test_every_link_in_the_page_leads_to_a_place_in_the_page():
    page = page_of(*all_cells())
    ids = Counter(page.having("id"))
    assert max(ids.values()) == 1
    targets = [href.removeprefix("#") for href in page.having("href")]
    clips = [target for value in page.having("clip-path") for target in re.findall(r"url\(#(.*?)\)", value)]
    assert {target for target in targets if target.startswith("cell-")} == {
        f"cell-{number}" for number in range(1, len(all_cells()) + 1)
    }
    assert clips
    assert set(targets) | set(clips) <= set(ids)


def test_the_page_asks_nothing_of_the_network():
    html = html_of(*all_cells())
    assert set(re.findall(r"https?://[^\"'\s<]*", html)) == {"http://www.w3.org/2000/svg"}
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "base", "foreignobject"} & {tag for tag, _ in page.elements}
    assert not page.having("src")
    assert not re.search(r"@import|url\((?!#)", html)
    assert "default-src 'none'" in html


def test_names_from_outside_are_text_and_never_markup():
    fields = {
        "title": "<u>title</u>",
        "command": "run '<x>' && echo",
        "provenance": {"<k>": {"&": "<v>\x00"}},
        "partial": "<s>",
    }
    html = render_html(document_of(hostile(), **fields))
    page = Page(html)
    assert not {"script", "img", "b", "u", "i", "x", "k", "v", "s", "sim"} & {tag for tag, _ in page.elements}
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert "<script>alert('x')</script>&\"quoted\" $x^2$ [31m -->" in page.text
    assert all(words in page.text for words in ("<u>title</u>", "run '<x>' && echo", "<k>.& <v>", "1: <b>car</b>", "$\\frac{"))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", html)


def test_no_number_is_printed_that_is_none():
    page = page_of(*all_cells(), provenance={"gpu": None, "load": float("nan"), "top": float("inf"), "empty": {}})
    assert not re.search(r"\b(NaN|nan|None|inf|Infinity|null|Undefined)\b", page.text)
    attributes = " ".join(value or "" for _, attrs in page.elements for value in attrs.values())
    assert not re.search(r"\b(NaN|nan|None|inf)\b", attributes)


def test_rendering_twice_gives_equal_bytes(drawn):
    before = html_of(*all_cells()).encode()
    drawn.clear()
    assert render_html(document_of(*all_cells())).encode() == before


def test_what_cannot_be_compared_has_no_data():
    text = page_of(strangers()).text
    assert "Max sigma no data" in text
    assert "not named" in text


def test_exact_zeros_say_so_and_name_no_place():
    assert "Max sigma 0 (exact) Max sigma, all axes" in page_of(identical()).text


def test_phases_are_judged_apart():
    text = page_of(noisy()).text
    before, after = text.index("before collision"), text.index("after collision")
    assert "0 (exact)" in text[before:after]
    assert "Bit-identical" in text[before:after]
    assert "Exceeds tolerance" in text[after : text.index("after collision, involved")]
    assert "after collision, not involved" in text
    assert "First collision: at 3 s in 40 repeats." in text
    assert "No repeat has a collision" in page_of(identical()).text


def test_the_limits_of_n_repeats_are_said_with_their_numbers():
    text = page_of(identical()).text
    assert "What 20 repeats can and cannot exclude" in text
    assert f"0 of 20 repeats diverged: the true rate is below {100 * (1 - 0.05 ** (1 / 20)):.3g} %" in text
    assert f"1 in 1000 would have been seen with probability {100 * (1 - 0.999**20):.3g} % only; 2995 repeats" in text
    assert "no number of repeats can show them" in page_of(rounded()).text
    assert "2 of 50 repeats diverged from the largest outcome" in page_of(two_outcomes()).text
    assert "No two repeats are alike" in page_of(noisy()).text


def test_the_first_divergence_and_the_differences_are_told():
    assert "Repeat 7 parts from repeat 0 at tick 80 (4 s): x_m of actor 1" in page_of(two_outcomes()).text
    assert "1 of 15 repeats end early, at tick 89 instead of 119: repeat 3" in page_of(ends_early()).text


def test_cells_that_are_all_alike_have_a_line_among_many_and_a_section_among_few():
    many = page_of(identical(), noisy(), within(), rounded()).elements
    assert [attrs["id"] for tag, attrs in many if tag == "tr" and "id" in attrs] == ["cell-1", "cell-4"]
    assert [attrs["id"] for tag, attrs in many if attrs.get("class") == "cell"] == ["cell-2", "cell-3"]
    few = page_of(identical(), noisy()).elements
    assert [attrs["id"] for tag, attrs in few if attrs.get("class") == "cell"] == ["cell-1", "cell-2"]


def test_what_happens_where_nothing_varies_is_shown_once_per_scenario():
    page = html_of(identical(), identical(), rounded(), noisy())
    assert re.findall(r"Paths of (\w+), the same in every repeat", page) == ["crossing", "imported"]


def test_provenance_is_flattened_and_the_command_is_shown():
    text = page_of(
        identical(), provenance={"host": {"cpu": {"name": "x"}, "gpu": None}, "runs": [{"a": True}], "n": [1, 2]}
    ).text
    assert "host.cpu.name x host.gpu not known runs.0.a yes n 1, 2" in text
    assert "Run it again samepath study crossing --repeats 40" in text
    assert f"samepath {samepath.__version__}" in text


def test_tables_and_page_are_marked_up_for_assistive_software():
    page = page_of(noisy())
    assert ("html", {"lang": "en"}) in page.elements
    assert all("scope" in attrs for tag, attrs in page.elements if tag == "th")
    assert all(attrs.get("role") == "img" and attrs.get("aria-label") for tag, attrs in page.elements if tag == "svg")
    assert any(attrs.get("name") == "viewport" for tag, attrs in page.elements if tag == "meta")


def test_figures_are_equal_when_drawn_again_and_share_no_ids():
    seen: set[str] = set()
    for cell in (noisy(), two_outcomes()):
        for draw in DRAWINGS:
            svg = draw(cell)
            assert svg == draw(cell)
            ids = set(re.findall(r' id="([^"]+)"', svg))
            assert not ids & seen
            seen |= ids
            assert not re.search(r"<svg[^>]* (width|height)=", svg)
            assert "viewBox" in svg


def test_drawing_leaves_no_trace_in_the_settings_of_matplotlib():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figures.growth(noisy())
    assert dict(mpl.rcParams) == before


def test_importing_the_report_loads_no_plotting():
    code = (
        "import sys, samepath.instrument.report.html, samepath.instrument.report.junit; sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_exact_zeros_have_their_own_place_on_the_axis():
    for draw in (figures.sigma_over_time, figures.growth):
        assert ">0 (exact)<" in draw(identical())
    assert ">0 (exact)<" in figures.max_sigma_per_cell([identical(), noisy()], 0.01)
    assert ">0 (exact)<" not in figures.max_sigma_per_cell([noisy()], 0.01)


def test_a_destroyed_actor_leaves_a_gap_and_the_collision_is_marked():
    svg = figures.sigma_over_time(noisy())
    assert ">first collision, 3 s<" in svg

    def right_end(colour: str) -> float:
        lines = [tag for tag in re.findall(r"<path [^>]*>", svg) if f"stroke: {colour}" in tag and "clip-path" in tag]
        return max(float(x) for tag in lines for x in re.findall(r"[ML] (\S+) ", tag))

    assert right_end("#009e73") < 0.6 * right_end("#0072b2")


def test_the_tolerance_and_the_resolution_of_the_log_are_drawn():
    svg = figures.sigma_over_time(rounded())
    assert ">tolerance 1 cm<" in svg
    assert ">log&#x27;s resolution 1 mm<" in svg or ">log's resolution 1 mm<" in svg
    assert "resolution" not in figures.sigma_over_time(identical())


def test_the_zoom_is_there_where_paths_part_and_nowhere_else():
    assert "x from the mean (cm)" in figures.paths(two_outcomes())
    assert "x from the mean (1e-12 m)" in figures.paths(within())
    assert "from the mean" not in figures.paths(identical())
    assert "2 of 2 outcomes drawn" in page_of(two_outcomes()).text


def test_the_tree_names_its_leaves():
    assert re.findall(r">(\d+ repeats?[^<]*)<", figures.outcome_tree(two_outcomes())) == ["48 repeats", "2 repeats"]
    assert ">28 repeats (others)<" in figures.outcome_tree(noisy())
    assert ">1 repeat (ends early)<" in figures.outcome_tree(ends_early())


def test_a_tolerance_of_zero_is_drawn_among_the_zeros():
    cell = analyse([drive(repeat, no_shift) for repeat in range(2)], AnalysisOptions(tolerance_m=0.0))
    assert ">tolerance 0 (exact)<" in figures.sigma_over_time(cell)
    assert "tolerance 0 (exact)" in page_of(cell).text
