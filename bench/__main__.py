"""Run every benchmark, or those named, such as ``python -m bench spread kills``; ``BENCHMARKS`` lists them.

Each is a module with a ``main`` that returns whether its aims were met; only those that run are imported. Figures belong to a
commit: a tree with changes that no commit holds is refused, unless ``--dirty`` says that it is known; the results then say so.
"""

import json
import sys
from importlib import import_module

from bench.tools import code_measured

BENCHMARKS = ("spread", "store", "controls", "sim", "engines", "repeats", "load", "cameras", "lidar", "isolation", "kills")
BENCHMARKS += ("server", "calls", "fuzz", "sensors", "opengl", "deadlock", "link", "cluster", "faults", "engine_overhead")
BENCHMARKS += ("growing", "coverage", "far", "report", "age")
BENCHMARKS += ("explain", "causes", "replays", "compression", "interest", "unequal", "hosts", "proxy", "view", "view_live")
BENCHMARKS += ("vru", "serve_kills", "hostile")
# Take an hour or more, or a package index: only when they are named.
WHEN_NAMED = ("standstill", "soak", "consistency", "traffic", "release", "stranger", "script_causes")
# Take options of their own (see --help) and up to an hour; only when they are named, and alone.
ALONE = {"thesis": "bench.thesis.command", "cluster-simulation": "bench.cluster_simulation", "tables": "bench.tables"}
ALONE |= {
    "scale": "bench.scale",
    "gpu": "bench.gpu",
    "gpu-load": "bench.gpu_load",
    "studies": "bench.studies",
    "perception": "bench.perception",
}


def main(arguments: list[str]) -> int | str:
    """Run what is asked for; return what the process exits with."""
    if arguments == ["--code"]:
        print(json.dumps(code_measured(), indent=1))
        return 0
    if arguments and arguments[0] in ALONE:
        return 0 if import_module(ALONE[arguments[0]]).main(arguments[1:]) else 1
    chosen = [name for name in arguments if name != "--dirty"] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in (*BENCHMARKS, *WHEN_NAMED)]
    if unknown:
        return f"unknown benchmark {unknown[0]!r}; known: {', '.join((*BENCHMARKS, *WHEN_NAMED, *ALONE))}"
    code = code_measured()
    if not code["clean"] and "--dirty" not in arguments:
        what = (
            f"{len(code['changed'])} changes are in no commit" if code["commit"] else "no commit is known (set SAMEPATH_COMMIT)"
        )
        return f"figures belong to a commit, but {what}: commit them, or measure all the same with --dirty"
    failed = [name for name in chosen if not import_module(f"bench.{name}").main()]
    return f"aims missed in: {', '.join(failed)}" if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("bench: interrupted; what keeps its results goes on when it is started again", file=sys.stderr)
        sys.exit(130)
