"""The thesis' measurements, small: routes that do not cross, drivers that stay on them, episodes whose figures agree."""

import json
import shutil
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")


from bench.pages import kept, made_part, picture_path
from bench.thesis import page as thesis_page
from bench.thesis.command import main, write_results
from bench.thesis.experiment import measure, most_that_hold
from bench.thesis.fleet import SPACING_M, Fleet, routes_of, states_of
from bench.thesis.listening import FetchedCounter
from bench.thesis.placing import eight_layout, layout
from bench.thesis.plan import KINDS, LEAST_TICKS, NODES, RESOLUTIONS, VEHICLES, Cell, NodeSet, Plan, Resolution, quick
from bench.thesis.records import FILE, EightTrial, Episode, Latency, ServerFigures, Store
from bench.thesis.report import how
from bench.thesis.results import Result, result_of, series_of, slope
from bench.thesis.server import running
from bench.thesis.tables import spread, tables
from bench.thesis.wire import ServerAddress
from samepath.core.errors import ClusterError, InputError
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.maps import load_map
from tests.support.clustering import clustered
from tests.support.serving import call, described, episode

pytestmark = pytest.mark.slow

THUMB = Resolution(60, 40)
TWO = NodeSet("equal", 2)
PLAN = Plan(
    (2,), ("equal",), (1, 3), (THUMB, Resolution(72, 48)), eight=False, repeats=1, map_name="oval", traffic="pursuit",
    settle_s=0.05, ticks=6, episode_s=0.4,
)  # fmt: skip


@pytest.fixture(scope="module")
def town():
    return routes_of(load_map("town"))


class Measured:
    """A cluster in threads, as those who measure see it."""

    def __init__(self, cluster):
        self.main = ServerAddress("main", "127.0.0.1", cluster.main.port)
        self._cluster = cluster

    def status(self):
        return self._cluster.main.look()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole experiment, broken off after its third episode and gone on with, and what was told of it."""
    folder, told = tmp_path_factory.mktemp("measured"), []
    log = folder / "log"
    with clustered(2, map_name=PLAN.map_name) as cluster:
        first = Store(folder, PLAN, {"date_utc": "then"})

        def stop(cell, episode):
            told.append((cell, episode is not None))
            if len(first.episodes) == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            measure(Measured(cluster), PLAN, PLAN.cells(), first, stop, log=log)
        with (folder / FILE).open("ab") as file:
            file.write(b'{"episode": {"cell": {"mo')  # killed while it wrote
        second = Store(folder, PLAN, {"date_utc": "now", "cpu": {"model": "a <chip>", "cores_usable": 2}})
        assert second.was == 3
        left = [cell for cell in PLAN.cells() if cell not in second]
        tell = lambda cell, episode: told.append((cell, episode is not None))  # noqa: E731
        measure(Measured(cluster), PLAN, left, second, tell, log=log)
    return folder, second, told


@pytest.mark.parametrize("name", ["oval", "town"])
def test_routes_are_closed_and_do_not_come_near_one_another(name):
    routes = routes_of(load_map(name))
    assert len(routes) >= 4
    for route in routes:
        steps = np.hypot(*(np.roll(route.points, -1, axis=0) - route.points).T)
        assert steps.max() <= SPACING_M + 1e-9
        assert 1.0 < min(route.speeds_mps) <= max(route.speeds_mps) <= 7.0
    for route in routes:
        for other in routes:
            if route is not other:
                apart = np.hypot(*(route.points[:, None] - other.points[None]).transpose(2, 0, 1))
                assert apart.min() > 3.0


def test_vehicles_stay_on_their_routes_and_apart(town):
    host, fleet = episode("town"), Fleet(town, 0.05)
    for _ in range(12):
        spot = fleet.spot()
        at = ((spot.x_m, spot.y_m, 0.5), (0.0, spot.yaw_deg, 0.0))
        fleet.add(call(host, "spawn_actor", described("vehicle.tesla.model3"), at).id, 1, spot)
    start = None
    off_m, near_m = 0.0, np.inf
    for tick in range(400):
        call(host, "tick_cue")
        _, rows = states_of(host.context.outbox.of(WORLD_STREAM)[-1])
        for actor, control in fleet.decide(rows).items():
            call(host, "apply_control_to_vehicle", actor, control)
        at = np.array([fleet._at[vehicle.actor] for vehicle in fleet.vehicles])
        start = at if start is None else start
        if tick % 10 == 0:
            off_m = max(
                off_m, *(np.hypot(*(vehicle.route.points - xy).T).min() for vehicle, xy in zip(fleet.vehicles, at, strict=True))
            )
            apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(at))
            near_m = min(near_m, apart.min())
    assert off_m < 0.9
    assert near_m > 3.0  # never closer than lanes are
    assert np.hypot(*(at - start).T).min() > 20.0


def test_every_episode_is_measured_once_and_an_interrupted_experiment_goes_on(finished):
    _, store, told = finished
    assert [measured.cell for measured in store.episodes] == list(PLAN.cells())
    assert [cell for cell, over in told if over] == list(PLAN.cells())


def test_figures_of_an_episode_agree(finished):
    _, store, _ = finished
    for measured in store.episodes:
        assert [server.name for server in measured.servers] == ["main", "node-1", "node-2"]
        assert measured.images == sum(node.images for node in measured.nodes)
        assert measured.desynchronised == 0
        assert all(server.answers_itself.count for server in measured.servers)
        if measured.cell.mode == "lockstep":
            assert measured.images == measured.received == measured.ticks * measured.cell.vehicles
            assert 0 < measured.ticks <= PLAN.ticks
            assert measured.commands.count == measured.images
            assert (measured.skipped, measured.late_frames, measured.dropped_frames) == (0, 0, 0)
            assert measured.images_per_s == pytest.approx(measured.cell.vehicles / measured.step_s)
            fetched_s = measured.step_s + measured.waited_s
            assert measured.step_s < fetched_s < measured.step_s + measured.between_s
            assert measured.fetched_per_s == pytest.approx(measured.cell.vehicles / fetched_s)
        else:
            assert measured.commands.count > 0
            assert all(0.0 < server.commanded.median_s < 5.0 for server in measured.servers)
            assert measured.images_per_s == pytest.approx(measured.images / measured.wall_s)


def test_results_are_read_back_as_they_were(finished):
    folder, store, _ = finished
    again = Store(folder, PLAN, {})
    assert again.episodes == store.episodes
    assert Store(folder, replace(PLAN, repeats=3), {}).was == len(PLAN.cells())  # more repeats are the same experiment
    with pytest.raises(InputError, match="another experiment"):
        Store(folder, replace(PLAN, ticks=7), {})


def test_the_page_has_the_figures_of_the_thesis(finished):
    folder, store, _ = finished
    result = result_of(PLAN, store, 2, {"2 nodes": "nobody pinned"}, "a substitute")
    page = write_results(folder, result, store).read_text("utf-8")
    for number in ("8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8", "8.9", "8.10", "8.11"):
        assert f"Fig. {number}, equal nodes.</strong>" in page
    assert page.count("<svg ") == 12
    assert "GTX 1080 Ti" in page
    assert "a &lt;chip&gt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    kept = json.loads((folder / "results.json").read_text("utf-8"))["figures"]
    assert Result.read(kept) == result
    assert kept["episodes"] == len(PLAN.cells())
    assert "Partial result" not in page
    more = result_of(replace(PLAN, vehicles=(1, 3, 5)), store, 2, {}, "a substitute")
    assert f"{len(PLAN.cells())} of {len(PLAN.cells()) + 2} episodes" in write_results(folder, more, store).read_text("utf-8")


def made(vehicles, frames_per_s, nodes=1, repeat=1, kind="equal", size=THUMB):
    cell = Cell(repeat, "lockstep", NodeSet(kind, nodes), size, vehicles)
    rate = vehicles * frames_per_s
    servers = (ServerFigures("main"), *(ServerFigures(f"node-{k + 1}", images_per_s=rate / nodes) for k in range(nodes)))
    return Episode(
        cell, 1, 1.0, 1 / frames_per_s, vehicles, rate, frames_per_s, vehicles, 0, 0, 0, 0.0, 0, 0, 0.0, Latency(), servers
    )


def test_the_limit_is_the_last_episode_with_ten_frames_a_second_and_saturation_the_first_with_the_most_images():
    episodes = [made(8, 11.0), made(2, 40.0), made(4, 9.0), made(16, 9.99), made(24, 6.6), made(2, 5.0, nodes=2)]
    first, second = series_of(episodes)
    assert (first.vehicles, first.limit, first.saturation) == ((2, 4, 8, 16, 24), 8, 16)
    assert first.best_images_per_s == pytest.approx((159.84,))
    assert (second.node_set.nodes, second.limit) == (2, None)


def test_a_plan_is_covered_when_every_setting_was_measured_twice_though_a_repeat_may_be_missing(tmp_path):
    plan = replace(PLAN, resolutions=(THUMB,), modes=("lockstep",), repeats=3)
    store = Store(tmp_path, plan, {})
    episodes = [made(count, 30.0, nodes=2, repeat=repeat) for repeat in (1, 2, 3) for count in (1, 3)]
    covered = []
    for episode_made in episodes:
        store.add(episode_made)
        result = result_of(plan, store, 2, {}, "a substitute")
        covered.append(result.covers_the_plan)
    assert covered == [False, False, False, True, True, True]
    assert how(result).startswith("6 episodes, 3 repeats")
    assert how(replace(result, episodes=5)).startswith("5 of 6 episodes")


def test_who_ticks_waits_for_the_pictures_of_all_listeners(tmp_path):
    path = tmp_path / "counts"
    np.zeros(2, np.int64).tofile(path)
    counts, fetched = np.memmap(path, np.int64, "r+"), FetchedCounter(str(path))
    assert fetched.total() == 0
    threading.Timer(0.05, lambda: counts.__setitem__(1, 3)).start()
    counts[0] = 2
    assert fetched.wait(2) < fetched.wait(5)
    assert fetched.total() == 5


def test_repeats_are_kept_and_a_camera_costs_the_slope_of_its_steps():
    episodes = [made(count, 1.0 / (0.003 + 0.01 * k * count), repeat=k) for k in (1, 2, 3) for count in (1, 2, 4, 8)]
    (series,) = series_of(episodes)
    assert [len(values) for values in series.step_ms] == [3, 3, 3, 3]
    assert series.camera_ms == pytest.approx((10.0, 20.0, 30.0), rel=1e-4)
    assert spread(series.camera_ms, 1) == "20.0 (10.0-30.0)"
    assert slope((1, 2, 3), (5.0, 7.0, 9.0)) == pytest.approx(2.0)


def test_there_is_a_table_for_every_published_figure(tmp_path):
    plan = Plan(vehicles=(1, 10), repeats=1, modes=("lockstep",), eight=True)
    store = Store(tmp_path, plan, {})
    for cell in plan.cells():
        rate = 200.0 * cell.node_set.nodes / cell.vehicles
        store.add(made(cell.vehicles, rate, cell.node_set.nodes, 1, cell.node_set.kind, cell.resolution))
    for size in RESOLUTIONS:
        store.add_eight(
            size, [EightTrial(size, 12, 4, 10.0, 800, 800, 0, 0.01), EightTrial(size, 12, 8, 10.0, 1600, 900, 3, 0.1)]
        )
    result = result_of(plan, store, 16, {"4 nodes": "pinned"}, "autopilot")
    found = {table.figure: table for table in tables(result)}
    for figure in ("8.1", "8.2", "8.3", "8.4", "8.5, 8.6", "8.7", "8.8, 8.9", "8.10, 8.11", "chapter 9, eight cameras"):
        assert figure in found
        assert all(len(row) == len(found[figure].columns) for row in found[figure].rows)
    assert found["8.4"].rows[3][:3] == ("4", '150 ("almost 160" in chapter 9)', "20")
    assert "800" in found["8.4"].rows[3][3]
    assert found["chapter 9, eight cameras"].rows[0][2] == "4 on 12 nodes, 16 cores"
    assert Store(tmp_path, plan, {}).eight == store.eight


def test_the_whole_experiment_is_the_thesis_grid_three_times():
    plan = Plan()
    cells = plan.cells()
    lockstep = {cell[2:] for cell in cells if cell.mode == "lockstep" and cell.node_set.kind != "by turns"}
    nodes = [NodeSet(kind, count) for kind in KINDS[:2] for count in NODES]
    assert lockstep == {(node_set, size, count) for node_set in nodes for size in RESOLUTIONS for count in VEHICLES}
    assert max(VEHICLES) == 40
    assert {cell.repeat for cell in cells} == {1, 2, 3}
    assert len(set(cells)) == len(cells)


def test_a_budget_shortens_episodes_then_leaves_out_vehicles_and_says_so():
    plan = Plan()
    roomy, tight = plan.within(4000.0), plan.within(480.0)
    assert (roomy.left_out, roomy.vehicles) == ((), VEHICLES)
    assert tight.least_s() <= 480.0
    assert sorted((*tight.vehicles, *tight.left_out)) == list(VEHICLES)
    assert (tight.vehicles[0], tight.vehicles[-1]) == (1, 40)
    assert tight.repeats == 3
    assert LEAST_TICKS >= 5
    with pytest.raises(InputError, match="were wanted at least"):
        plan.within(30.0)


def test_numbers_of_vehicles_that_are_left_out_leave_no_gap():
    kept = Plan().within(500.0).vehicles
    assert all(after / before <= 2.5 for before, after in pairwise(kept))


@pytest.mark.parametrize("truth", [0, 1, 2, 3, 7, 30, 64, 199, 200])
@pytest.mark.parametrize("guess", [1, 5, 64, 200])
def test_the_most_that_hold_are_found_to_an_eighth(truth, guess):
    asked = []
    found = most_that_hold(lambda count: asked.append(count) or count <= truth, guess, 200)
    assert found <= truth <= found + max(1, found // 8)
    assert len(asked) == len(set(asked)) <= 14


def test_processes_are_pinned_where_there_are_cores_enough():
    cores = list(range(16))
    four, unequal = layout(NodeSet("equal", 4), cores), layout(NodeSet("unequal", 4), cores)
    assert four.clients == unequal.clients  # whoever measures is as fast for every cluster
    assert [len(place.cores) for place in unequal.nodes] == [4, 2, 1, 1]
    assert [place.is_shared for place in unequal.nodes] == [False, False, False, True]
    for where in (four, unequal, eight_layout(cores)):
        used = [where.main, where.clients, *(place.cores for place in where.nodes)]
        assert sum(map(len, used)) == len(frozenset().union(*used)) <= 16
    few = layout(NodeSet("unequal", 4), [0, 1])
    assert not few.is_pinned
    assert [place.handicap for place in few.nodes] == [1.0, 2.0, 4.0, 8.0]
    assert len(eight_layout(cores).nodes) == 11


def test_quantiles_are_samples():
    assert Latency.of([]) == Latency()
    assert Latency.of([3.0, 1.0, 2.0]) == Latency(3, 2.0, 2.0, 3.0, 3.0)
    assert Latency.of([float(k) for k in range(1, 201)]).p99_s == 198.0


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": (2, 1)},
        {"nodes": ()},
        {"vehicles": (0, 1)},
        {"vehicles": (1, 251)},
        {"resolutions": ()},
        {"episode_s": 0.0},
        {"repeats": 0},
    ],
)
def test_an_experiment_that_makes_no_sense_is_refused_in_one_line(changes):
    with pytest.raises(InputError) as refused:
        replace(PLAN, **changes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "2,1"), "rising numbers of nodes"),
        (("--nodes", "two"), "--nodes: numbers such as 1,2,4"),
        (("--resolutions", "180x120,big"), "a resolution such as 180x120"),
        (("--vehicles", "8,4"), "rising numbers of vehicles"),
        (("--kinds", "equal,odd"), "some of equal,unequal,by-turns"),
        (("--budget-s", "20"), "were wanted at least"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_started(words, said, tmp_path):
    with pytest.raises(SystemExit, match=said):
        main(["--out", str(tmp_path / "out"), *words])
    assert not (tmp_path / "out").exists()


def test_resolutions_and_numbers_of_nodes():
    assert str(Resolution.of("180x120")) == "180x120"
    for text in ("180", "180x", "0x3", "180x120x3", "-1x4"):
        with pytest.raises(InputError, match="180x120"):
            Resolution.of(text)
    assert quick(Plan()).nodes == (1, 4)
    assert str(NodeSet("by turns", 4)) == "4 unequal nodes by turns"


@pytest.mark.parametrize("name", thesis_page.PAGES)
def test_a_page_is_made_from_its_kept_result(name):
    result = kept(name)
    page = thesis_page.PAGES[name].read_text("utf-8")
    assert made_part(page, name, "thesis") == thesis_page.made(name, result), (
        "write it anew: python -m bench thesis --write-page"
    )
    for figure in thesis_page.shown(Result.read(result["figures"])):
        assert figure.digest in picture_path(name, figure).read_text("utf-8")


def test_a_set_of_nodes_with_a_card_is_like_equal_ones_but_for_who_draws_on_the_first():
    cores = tuple(range(16))
    alike, carded = layout(NodeSet("equal", 3), cores), layout(NodeSet("card", 3), cores)
    assert [place.renderer for place in carded.nodes] == ["cuda", "software", "software"]
    assert [place.cores for place in carded.nodes] == [place.cores for place in alike.nodes]
    assert (carded.main, carded.clients) == (alike.main, alike.clients)
    assert str(NodeSet("card", 1)) == "1 node with a card"
    assert "card" not in Plan().kinds, "most machines have none"


def test_figures_are_not_made_with_a_node_that_was_to_draw_with_a_card_and_does_not(tmp_path):
    if shutil.which("nvidia-smi"):
        pytest.skip("here is a card")
    with pytest.raises(ClusterError), running(NodeSet("card", 1), layout(NodeSet("card", 1), ()), "oval", tmp_path / "log"):
        pass
    assert "needs NVIDIA's driver" in (tmp_path / "log").read_text("utf-8")
