"""The trace store: size, writing and reading of 1000 repeats, and of the spread benchmark's array."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.tools import best_s, save, show
from samepath.core.channels import ACCELERATION, ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.streams import stream
from samepath.instrument.analysis.spread import measure
from samepath.instrument.traces.records import Actor, Header, Repeat, RunEnd, row_digests
from samepath.instrument.traces.store import StoredCell, store_repeats

STATE = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, *ACCELERATION)


def main() -> bool:
    """Measure; there is no aim but «tens of MB in a handful of files»."""
    rows, figures, good = [], {}, True
    for name, repeats, ticks, actors, channels, noise_m in (
        ("20 s every 0.1 s, 3 actors, 15 channels, identical", 1000, 200, 3, STATE, 0.0),
        ("the same, every number different", 1000, 200, 3, STATE, 1e-3),
        ("20 s every 0.05 s, 10 actors x 2000 ticks, 3 axes, different", 1000, 2000, 10, POSITION, 1e-3),
    ):
        with tempfile.TemporaryDirectory() as folder:
            header = Header("bench", name, "none", channels, 0.1)
            path = Path(folder) / "cell"
            source = _repeats(repeats, ticks, actors, channels, noise_m)
            write_s = best_s(partial(store_repeats, path, header, source), 1)
            files = [file for file in path.rglob("*") if file.is_file() and file.name != ".lock"]
            size = sum(file.stat().st_size for file in files)
            cell = StoredCell(path)
            read_s = best_s(partial(_read, cell), 1)
            analyse_s = best_s(partial(measure, cell), 1)
            sigma = float(np.nanmax(measure(cell).worst_axis("sigma")))
        raw = repeats * ticks * actors * len(channels) * 8
        # The aim is stated for 1000 repeats of 20 s with 3 actors.
        good = good and len(files) < 10 and (actors > 3 or size < 100e6)
        figures[name] = {"bytes": size, "raw_bytes": raw, "files": len(files), "write_s": write_s, "read_positions_s": read_s,
                         "read_and_measure_s": analyse_s, "max_sigma_m": sigma}  # fmt: skip
        sizes = [f"{raw / 1e6:.0f} MB", f"{size / 1e6:.1f} MB", str(len(files))]
        rows.append([name, *sizes, f"{write_s:.1f} s", f"{read_s:.2f} s", f"{analyse_s:.2f} s"])
    columns = ["1000 repeats", "raw numbers", "stored", "files", "digest and write", "read x, y, z", "read and measure all"]
    show("trace store", columns, rows)
    save("store", figures)
    return good


def _read(cell: StoredCell) -> None:
    for _ in cell.blocks(POSITION):
        pass


def _repeats(repeats: int, ticks: int, actors: int, channels: tuple[str, ...], noise_m: float) -> Iterator[Repeat]:
    random = stream(1, "bench", "store")
    ids = tuple(Actor(number, "car") for number in range(1, actors + 1))
    tick = np.repeat(np.arange(ticks), actors)
    actor = np.tile(np.arange(1, actors + 1), ticks)
    base = random.uniform(-150, 150, (ticks * actors, len(channels)))
    same = Repeat(0, ids, channels, tick, actor, tick * 0.1, base, (), RunEnd(ticks, "done"),
                  row_digests(ids, channels, tick, actor, tick * 0.1, base))  # fmt: skip
    for number in range(repeats):
        if not noise_m:
            yield replace(same, repeat=number)
            continue
        values = base + random.normal(0, noise_m, base.shape)
        yield replace(same, repeat=number, values=values, digests=row_digests(ids, channels, tick, actor, same.time_s, values))
