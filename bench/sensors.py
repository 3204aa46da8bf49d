"""The proof for every sensor: the bytes of a rig of all kinds and of all messages on the wire, in a hundred fresh processes.

``python -m bench sensors`` runs them under five circumstances (``SAMEPATH_BENCH_SENSOR_REPEATS`` in all). On another machine
``python -m bench.sensors digests`` runs one process for each of them, with nothing but what the sensors themselves need, and
says which digests are the pinned ones; ``python -m bench.sensors pin`` pins new ones.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.support import ROOT, SUPPORT

SCRIPT = SUPPORT / "sensor_bytes.py"
PINNED = ROOT / "tests" / "simulator" / "sensors" / "sensor_golden.json"
REPEATS = int(os.environ.get("SAMEPATH_BENCH_SENSOR_REPEATS", "100"))
AT_ONCE = 2
Digests = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Circumstances:
    """Under what a process measures: threads of the rig, changes of its environment, load beside it."""

    threads: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    load_ratio: float = 0.0


VARIANTS = {
    "fresh processes, 1 thread": Circumstances(),
    "2 threads, hash seed random": Circumstances(2, {"PYTHONHASHSEED": "random"}),
    "95 % CPU load beside": Circumstances(2, load_ratio=0.95),
    "glibc's FMA paths off": Circumstances(1, {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"}),
    "built for plain x86-64": Circumstances(2, {"SAMEPATH_RENDER_CPU": "x86-64"}),
}


def main() -> bool:
    """Run everything; return whether every process gave the pinned digests."""
    from bench.tools import save, show, verdict
    from samepath.instrument.conditions.cpu_load import CpuLoad

    pinned = json.loads(PINNED.read_text("utf-8"))
    repeats, rows, outcomes, good = max(1, REPEATS // len(VARIANTS)), [], {}, True
    unlike: Counter[str] = Counter()
    for name, how in VARIANTS.items():
        with CpuLoad(how.load_ratio) as load, ThreadPoolExecutor(AT_ONCE) as pool:
            load.settle()
            found = list(pool.map(lambda _, how=how: _measured(how), range(repeats)))
        texts = {json.dumps(digests, sort_keys=True) for digests in found}
        same = all(digests == pinned for digests in found)
        unlike.update(kind for digests in found for kind in _unlike(digests, pinned))
        good, outcomes[name] = good and same, {"repeats": repeats, "outcomes": len(texts), "pinned": same}
        rows.append([name, str(repeats), str(len(texts)), verdict(met=same)])
    count = sum(len(kinds) for kinds in pinned.values())
    show(f"the same bytes: {count} digests of sensors", ["circumstances", "processes", "outcomes", "the pinned one"], rows)
    if unlike:
        show("sensors that differ", ["sensor", "processes"], [[kind, str(times)] for kind, times in sorted(unlike.items())])
    save("sensors", {"same_bytes": outcomes, "digests": pinned, "unlike": dict(unlike)})
    return good


def _measured(how: Circumstances) -> Digests:
    """The digests of one fresh process."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, **how.environment}
    command = [sys.executable, str(SCRIPT), str(how.threads)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: Digests = json.loads(done.stdout)
    return found


def _unlike(found: Digests, pinned: Digests) -> list[str]:
    """What is not as it was pinned, or is not there."""
    names = sorted({(where, kind) for digests in (found, pinned) for where, kinds in digests.items() for kind in kinds})
    return [f"{where}: {kind}" for where, kind in names if found.get(where, {}).get(kind) != pinned.get(where, {}).get(kind)]


def _digests() -> bool:
    """One process for each of the circumstances that need nothing beside them; prints what differs."""
    pinned, good = json.loads(PINNED.read_text("utf-8")), True
    for name, how in VARIANTS.items():
        if how.load_ratio:
            continue
        found = _measured(how)
        unlike = _unlike(found, pinned)
        good = good and not unlike
        print(f"{name}: {'as pinned' if not unlike else 'NOT as pinned: ' + ', '.join(unlike)}")
    print(json.dumps(found, indent=1))
    return good


if __name__ == "__main__":
    if sys.argv[1:] == ["pin"]:
        PINNED.write_text(json.dumps(_measured(Circumstances()), indent=1) + "\n", encoding="utf-8")
    elif sys.argv[1:] == ["digests"]:
        sys.exit(0 if _digests() else 1)
    else:
        sys.exit("digests or pin was wanted")
