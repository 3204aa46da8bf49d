"""Exact spread against ``numpy.var``: 1000 repeats x 10 actors x 2000 ticks x 3 axes, in one run."""

import numpy as np

from bench.tools import best_s, peak_bytes, save, show, verdict
from samepath.core.streams import stream
from samepath.instrument.analysis.exact import SpreadAccumulator, spread_of

REPEATS, COLUMNS = 1000, 10 * 2000 * 3
TIME_AIM, MEMORY_AIM = 3.0, 1.5


def main() -> bool:
    """Measure time and memory; return whether the aims were met."""
    random = stream(1, "bench", "spread")
    path = random.uniform(-150, 150, COLUMNS)
    rows, figures, good = [], {}, True
    for name, noise_m in (("1 mm of noise", 1e-3), ("identical", 0.0)):
        values = np.broadcast_to(path, (REPEATS, COLUMNS)).copy()
        if noise_m:
            values += random.normal(0, noise_m, values.shape)
        theirs, ours = _alternating(values)
        memory = (values.nbytes + peak_bytes(lambda values=values: spread_of(values))) / values.nbytes
        numpy_memory = (values.nbytes + peak_bytes(lambda values=values: np.var(values, axis=0, ddof=1))) / values.nbytes
        sigma = float(spread_of(values).sigma.max())
        numpy_sigma = float(np.sqrt(np.var(values, axis=0, ddof=1).max()))
        met = ours / theirs <= TIME_AIM and memory <= MEMORY_AIM
        good = good and met
        figures[name] = {
            "numpy_var_s": theirs,
            "samepath_s": ours,
            "time_ratio": ours / theirs,
            "peak_memory_ratio": memory,
            "numpy_peak_memory_ratio": numpy_memory,
            "max_sigma_m": sigma,
            "numpy_max_sigma_m": numpy_sigma,
        }
        ratio = f"{ours / theirs:.2f}x (aim {TIME_AIM:g}x)"
        rows.append([name, f"{theirs:.3f} s", f"{ours:.3f} s", ratio, f"{memory:.2f}x of the array (aim {MEMORY_AIM:g}x)",
                     f"{numpy_memory:.2f}x", f"{sigma:.3g}", f"{numpy_sigma:.3g}", verdict(met=met)])  # fmt: skip
    columns = ["1000 x 10 x 2000 x 3", "numpy.var", "samepath", "time", "peak memory", "numpy's", "max sigma", "numpy's", ""]
    show("exact spread against numpy.var", columns, rows)
    streamed = {repeats: peak_bytes(lambda repeats=repeats: _stream(repeats)) for repeats in (500, 5000)}
    bounded = streamed[5000] < 1.05 * streamed[500]
    show(
        "streamed, 6000 columns in blocks of 100 repeats: memory beside the block",
        ["repeats", "peak"],
        [[str(repeats), f"{size / 1e6:.1f} MB"] for repeats, size in streamed.items()],
    )
    figures["streamed_peak_bytes"] = {str(repeats): size for repeats, size in streamed.items()}
    save("spread", figures)
    return good and bounded


def _alternating(values: np.ndarray) -> tuple[float, float]:
    """Time both in turns, so that a noisy neighbour hits both alike."""
    theirs, ours = [], []
    for _ in range(7):
        theirs.append(best_s(lambda: np.var(values, axis=0, ddof=1), 1))
        ours.append(best_s(lambda: spread_of(values), 1))
    return min(theirs), min(ours)


def _stream(repeats: int) -> None:
    accumulator = SpreadAccumulator(6000)
    block = stream(1, "bench", "stream").normal(0, 1, (100, 6000))
    for _ in range(repeats // 100):
        accumulator.add(block)
    accumulator.result()
