"""Run every benchmark, or those named, such as ``python -m bench spread kills``; ``BENCHMARKS`` lists them."""

import sys

from bench import cameras, controls, engines, fuzz, isolation, kills, lidar, load, repeats, server, sim, spread, store

BENCHMARKS = {"spread": spread.main, "store": store.main, "controls": controls.main}
BENCHMARKS |= {"sim": sim.main, "engines": engines.main, "repeats": repeats.main, "load": load.main}
BENCHMARKS |= {"cameras": cameras.main, "lidar": lidar.main, "isolation": isolation.main, "kills": kills.main}
BENCHMARKS |= {"server": server.main, "fuzz": fuzz.main}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    failed = [name for name in chosen if not BENCHMARKS[name]()]
    sys.exit(f"aims missed in: {', '.join(failed)}" if failed else 0)
