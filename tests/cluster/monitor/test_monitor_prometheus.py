"""Metrics as Prometheus' own parser reads them."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from samepath.cluster.monitor.prometheus import MissingLibraryError, exposition, make_registry
from samepath.cluster.monitor.status import ClusterStatus
from tests.support.watched_clusters import desynchronised, one_fenced, working

parser = pytest.importorskip("prometheus_client.parser")


def samples(status: ClusterStatus | None) -> dict:
    body, content_type = exposition(make_registry(lambda: status))
    assert content_type.startswith("text/plain")
    found = {}
    for family in parser.text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def test_the_figures_are_those_of_the_status():
    status = one_fenced()
    found = samples(status)
    name = "samepath_cluster"
    assert found[(f"{name}_ticks_total",)] == status.ticks
    assert found[(f"{name}_frames_total",)] == status.frames
    assert found[(f"{name}_late_frames_total",)] == 12
    assert found[(f"{name}_dropped_frames_total",)] == 2
    assert found[(f"{name}_reissued_frames_total",)] == 6
    assert found[(f"{name}_worst_lateness_seconds",)] == 0.031
    assert found[(f"{name}_waiting_nodes",)] == 1
    assert found[(f"{name}_commands_overruled_total",)] == 3
    for node in status.nodes:
        label = ("node", node.name)
        assert found[f"{name}_node_frames_total", label] == node.frames
        assert found[f"{name}_node_busy_ratio", label] == node.busy
        assert found[f"{name}_node_working", label] == (node.state == "working")
    assert found[f"{name}_nodes", ("state", "fenced")] == 1
    assert found[f"{name}_nodes", ("state", "working")] == 2
    info = dict(next(key for key in found if key[0] == f"{name}_info")[1:])
    assert info == {"name": "crossing", "version": status.version, "map": "town", "mode": "real time"}


def test_the_pace_in_real_time_is_a_figure():
    assert samples(replace(one_fenced(), real_time_ratio=0.88))[("samepath_cluster_real_time_ratio",)] == 0.88
    assert ("samepath_cluster_real_time_ratio",) not in samples(one_fenced())


def test_what_is_not_known_is_absent():
    found = samples(one_fenced())
    assert ("samepath_cluster_node_step_seconds", ("node", "node-4")) in found
    assert ("samepath_cluster_node_step_seconds", ("node", "node-5")) not in found
    assert ("samepath_cluster_node_speed_ratio", ("node", "node-5")) not in found
    assert samples(None) == {}


def test_desynchronisation_is_counted_for_all_and_for_each():
    assert samples(working())[("samepath_cluster_desynchronised_digests_total",)] == 0
    found = samples(desynchronised())
    assert found[("samepath_cluster_desynchronised_digests_total",)] == 2
    assert found["samepath_cluster_node_desynchronised_digests_total", ("node", "node-4")] == 2
    assert found["samepath_cluster_node_desynchronised_digests_total", ("node", "node-1")] == 0


@pytest.mark.parametrize("name", ["tick_seconds", "command_latency_seconds"])
def test_histograms_rise_to_their_count(name):
    status = working()
    found = samples(status)
    wanted = status.tick_times if name == "tick_seconds" else status.commands.latencies
    prefix = f"samepath_cluster_{name}"
    buckets = {float(key[1][1]): value for key, value in found.items() if key[0] == f"{prefix}_bucket"}
    heights = [buckets[bound] for bound in sorted(buckets)]
    assert len(heights) == len(wanted.counts)
    assert heights == sorted(heights)
    assert heights[-1] == found[(f"{prefix}_count",)] == sum(wanted.counts)
    assert found[(f"{prefix}_sum",)] == pytest.approx(wanted.sum_s)
    bound = wanted.bounds_s[5]
    assert buckets[bound] == sum(wanted.counts[:6])


def test_every_name_is_ours_and_ends_in_its_unit():
    for key in samples(one_fenced()):
        assert re.fullmatch(r"samepath_cluster(_[a-z]+)+", key[0])
        for shortcut in ("_ms", "_s", "_percent", "_us"):
            assert not key[0].endswith(shortcut)


def test_every_metric_is_documented():
    docs = Path(__file__).parents[3] / "docs"
    text = "".join(path.read_text("utf-8") for path in sorted(docs.glob("cluster*.md")))
    for key in samples(one_fenced()):
        name = re.sub(r"_(bucket|count|sum|created)$", "", key[0])
        shown = name.removeprefix("samepath_cluster_node") if "node" in dict(key[1:]) else name.removeprefix("samepath_cluster")
        assert f"`{name}`" in text or f"`{shown}`" in text or f"`{shown}{{" in text, name


def test_a_name_from_outside_cannot_add_a_line():
    status = working()
    odd = 'a"} 1\nsamepath_cluster_ticks_total 7\n#\\'
    status = replace(status, nodes=(replace(status.nodes[0], name=odd),))
    assert samples(status)["samepath_cluster_node_frames_total", ("node", odd)] == status.nodes[0].frames


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'samepath\[cluster\]'"):
        make_registry(working)
