"""A report begins with plain words and a picture: the roads, all paths, where they part, and a way into the viewer there."""

import re
from dataclasses import replace

import numpy as np
import pytest

import samepath
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.report.html import render_html
from samepath.instrument.report.path_figure import opening
from samepath.instrument.report.words import plainly
from tests.conftest import cell_of, straight_run
from tests.support.report_cells import document_of, identical, noisy

LOG = "repeat,time,x,y\n" + "".join(
    f"{repeat},{tick},{tick},{0.5 * repeat * (tick > 2)}\n" for repeat in (0, 1) for tick in range(6)
)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ((identical,), "The same test gave the same run every time, to the last bit."),
        ((noisy,), "The same test did not give the same run: actors were up to"),
        ((identical, noisy), "The same test did not give the same run"),
    ],
)
def test_the_first_sentence_needs_no_glossary(cells, words):
    told = plainly(document_of(*(make() for make in cells)))
    assert told.startswith(words)
    assert not re.search(r"sigma|cell\b|tolerance|outcome", told)


def test_where_repeats_come_to_something_else_the_first_sentence_warns():
    runs = [straight_run(0), straight_run(1), straight_run(2, ticks=12, end="a wall")]
    told = plainly(document_of(analyse_cell(cell_of(runs))))
    assert "1 of 3 repeats came to something else: who hits whom, or how it ends. A pass may be luck." in told


def test_at_worst_is_the_cell_where_most_repeats_come_to_something_else_not_the_one_that_strays_farthest():
    def ends(*early, far_m=0.0):
        runs = [
            straight_run(n, ticks=12, end="a wall") if n in early else straight_run(n, shift=lambda *_, n=n: far_m * (n == 9))
            for n in range(10)
        ]
        return analyse_cell(cell_of(runs))

    far, torn = ends(3, far_m=50.0), ends(1, 4, 5)
    assert far.summary.max_deviation_m > torn.summary.max_deviation_m
    for cells in ((far, torn), (torn, far)):
        told = plainly(document_of(*cells))
        assert "At worst 3 of 10 repeats came to something else" in told


def test_where_one_way_to_run_it_repeats_and_another_does_not_the_first_sentence_tells_them_apart():
    steady, varying = identical(), noisy()
    cells = [
        replace(steady, header=replace(steady.header, variant="lockstep", cell="a")),
        replace(varying, header=replace(varying.header, variant="game loop", cell="b")),
    ]
    told = plainly(document_of(*cells))
    assert told.startswith("The same test did not give the same run with game loop: ")
    assert told.endswith("With lockstep it gave the same run every time, to the last bit.")
    assert "lockstep" not in plainly(document_of(cells[0])), "of an only one there is nobody to tell it from"


def test_the_picture_is_of_the_worst_cell_with_its_roads_and_where_it_parts():
    cell = noisy()
    page = render_html(document_of(identical(), cell))
    figure = page[page.index('<figure class="opening">') : page.index("</figure>")]
    assert f"they part at {cell.first_divergence.time_s:.2f} s" in figure
    assert cell.header.cell in figure
    points = np.concatenate([path.reshape(-1, 2) for path in cell.paths.values()])
    low, high = np.nanmin(points, axis=0) - 5, np.nanmax(points, axis=0) + 5
    ring = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
    plain, with_road = opening(cell), opening(cell, [ring])
    assert len(with_road) > len(plain)
    assert with_road == opening(cell, [ring, ring + 1e6])  # what is far away is not drawn


def test_a_second_ring_is_where_it_is_more_than_is_tolerated():
    """Bits part at tick 1, by less than anybody sees; a while later it is more than the tolerance."""
    step_m = 1.3e-3
    cell = analyse_cell(cell_of([straight_run(n, ticks=40, shift=lambda tick, _, n=n: n * step_m * tick) for n in (0, 1)]))
    tick = next(tick for tick in range(40) if step_m * tick / 2 > cell.options.tolerance_m)
    figure = opening(cell)
    assert f"they part at {cell.first_divergence.time_s:.2f} s" in figure
    assert f"1 cm off at {tick * cell.header.step_s:.2f} s" in figure
    assert "off at" not in opening(identical())


def test_equal_runs_part_nowhere():
    assert "they part" not in opening(identical())


def test_a_report_on_disk_leads_into_the_viewer_at_the_tick_where_they_part(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    report = samepath.analyse(log, progress=False)
    page = report.write(tmp_path).read_text("utf-8")
    (address,) = re.findall(r'<p class="look"><a href="([^"]*)"', page)
    assert address == f"view.html#cell=0&amp;tick={report.cells[0].first_divergence.tick}&amp;parting=1"
    assert (tmp_path / "view.html").stat().st_size > 500_000
    assert 'class="look"' not in report.to_html()  # nothing lies beside a page that is only shown


def test_what_no_file_can_hold_has_a_report_without_a_viewer(tmp_path, monkeypatch):
    from samepath.instrument import viewing

    log = tmp_path / "log.csv"
    log.write_text(LOG)
    monkeypatch.setattr(viewing, "FILE_POSES_MOST", 3)
    page = samepath.analyse(log, progress=False).write(tmp_path).read_text("utf-8")
    assert 'class="look"' not in page
    assert not (tmp_path / "view.html").exists()


def test_roads_of_our_scenarios_are_found_and_others_have_none():
    from samepath.instrument.evaluation import _roads

    cell = identical()
    ours = replace(cell, header=replace(cell.header, simulator="samepath", scenario="table1-test1"))
    theirs = replace(cell, header=replace(cell.header, simulator="carla", scenario="table1-test1"))
    assert len(_roads([ours])["table1-test1"]) > 3
    assert _roads([theirs]) == {}
