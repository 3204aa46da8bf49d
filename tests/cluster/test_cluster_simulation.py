"""Whole clusters on virtual time: no schedule of faults breaks a promise, and every deliberate bug is found.

``python -m bench cluster-simulation`` plays tens of thousands; here are some hundred, and the proof that they see something.
"""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench import __main__ as bench
from bench.cluster_mutations import MUTATIONS, mutated
from samepath.cluster import messages as m
from samepath.cluster.node import Node, TickRendered
from samepath.simulator.server.traffic_managers import TrafficManagers
from tests.support import ROOT
from tests.support.cluster_world import KINDS, drawn, run_schedule

SCHEDULES = 400
# A bug must be found within so many schedules, from a first seed at which it takes few.
WITHIN = 20
FIRST_SEEDS = {
    "lost-work-not-reissued": 70, "ticket-not-journalled": 20, "answer-before-the-disk": 55, "late-joiner-waited-for": 110,
    "free-node-not-asked": 440, "deadline-without-end": 35, "node-does-not-dedup": 20, "held-frames-given-out-unasked": 235,
    "frames-of-another-sender-counted": 130, "patience-not-doubled": 485, "slow-node-taken-out": 30,
    "slow-node-not-asked-again": 165, "tick-never-fails": 30, "builders-not-awaited": 570,
}  # fmt: skip


@pytest.fixture(scope="module")
def played():
    return [run_schedule(seed) for seed in range(SCHEDULES)]


def test_no_schedule_breaks_a_promise(played):
    assert [(outcome.seed, outcome.violation) for outcome in played if outcome.violation is not None] == []
    assert sum(outcome.ticks for outcome in played) > 10 * SCHEDULES


def test_every_kind_of_trouble_has_happened_and_was_survived(played):
    lines = "\n".join(line for outcome in played for line in outcome.log)
    assert [kind for kind, _ in KINDS if f"trouble {kind}" not in lines] == []
    for what in (
        "main died True",
        "main died False",
        "it was drained",
        "taken out: it has not drawn",
        "taken out: its state",
        "the run stops",
    ):
        assert what in lines
    assert max(drawn(outcome.seed).nodes for outcome in played) == 40


@pytest.mark.parametrize("seed", [3, 20, 77])
def test_a_seed_is_a_schedule_to_the_bit(seed, played):
    again = run_schedule(seed)
    assert again.log == played[seed].log
    assert again == played[seed]


def test_an_option_fixes_what_would_be_drawn_and_moves_nothing_else():
    assert drawn(5, nodes=2) == drawn(5)._replace(nodes=2)
    assert run_schedule(5, nodes=2, troubles=()).violation is None


@pytest.mark.slow
def test_a_schedule_is_the_same_in_another_process_with_other_hashes(played):
    code = "from tests.support.cluster_world import run_schedule; print(*(run_schedule(seed).digest for seed in range(40)))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == [outcome.digest for outcome in played[:40]]


def test_a_node_hands_frames_to_its_own_clients_before_the_main_server_hears_of_them():
    """As in the simulation; the other way round the next tick's state could overtake them.

    The event loop takes one thing after the other from a queue, the next tick's state among them. It is woken last.
    """
    done, queue = [], []
    node = SimpleNamespace(
        _for_loop=queue,
        _loop=SimpleNamespace(call_soon_threadsafe=lambda call: done.append("loop woken")),
        _deliver_own=print,
        _work_off=print,
        _send_soon=lambda result, *bulk: done.append(f"main server, {len(queue)} in front"),
    )
    result = m.TickResult(7, b"", 0.0, ())
    Node._rendered(node, TickRendered(result, (), ((3, b"head", b"a picture"),), True))
    assert done == ["main server, 1 in front", "loop woken"]


def test_whoever_begins_to_listen_at_a_node_gets_nothing_of_ticks_that_are_over():
    """The node may be late with a frame of one: it was drawn for somebody who has gone since."""
    sent, heard = [], set()
    hub = SimpleNamespace(
        expect=heard.add,
        is_heard=heard.__contains__,
        send=lambda stream, payload, lossless, head: sent.append((stream, head + payload)),
    )
    node = SimpleNamespace(_hub=hub, _delivered={}, _rpc=SimpleNamespace(managers=TrafficManagers(sent.append)))
    Node._expect(node, 3, 7)
    for frame in (7, 8, 8):
        Node._deliver(node, 3, b"frame %d" % frame, frame, lossless=True)
    assert sent == [(3, b"frame 8")]
    Node._expect(node, 3, 7)  # a second listener moves nothing back
    Node._deliver(node, 3, b"frame 8 again", 8, lossless=True)
    assert sent == [(3, b"frame 8")]


def test_a_node_hands_the_state_to_its_clients_before_a_frame_of_the_same_tick_can_be_drawn():
    """The event loop is woken last, so that nobody waits for it; what it does first is decided before."""
    done = []
    queue = []
    loop = SimpleNamespace(call_soon_threadsafe=lambda call: done.append("loop woken"))
    render = SimpleNamespace(put=lambda work: done.append(f"drawing of {work.frame}, {len(queue)} in front"))
    node = SimpleNamespace(_loop=loop, _for_loop=queue, _render_thread=render, _state=print, _work_off=print, _neighbours=None)
    Node._tick(node, m.TickMessage(7, True, b"", (), False, False), m.join_tick(b"state", b"view"), ())
    assert done == ["drawing of 7, 1 in front", "loop woken"]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_deliberate_bug_is_found(mutation):
    first = FIRST_SEEDS.get(mutation, 0)
    with mutated(mutation):
        violations = (run_schedule(seed).violation for seed in range(first, first + WITHIN))
        found = next((violation for violation in violations if violation is not None), None)
    assert found is not None
    assert "error of ours" not in found  # a promise is broken, not just the code


def test_a_bug_is_there_only_while_it_is_wanted():
    def decisions():
        return {(owner, name): getattr(owner, name) for owner, name, _ in (make() for make in MUTATIONS.values())}

    before = decisions()
    for mutation in MUTATIONS:
        with mutated(mutation):
            assert decisions() != before
    assert decisions() == before


def test_the_benchmark_prints_counts_as_json_and_tells_how_to_see_a_violation_again(capsys):
    assert bench.main(["cluster-simulation", "--schedules", "3", "--seed", "8", "--json", "--processes", "1"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert list(counts) == ["schedules", "violations", "events", "first_violation_seed"]
    assert counts == {"schedules": 3, "violations": 0, "events": counts["events"], "first_violation_seed": None}
    seeded = ["cluster-simulation", "--schedules", "3", "--seed", "8", "--json", "--mutate", "barrier-early"]
    assert bench.main(seeded) == 0
    told = capsys.readouterr()
    first = json.loads(told.out)["first_violation_seed"]
    assert f"--schedules 1 --seed {first} --mutate barrier-early" in told.err
