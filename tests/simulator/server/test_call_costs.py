"""A ceiling on the cost of every call: what the largest legal request of each method may cost, in a small and in a full world.

Counted, not timed: bytes of the answer, the most memory at once, calls of functions. Compiled code (physics, MessagePack,
numpy) makes no calls that could be counted, so processor time has a ceiling too, against a loop that is timed in the same
thread just before, and many times what was found. Long lists are a tenth as long as they may be, and so are their ceilings;
``python -m bench calls`` makes them all, in a world of 5000.
"""

import tracemalloc
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")

from samepath.simulator.carla import recorder
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.methods import methods
from tests.support.largest_calls import CEILINGS, PER_ACTOR, ceiling_of, cost_of, filled, largest_requests, recorded

pytestmark = pytest.mark.slow

LIMITS = ServerLimits()
SHARE = 0.1
WORLDS = {"small": (3, "t-junction"), "full": (300, "town")}
# Another world follows these, so they come last.
LAST = ("load_new_episode", "replay_file")


@pytest.fixture(scope="module", params=WORLDS)
def world(request, tmp_path_factory):
    actors, map_name = WORLDS[request.param]
    host = filled(max(actors, 4), tmp_path_factory.mktemp("recordings"), map_name)
    recorded(host)
    return host, largest_requests(host, SHARE)


def test_there_is_a_largest_request_for_every_method(world):
    _, requests = world
    assert {name.partition(":")[0] for name in requests} == set(methods())
    assert set(CEILINGS) <= set(requests)
    assert set(PER_ACTOR) <= set(methods())


@pytest.mark.parametrize("name", sorted(methods(), key=lambda name: (name in LAST, name)))
def test_the_largest_request_of_a_method_stays_below_its_ceiling(world, name):
    host, requests = world
    for kind in (kind for kind in requests if kind.partition(":")[0] == name):
        cost, ceiling = cost_of(host, kind, requests[kind]), ceiling_of(kind, len(host.actors), SHARE)
        assert cost.answer_bytes <= LIMITS.answer_bytes, kind
        assert cost.peak_bytes <= ceiling.peak_bytes, (kind, cost)
        assert cost.calls <= ceiling.calls, (kind, cost)
        assert cost.work <= ceiling.work, (kind, cost)


def test_commands_behind_commands_are_counted_with_the_others(world):
    host, requests = world
    cost = cost_of(host, "apply_batch", requests["apply_batch: more commands than there may be, behind others"])
    assert "at most 20000 commands" in cost.failed


def test_of_actors_that_stop_in_every_frame_of_a_long_recording_only_those_that_are_shown_are_kept(monkeypatch):
    monkeypatch.setattr(recorder, "LINES_MAX", 100)

    def frames():
        for number in range(4_000):
            placed = [recorder.LogPose(actor, float(number), 0.0, 0.0, 0.0, 0.0, 0.0) for actor in range(1, 6)]
            yield SimpleNamespace(elapsed_s=0.05 * number, duration_s=0.05, content=SimpleNamespace(added=(), placed=placed))

    header = SimpleNamespace(version=1, map_name="town", started_unix_s=0)
    log = SimpleNamespace(header=header, frames=frames, extent=(4_000, 200.0), is_cut=False)
    tracemalloc.start()
    try:
        text = recorder.blocked_text(log, 0.0, 0.0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "... and more" in text
    assert peak_bytes < 500_000  # twenty thousand stops would be five times as much
