"""What the largest legal request of every RPC method costs, in a world that is as full as a server lets it be.

The same requests and ceilings as in ``tests/simulator/server/test_call_costs.py``, with whole lists and 5000 actors: bytes of
the answer, the most memory at once, calls of functions, and processor time against a loop of a million additions.
"""

import tempfile
from dataclasses import asdict

from bench.tools import save, show, verdict
from samepath.simulator.carla.limits import ServerLimits
from tests.support.largest_calls import ceiling_of, cost_of, filled, largest_requests, recorded

# Besides those of the map, and some that the requests themselves spawn.
ACTORS = 4800
# Of all requests the table shows those that cost most.
SHOWN = 25
LAST = ("load_new_episode", "replay_file")


def main() -> bool:
    """Make every largest request once; return whether all stayed below their ceilings."""
    with tempfile.TemporaryDirectory() as folder:
        host = filled(ACTORS, folder)
        recorded(host)
        requests = largest_requests(host)
        costs = {}
        for name in sorted(requests, key=lambda name: (name in LAST, name)):
            costs[name] = (cost_of(host, name, requests[name]), ceiling_of(name, len(host.actors)))
    most_bytes = ServerLimits().answer_bytes
    beyond = [
        name
        for name, (cost, ceiling) in costs.items()
        if cost.answer_bytes > most_bytes
        or cost.peak_bytes > ceiling.peak_bytes
        or cost.calls > ceiling.calls
        or cost.work > ceiling.work
    ]
    dearest = sorted(costs, key=lambda name: -costs[name][0].calls)[:SHOWN]
    show(
        f"the largest request of every method, {ACTORS} actors",
        ["request", "bytes in", "bytes out", "MiB at once", "calls", "ceiling", "work", ""],
        [
            [
                name,
                f"{cost.request_bytes:,}",
                f"{cost.answer_bytes:,}",
                f"{cost.peak_bytes / (1 << 20):.1f}",
                f"{cost.calls:,}",
                f"{ceiling.calls:,}",
                f"{cost.work:.1f}",
                verdict(met=name not in beyond),
            ]
            for name in dearest
            for cost, ceiling in (costs[name],)
        ],
    )
    save("calls", {"actors": ACTORS, "beyond": beyond, "costs": {name: asdict(cost) for name, (cost, _) in costs.items()}})
    return not beyond
