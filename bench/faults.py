"""The same bytes from any cluster: 40 cameras and other sensors, 500 ticks.

For 1, 2, 4 and 8 nodes, for any way of sharing out, for clients on different nodes, and while nodes are killed, frozen, drained
and added at random. ``python -m bench faults`` runs 100 random schedules of faults (``SAMEPATH_BENCH_FAULTS``, a number or a
range such as 1-33) of ``SAMEPATH_BENCH_FAULT_TICKS`` ticks each. A second start goes on where the first one was interrupted.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.tools import save, show, verdict
from samepath.cluster.identity import fingerprint
from samepath.cluster.settings import Timeouts
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from tests.support.faults import FaultRunSettings, Outcome, SceneSettings, run_with_faults, schedule

ASKED = os.environ.get("SAMEPATH_BENCH_FAULTS", "100")
FIRST, LAST = (int(number) for number in (ASKED if "-" in ASKED else f"1-{ASKED}").split("-"))
TICKS = int(os.environ.get("SAMEPATH_BENCH_FAULT_TICKS", "500"))
FAULTS = 8
SCENE = SceneSettings(cameras=40, width=96, height=64)
PATIENCE = Timeouts(reissue_s=0.5, fence_s=2.0, no_node_s=300.0)
NAME = f"faults-{ASKED}" if "-" in ASKED else "faults"
SO_FAR = Path(__file__).parent / "results" / f"{NAME}-so-far.json"
WAYS = {
    "1 node": FaultRunSettings(nodes=1),
    "2 nodes": FaultRunSettings(nodes=2),
    "4 nodes": FaultRunSettings(nodes=4),
    "8 nodes": FaultRunSettings(nodes=8),
    "2 nodes, clients on both": FaultRunSettings(nodes=2, listen_at_node=True),
    "3 nodes, shared out at random": FaultRunSettings(nodes=3, policy="random"),
    "3 nodes, shared out at random, clients on one: from node to node": FaultRunSettings(
        nodes=3, policy="random", listen_at_node=True
    ),
    "2 nodes, round-robin, no shared memory": FaultRunSettings(nodes=2, policy="round-robin", shared_memory=False),
}


def main() -> bool:
    """Run all ways, then all schedules; return whether every byte was the same and no frame lost, doubled or late."""
    done = _so_far()
    ways = {} if "-" in ASKED else WAYS  # the schedules of a range are compared with each other
    trials = {name: replace(trial, ticks=TICKS, scene=SCENE, timeouts=PATIENCE) for name, trial in ways.items()}
    for seed in range(FIRST, LAST + 1):
        trials[f"faults {seed}"] = FaultRunSettings(
            nodes=2 + seed % 3, ticks=TICKS, scene=SCENE, timeouts=PATIENCE, listen_at_node=seed % 2 == 0,
            # Shared out at random, most frames are drawn at another node than the one they are listened to.
            faults=schedule(seed, TICKS, FAULTS), policy="random" if seed % 4 == 0 else "measured",
        )  # fmt: skip
    for name, settings in trials.items():
        if name not in done:
            done[name] = _tried(settings)
            SO_FAR.write_text(json.dumps({"fingerprint": fingerprint(), "done": done}, indent=1), "utf-8")
            print(f"{name}: {done[name]['digest']} {done[name]['seconds']:.0f} s {'; '.join(done[name]['faults'])}", flush=True)
    wanted = next(iter(done.values()))["digest"]
    good = [name for name, trial in done.items() if trial["digest"] == wanted and not trial["irregular"]]
    rows = [[name, str(trial["frames"]), verdict(met=name in good)] for name, trial in done.items() if name in WAYS]
    hurt = [trial for name, trial in done.items() if name not in WAYS]
    kinds: dict[str, int] = {}
    for trial in hurt:
        for fault in trial["faults"]:
            kinds[fault.partition(" ")[0]] = kinds.get(fault.partition(" ")[0], 0) + 1
    fine = sum(1 for name in good if name not in WAYS)
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    rows.append([f"{len(hurt)} schedules of faults ({words})", str(sum(trial["frames"] for trial in hurt)), f"{fine} equal"])
    show(f"every byte of every sensor, {SCENE.cameras} cameras and others, {TICKS} ticks", ["cluster", "frames", "bytes"], rows)
    save(
        NAME,
        {
            "ticks": TICKS, "cameras": SCENE.cameras, "trials": len(done), "equal": len(good), "faults": kinds,
            "digest": wanted,
            "frames": sum(trial["frames"] for trial in done.values()),
            "reissued": sum(trial["reissued"] for trial in done.values()),
            "neighbour_bytes": sum(trial["neighbour_bytes"] for trial in done.values()),
            "compared_states": sum(trial["compared"] for trial in done.values()),
            "desynchronised": sum(trial["desynchronised"] for trial in done.values()),
        },
    )  # fmt: skip
    SO_FAR.unlink(missing_ok=True)
    return len(good) == len(done)


def _so_far() -> dict[str, Any]:
    """What an interrupted run has left, if the code is still the same."""
    try:
        found = json.loads(SO_FAR.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(found["done"]) if found.get("fingerprint") == fingerprint() else {}


def _tried(settings: FaultRunSettings) -> dict[str, Any]:
    start_s = SYSTEM_CLOCK.monotonic_s()
    try:
        outcome: Outcome = run_with_faults(settings)
    except SamepathError as error:
        return {
            "digest": "", "irregular": [str(error)], "frames": 0, "faults": [], "reissued": 0, "compared": 0,
            "desynchronised": 0, "neighbour_bytes": 0, "seconds": SYSTEM_CLOCK.monotonic_s() - start_s,
        }  # fmt: skip
    status = outcome.status
    return {
        "digest": outcome.digest, "irregular": list(outcome.irregular), "frames": outcome.frames,
        "faults": list(outcome.faults), "reissued": status.reissued, "compared": status.compared,
        "desynchronised": status.desynchronised, "neighbour_bytes": outcome.neighbour_bytes,
        "seconds": SYSTEM_CLOCK.monotonic_s() - start_s,
    }  # fmt: skip
