"""The same bytes from any cluster: 40 cameras and other sensors, 500 ticks.

For 1, 2, 4 and 8 nodes, for any way of sharing out, for clients on different nodes, and while nodes are killed, frozen, drained
and added at random. ``python -m bench faults`` runs 100 random schedules of faults (``SAMEPATH_BENCH_FAULTS``, a number or a
range such as 1-33) of ``SAMEPATH_BENCH_FAULT_TICKS`` ticks each, ``SAMEPATH_BENCH_FAULT_JOBS`` of them beside each other. A
second start goes on where the first one was interrupted. With ``SAMEPATH_BENCH_FAULT_RENDERERS`` such as ``cuda,software`` the
nodes draw with these in turn; what comes is compared with one node that draws in software, and kept in ``faults-mixed.json``.
"""

import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
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
JOBS = int(os.environ.get("SAMEPATH_BENCH_FAULT_JOBS", "1"))
RENDERERS = tuple(os.environ.get("SAMEPATH_BENCH_FAULT_RENDERERS", "software").split(","))
IS_MIXED = RENDERERS != ("software",)
NAME = "faults-mixed" if IS_MIXED else f"faults-{ASKED}" if "-" in ASKED else "faults"
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
# With renderers that are to send the software's bytes: who says which those are, each of them alone, then all.
MIXED_WAYS = {
    "1 node, software": FaultRunSettings(nodes=1),
    **{f"1 node, {name}": FaultRunSettings(nodes=1, renderers=(name,)) for name in RENDERERS if name != "software"},
    "4 nodes": FaultRunSettings(nodes=4, renderers=RENDERERS),
    "3 nodes, shared out at random": FaultRunSettings(nodes=3, renderers=RENDERERS, policy="random"),
}


def main() -> bool:
    """Run all ways, then all schedules; return whether every byte was the same and no frame lost, doubled or late."""
    done = _so_far()
    ways = MIXED_WAYS if IS_MIXED else {} if "-" in ASKED else WAYS  # the schedules of a range are compared with each other
    trials = {name: replace(trial, ticks=TICKS, scene=SCENE, timeouts=PATIENCE) for name, trial in ways.items()}
    for seed in range(FIRST, LAST + 1):
        trials[f"faults {seed}"] = FaultRunSettings(
            nodes=2 + seed % 3, ticks=TICKS, scene=SCENE, timeouts=PATIENCE, listen_at_node=seed % 2 == 0,
            # Shared out at random, most frames are drawn at another node than the one they are listened to.
            faults=schedule(seed, TICKS, FAULTS), policy="random" if seed % 4 == 0 else "measured", renderers=RENDERERS,
        )  # fmt: skip
    # A process each: the main server of a trial is in it, and two of them would wait for each other.
    with ProcessPoolExecutor(JOBS, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_tried, settings): name for name, settings in trials.items() if name not in done}
        for ended in as_completed(running):
            name = running[ended]
            done[name] = ended.result()
            SO_FAR.write_text(json.dumps({"fingerprint": fingerprint(), "done": done}, indent=1), "utf-8")
            print(f"{name}: {done[name]['digest']} {done[name]['seconds']:.0f} s {'; '.join(done[name]['faults'])}", flush=True)
    done = {name: done[name] for name in trials}
    wanted = next(iter(done.values()))["digest"]
    good = [name for name, trial in done.items() if trial["digest"] == wanted and not trial["irregular"]]
    rows = [[name, str(trial["frames"]), verdict(met=name in good)] for name, trial in done.items() if name in ways]
    hurt = [trial for name, trial in done.items() if name not in ways]
    kinds: dict[str, int] = {}
    for trial in hurt:
        for fault in trial["faults"]:
            kinds[fault.partition(" ")[0]] = kinds.get(fault.partition(" ")[0], 0) + 1
    fine = sum(1 for name in good if name not in ways)
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    rows.append([f"{len(hurt)} schedules of faults ({words})", str(sum(trial["frames"] for trial in hurt)), f"{fine} equal"])
    show(f"every byte of every sensor, {SCENE.cameras} cameras and others, {TICKS} ticks", ["cluster", "frames", "bytes"], rows)
    save(
        NAME,
        {
            "ticks": TICKS, "cameras": SCENE.cameras, "trials": len(done), "equal": len(good), "faults": kinds,
            "digest": wanted, "renderers": RENDERERS, "jobs": JOBS,
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
    lines: list[str] = []
    try:
        outcome: Outcome = run_with_faults(settings, lines.append)
    except SamepathError as error:
        return {
            "digest": "", "irregular": [str(error)], "frames": 0, "faults": [], "reissued": 0, "compared": 0,
            "desynchronised": 0, "neighbour_bytes": 0, "seconds": SYSTEM_CLOCK.monotonic_s() - start_s,
        }  # fmt: skip
    status = outcome.status
    # A node that was to draw with a card and did not: its bytes would be right, and show nothing.
    fallen = [line for line in lines if IS_MIXED and " in software" in line]
    return {
        "digest": outcome.digest, "irregular": [*outcome.irregular, *fallen], "frames": outcome.frames,
        "faults": list(outcome.faults), "reissued": status.reissued, "compared": status.compared,
        "desynchronised": status.desynchronised, "neighbour_bytes": outcome.neighbour_bytes,
        "seconds": SYSTEM_CLOCK.monotonic_s() - start_s,
    }  # fmt: skip
