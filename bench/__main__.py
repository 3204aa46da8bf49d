"""Run every benchmark, or those named, such as ``python -m bench spread kills``; ``BENCHMARKS`` lists them.

Each is a module with a ``main`` that returns whether its aims were met; only those that run are imported.
"""

import sys
from importlib import import_module

BENCHMARKS = ("spread", "store", "controls", "sim", "engines", "repeats", "load", "cameras", "lidar", "isolation", "kills")
BENCHMARKS += ("server", "fuzz", "sensors", "opengl", "deadlock", "link", "cluster", "faults", "engine_overhead")

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    failed = [name for name in chosen if not import_module(f"bench.{name}").main()]
    sys.exit(f"aims missed in: {', '.join(failed)}" if failed else 0)
