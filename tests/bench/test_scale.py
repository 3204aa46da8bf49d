"""Clusters that nobody has: the real coordinator at any size, a model that follows from its parameters, a page that says so."""

import json
from dataclasses import replace

import pytest

from bench import scale, scale_page
from bench.pages import DOCS, kept, made_part, picture_path
from bench.scale_model import SHAPES, CoordinatorCost, Parameters, Step, needed_sizes, slowest_of, step, thinned

P = Parameters(
    coordinator=(CoordinatorCost(10, 100, 1e-4, 1e-5, 0.0), CoordinatorCost(100, 1000, 1e-3, 1e-4, 0.0)),
    world_s=1e-3, world_vehicle_s=1e-5, world_sensor_s=1e-6, state_bytes=1000.0, state_vehicle_bytes=200.0,
    state_sensor_bytes=100.0, send_s=1e-5, send_request_s=1e-6, receive_s=1e-5, receive_sensor_s=1e-6, draw_s=1e-3,
    draw_ratios=(1.0,), frame_bytes=86400, half_round_trip_s=5e-5, bytes_per_s=1.25e9, rack=32,
)  # fmt: skip


def test_the_real_coordinator_serves_any_size_and_loses_nothing():
    driven = scale.DrivenCoordinator(7, 40)
    for _ in range(3):
        driven.tick()
    assert driven.delivered == 3 * 40
    assert len(driven.state.members) == 7
    assert len(set(driven.state.balance.where.values())) == 7  # everybody draws
    cost = scale.coordinator_cost(5, 20, ticks=1)
    assert (cost.nodes, cost.sensors) == (5, 20)
    assert min(cost.due_s, cost.result_s, cost.plan_s) > 0.0


def test_frames_beyond_a_round_are_drawn_in_rounds():
    driven = scale.DrivenCoordinator(3, 4000)
    driven.tick()
    assert driven.delivered == 4000
    assert driven.rounds == 4  # of at most 1000 frames
    assert len(driven.result_s) == 3 * driven.rounds


def test_a_step_is_never_shorter_than_its_parts_and_the_same_every_time():
    for shape in SHAPES:
        for nodes in (10, 100):
            found = step(shape, nodes, 10 * nodes, P)
            assert found.step_ms >= max(found.main_ms, found.network_ms, found.drawing_ms, found.ideal_ms)
            assert found == step(shape, nodes, 10 * nodes, P)
            assert found.ideal_ms == pytest.approx(10.0)


def test_a_cluster_of_one_node_without_costs_only_draws():
    free = CoordinatorCost(1, 1, 0.0, 0.0, 0.0)
    names = [name for name in vars(P) if name.endswith("_s") and name not in ("draw_s", "bytes_per_s")]
    ideal = replace(P, coordinator=(free,), **dict.fromkeys(names, 0.0), bytes_per_s=1e30)
    for shape in SHAPES:
        found = step(shape, 1, 8, ideal)
        assert found.step_ms == pytest.approx(8.0, rel=1e-3)
        assert found.efficiency == pytest.approx(1.0, rel=1e-3)


def test_what_each_shape_takes_off_the_main_server():
    through, direct, relays, racks = (step(shape, 100, 1000, P) for shape in SHAPES)
    assert through.network_ms > direct.network_ms + 100.0  # 86 MB in and out again
    assert relays.main_ms < direct.main_ms
    assert racks.main_ms < relays.main_ms
    assert relays.network_ms < direct.network_ms
    slow = replace(P, draw_ratios=(1.0, 1.0, 1.0, 3.0))
    assert step("node to node", 100, 1000, slow).drawing_ms > 2.9 * direct.drawing_ms  # the barrier waits for the slowest


def test_the_mean_of_the_slowest_is_exact():
    assert slowest_of(1, (1.0, 2.0, 3.0)) == pytest.approx(2.0)
    assert slowest_of(2, (1.0, 2.0)) == pytest.approx((1.0 + 2.0 + 2.0 + 2.0) / 4)
    assert slowest_of(10_000, (1.0, 2.0, 5.0)) == pytest.approx(5.0)


def test_a_thinned_distribution_keeps_its_ends():
    assert thinned([3.0, 1.0, 2.0], 10) == (1.0, 2.0, 3.0)
    few = thinned([float(k) for k in range(1000)], 50)
    assert (len(few), few[0], few[-1]) == (50, 0.0, 999.0)
    assert list(few) == sorted(few)


def test_the_sizes_of_racks_are_measured_too():
    assert needed_sizes(10, 100, 32) == {(10, 100)}
    assert needed_sizes(1000, 10_000, 32) == {(1000, 10_000), (32, 10_000), (32, 313)}
    assert (1000, 10_000) in scale.sizes_needed()


def test_the_kept_curves_follow_from_the_kept_parameters():
    content = kept("scale")["figures"]
    parameters = Parameters.of(content["parameters"])
    assert json.loads(json.dumps(parameters.plain())) == content["parameters"]
    assert json.loads(json.dumps(scale.curves(parameters))) == content["curves"]
    sizes = {(point.nodes, point.sensors) for point in (Step(*row) for row in content["curves"]["weak"])}
    assert {(10, 100), (100, 1000), (1000, 10_000)} <= sizes


def test_the_page_is_made_from_the_kept_result():
    result = kept("scale")
    page = (DOCS / "scale.md").read_text("utf-8")
    assert made_part(page, "scale") == scale_page.made(result), "write it anew: python -m bench scale --write-page"
    for figure in scale_page.figures(result["figures"]):
        assert figure.digest in picture_path("scale", figure).read_text("utf-8")
