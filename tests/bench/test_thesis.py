"""The thesis' measurements, small: routes that do not cross, drivers that stay on them, episodes whose figures agree."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")


from bench.thesis.command import default_nodes, main, write_results
from bench.thesis.experiment import measure
from bench.thesis.fleet import SPACING_M, Fleet, routes_of, states_of
from bench.thesis.plan import Cell, Plan, Resolution, quick
from bench.thesis.records import FILE, Episode, Latency, Store
from bench.thesis.report import last_at_limit, limits
from bench.thesis.wire import ServerAddress
from samepath.core.errors import InputError
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.maps import load_map
from tests.support.clustering import clustered
from tests.support.serving import call, described, episode

pytestmark = pytest.mark.slow

THUMB = Resolution(60, 40)
PLAN = Plan((2,), (1, 3), (THUMB, Resolution(72, 48)), map_name="oval", settle_s=0.05, ticks=6, episode_s=0.4)


@pytest.fixture(scope="module")
def town():
    return routes_of(load_map("town"))


class Measured:
    """A cluster in threads, as those who measure see it."""

    def __init__(self, cluster):
        self.main = ServerAddress("main", "127.0.0.1", cluster.main.port)
        self._cluster = cluster

    def status(self):
        return self._cluster.main.status()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole experiment, broken off after its third episode and gone on with, and what was told of it."""
    folder, told = tmp_path_factory.mktemp("measured"), []
    routes = routes_of(load_map(PLAN.map_name))
    with clustered(2, map_name=PLAN.map_name) as cluster:
        first = Store(folder, PLAN, {"date_utc": "then"})

        def stop(cell, episode):
            told.append((cell, episode is not None))
            if len(first.episodes) == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            measure(Measured(cluster), PLAN, routes, PLAN.cells(), first, stop)
        with (folder / FILE).open("ab") as file:
            file.write(b'{"episode": {"cell": {"mo')  # killed while it wrote
        second = Store(folder, PLAN, {"date_utc": "now", "cpu": {"model": "a <chip>", "cores_usable": 2}})
        assert second.was == 3
        left = [cell for cell in PLAN.cells() if cell not in second]
        measure(Measured(cluster), PLAN, routes, left, second, lambda cell, episode: told.append((cell, episode is not None)))
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
        else:
            assert measured.commands.count > 0
            assert measured.images_per_s == pytest.approx(measured.images / measured.wall_s)


def test_results_are_read_back_as_they_were(finished):
    folder, store, _ = finished
    again = Store(folder, PLAN, {})
    assert again.episodes == store.episodes
    with pytest.raises(InputError, match="another experiment"):
        Store(folder, replace(PLAN, ticks=7), {})


def test_the_page_has_the_figures_of_the_thesis(finished):
    folder, store, _ = finished
    page = write_results(folder, PLAN, store).read_text("utf-8")
    for number in ("8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8", "8.9", "8.10", "8.11"):
        assert f"Fig. {number}.</strong>" in page
    assert page.count("<svg ") == 15
    assert "GTX 1080 Ti" in page
    assert "a &lt;chip&gt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert len(json.loads((folder / "results.json").read_text("utf-8"))["episodes"]) == len(PLAN.cells())
    assert "Partial result" not in page
    fewer = write_results(folder, replace(PLAN, vehicles=(1, 3, 5)), store).read_text("utf-8")
    assert "8 of 12 episodes" in fewer


def made(vehicles, frames_per_s, nodes=1):
    cell = Cell("lockstep", nodes, THUMB, vehicles)
    rate = vehicles * frames_per_s
    return Episode(
        cell, 1, 1.0, 1 / frames_per_s, vehicles, rate, frames_per_s, vehicles, 0, 0, 0, 0.0, 0, 0, 0.0, Latency(), ()
    )


def test_the_limit_is_the_last_episode_with_ten_frames_a_second():
    episodes = [made(8, 11.0), made(2, 40.0), made(4, 9.0), made(16, 9.99), made(2, 5.0, nodes=2)]
    assert last_at_limit(episodes).cell.vehicles == 8
    first, second = limits(episodes)
    assert first.words() == ("lockstep", "1", "60x40", "160", "16", "8", "88")
    assert second.words()[-2:] == ("none", "")


def test_quantiles_are_samples():
    assert Latency.of([]) == Latency()
    assert Latency.of([3.0, 1.0, 2.0]) == Latency(3, 2.0, 2.0, 3.0, 3.0)
    assert Latency.of([float(k) for k in range(1, 201)]).p99_s == 198.0


@pytest.mark.parametrize(
    "changes",
    [{"nodes": (2, 1)}, {"nodes": ()}, {"vehicles": (0, 1)}, {"vehicles": (1, 251)}, {"resolutions": ()}, {"episode_s": 0.0}],
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
    assert default_nodes(1) == (1,)
    assert default_nodes(6) == (1, 2, 4, 6)
    assert default_nodes(16) == (1, 2, 4, 8, 16)
    assert quick(default_nodes(16)).nodes == (1, 16)
