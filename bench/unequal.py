"""Nodes that are unequal for real: one has a core to itself, two share one. Does the balance find out, and what does it give?

The cores are given by affinity, as ``samepath cluster start --cores`` does, not by resting: what a node measures of itself is
what the kernel lets it have. Beside it the same cluster with sensors shared out in turn.
"""

import os
from collections import Counter
from statistics import median
from typing import Any

from bench.cluster_rig import Rig
from bench.tools import save, show, verdict

CAMERAS = 12
WIDTH, HEIGHT = 360, 240
WARM_TICKS, TICKS = 100, 60
AIM = 1.2


def run(policy: str) -> dict[str, Any]:
    """A cluster of one node on a core of its own and two that share another."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    own, shared, before = {first}, {second}, os.sched_getaffinity(0)
    try:
        with Rig([1.0, 1.0, 1.0], policy=policy) as rig:
            rig.pin(set(before), [own, shared, shared])
            rig.cameras(rig.fill(CAMERAS), WIDTH, HEIGHT)
            rig.tick(WARM_TICKS)
            ticks = rig.tick(TICKS)
            balance = rig.main.shell.state.balance
            slowness = {number: balance.costs.slowness(number) for number in (1, 2, 3)}
            drawn = Counter(balance.where.values())
            step_s = [tick.work_s for tick in ticks]
    finally:
        os.sched_setaffinity(0, before)
    return {
        "policy": policy,
        "step_ms_median": 1e3 * median(step_s),
        "step_ms": [1e3 * took_s for took_s in step_s],
        "images_per_s": CAMERAS / median(step_s),
        "sensors": {f"node-{number}": drawn[number] for number in (1, 2, 3)},
        "speed": {f"node-{number}": min(slowness.values()) / slowness[number] for number in (1, 2, 3)},
    }


def main() -> bool:
    """Measure; return whether the balance gave the aim."""
    if len(os.sched_getaffinity(0)) < 2:
        print("two cores are needed")
        return False
    found = [run(policy) for policy in ("round-robin", "measured")]
    rows = [
        [
            row["policy"], f"{row['step_ms_median']:.1f}", f"{row['images_per_s']:.0f}",
            " / ".join(str(count) for count in row["sensors"].values()),
            " / ".join(f"{speed:.2f}" for speed in row["speed"].values()),
        ]
        for row in found
    ]  # fmt: skip
    title = f"{CAMERAS} cameras of {WIDTH} x {HEIGHT}; node-1 has a core, node-2 and node-3 share one"
    show(title, ["balance", "step, ms", "images/s", "sensors of the three nodes", "their speed as learned"], rows)
    gain = found[1]["images_per_s"] / found[0]["images_per_s"]
    met = gain >= AIM
    print(f"by measured cost against in turn: {gain:.2f} times as many images (aim {AIM}: {verdict(met=met)})")
    save("unequal", {"runs": found, "gain": gain})
    return met
