"""A real cluster whose number of nodes follows its load while it is driven: up, down, the bytes of a single server."""

import os

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.autoscale import ScaleRule, leaving, seen_of
from samepath.cluster.monitor.status import ClusterStatus, NodeStatus
from samepath.cluster.placement.processes import ProcessPlacement
from samepath.cluster.running import ClusterPlan, _Cluster, resumed_plan
from samepath.cluster.settings import MainSettings, Timeouts
from samepath.core.errors import InputError
from samepath.simulator.server.resume import JournalConfig
from samepath.simulator.server.server import ServerSettings
from tests.support.clustering import PATIENT, Loop, wait_for
from tests.support.scenes import Doors, scenario
from tests.support.serving import served

TICKS = 44
CORES = tuple((core,) for core in sorted(os.sched_getaffinity(0)))
QUICK = {"window_ticks": 4, "settle_ticks": 4, "calm_s": 0.1}


@pytest.fixture(scope="module")
def alone():
    with served() as server:
        return scenario(server, ticks=TICKS)


class NoSignals:
    def call_on_first(self, stop):
        self.stop = stop


class Scaled:
    """A cluster as ``samepath cluster start --scale`` runs it, without the command line."""

    def __init__(self, nodes, rule):
        self.lines = []
        main = MainSettings(server=ServerSettings(port=0, map_name="t-junction"), timeouts=PATIENT)
        # One after the other on a core of its own, as far as there are any; each draws with as many threads as it has cores.
        plan = ClusterPlan(main=main, nodes=nodes, placement="processes", scale=rule, core_sets=CORES, threads=0)
        self.cluster = _Cluster(plan, ProcessPlacement(self.lines.append), self.lines.append, None)
        self.loop, self.signals = Loop(), NoSignals()
        self.ended = self.loop.start(self.cluster.run(self.signals))
        wait_for(lambda: len(self.nodes()) == nodes, f"{nodes} nodes join: {self.lines}", 300.0)

    @property
    def main(self):
        return self.cluster._main

    @property
    def doors(self):
        return Doors(self.main.port, self.main.stream_port)

    def nodes(self):
        status = None if not hasattr(self.cluster, "_main") else self.main.status()
        return [] if status is None else [node.name for node in status.nodes if node.state == "working"]

    def let_it_look(self, tick):
        """Now and then, until it has seen all ticks so far and those it asked for have come or gone."""
        if tick % 4:
            return
        wait_for(lambda: self.main.status().ticks >= tick, "the status of this tick")
        seen = self.main.status().at_s
        wait_for(lambda: self.main.status().at_s > seen + 0.3, "two further looks")
        wait_for(lambda: set(self.nodes()) == set(self.main.expected_nodes()), f"all who are wanted: {self.lines}", 300.0)

    def changes(self):
        return [line.partition(":")[0] for line in self.lines if " nodes instead of " in line]

    def close(self):
        self.signals.stop()
        self.ended.result(60)
        self.loop.close()


@pytest.mark.parametrize(
    ("nodes", "rule", "changes"),
    [
        (1, ScaleRule(1, 2, 1e-5, gain_ratio=-100.0, **QUICK), ["2 nodes instead of 1"]),
        (3, ScaleRule(1, 3, 60.0, **QUICK), ["2 nodes instead of 3", "1 nodes instead of 2"]),
    ],
    ids=["up", "down"],
)
def test_nodes_that_come_and_go_by_load_change_no_byte(alone, nodes, rule, changes):
    scaled = Scaled(nodes, rule)
    try:
        assert scenario(scaled.doors, ticks=TICKS, before_tick=scaled.let_it_look) == alone
        assert scaled.changes() == changes, scaled.lines
        # Who was let go is listed until its connection has ended, and its process may have ended before.
        wait_for(lambda: {node.name for node in scaled.main.status().nodes} == set(scaled.main.expected_nodes()), scaled.lines)
        status = scaled.main.look()
        assert status.dropped_frames == status.desynchronised == 0
        assert not any("was taken out" in line for line in scaled.lines)
        for member in status.nodes:
            assert os.sched_getaffinity(member.pid) == set(CORES[(member.ordinal - 1) % len(CORES)])
    finally:
        scaled.close()


def node(name, ordinal, **changes):
    return NodeStatus(name, ordinal, "host", 1, changes.pop("state", "working"), "127.0.0.1:2000", **changes)


def cluster_status(*nodes, **changes):
    return ClusterStatus("c", "1", "town", 1, 500, changes.pop("mode", "lockstep"), nodes=nodes, **changes)


def test_what_is_looked_at_is_what_is_wanted_and_works():
    there = (
        node("node-1", 1, busy_s=3.0, steps_s=4.0),
        node("node-2", 2, state="joining"),
        node("node-3", 3, state="draining", busy_s=9.0),
        node("by-hand", 4, busy_s=1.0),
    )
    status = cluster_status(*there, ticks=50, recent_tick_s=(0.01, 0.02), dropped_frames=2)
    seen = seen_of(status, ("node-1", "node-2"))
    assert (seen.placed, seen.drawing, seen.ticks, seen.dropped) == (2, 1, 50, 2)
    assert (seen.recent_s, seen.drawn_s, seen.steps_s) == ((0.01, 0.02), {"node-1": 3.0}, {"node-1": 4.0})
    assert seen_of(cluster_status(*there, mode="real time", recent_tick_s=(0.01,)), ("node-1",)).recent_s == ()


def test_those_go_first_who_have_no_clients_and_of_them_the_last():
    status = cluster_status(node("node-1", 1), node("node-2", 2, clients=3), node("node-3", 3), node("node-4", 4, clients=1))
    placed = ("node-1", "node-2", "node-3", "node-4")
    assert leaving(status, placed, 3) == ("node-3",)
    assert leaving(status, placed, 1) == ("node-3", "node-1", "node-4")
    assert leaving(status, placed, 4) == ()
    assert leaving(status, (*placed, "node-9"), 4) == ("node-9",)  # it has not even come


def test_a_journal_keeps_how_a_cluster_is_scaled_compressed_and_pinned_and_how_patient_it_is(tmp_path):
    rule, times = ScaleRule(2, 5, 0.03), Timeouts.with_patience(9.0)
    main = MainSettings(server=ServerSettings(port=0, map_name="t-junction"), compress="on", timeouts=times)
    plan = ClusterPlan(main=main, nodes=2, placement="processes", scale=rule, core_sets=((0,), (0, 1)))
    kept = plan.keeping(JournalConfig(tmp_path / "j"))
    with served(port=0, map_name="t-junction", journal=kept.main.server.journal):
        pass
    again = resumed_plan(tmp_path / "j", None)
    assert (again.scale, again.core_sets, again.main.compress, again.nodes) == (rule, ((0,), (0, 1)), "on", 2)
    assert again.main.timeouts == times


def test_patience_is_for_silent_nodes_and_what_they_owe_is_drawn_elsewhere_as_soon_as_ever():
    usual, patient = Timeouts(), Timeouts.with_patience(30.0)
    assert (patient.fence_s, patient.silent_s) == (30.0, 30.0)
    assert (patient.reissue_s, patient.reissue_factor) == (usual.reissue_s, usual.reissue_factor)
    assert Timeouts.with_patience(2.0) == usual
    for wrong in (0.0, 0.9, 601.0, float("nan")):
        with pytest.raises(InputError, match="--node-timeout: 1 to 600 seconds were wanted, but"):
            Timeouts.with_patience(wrong)


def test_more_or_fewer_nodes_than_the_range_are_refused():
    with pytest.raises(InputError, match=r"--nodes 9 is outside --scale 1\.\.8"):
        ClusterPlan(nodes=9, scale=ScaleRule(1, 8, 0.02))
