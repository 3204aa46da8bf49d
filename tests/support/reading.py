"""All that samepath does with a file from elsewhere, done with many: each is read, or refused in one line.

To be called through :func:`tests.support.confined.confined`, so that a file that takes too long or too much is found as well.
Whatever else happens names the file that it happened with; ``recorder_document`` and ``table_document`` make it again.
"""

import tempfile
from contextlib import suppress
from pathlib import Path

from samepath.core.errors import InputError, SamepathError
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.traces.importers import Align, ImportOptions, load_cells
from samepath.simulator.carla.recorder import LogReplay, ReplayOptions, blocked_text, collisions_text, info_text
from samepath.simulator.carla.recorder_file import open_log
from tests.support.grammars.recorder import recorder_document
from tests.support.grammars.tables import table_document
from tests.support.serving import call, episode, ticks

LINE_MOST = 8000
TEXT_MOST = 12_000_000
LOG_BYTES = 16 << 20
_HERE = ([0.0] * 3, [0.0] * 3)


def read_recordings(seed, first, count):
    """Describe, import and play recordings; a world that was played into must go on."""
    with tempfile.TemporaryDirectory() as folder:
        path, host = Path(folder) / "run.log", episode(folder=folder)
        return _each("recording", seed, first, count, lambda number: _recording(host, path, recorder_document(seed, number)))


def read_tables(seed, first, count):
    """Import and analyse tables."""
    with tempfile.TemporaryDirectory() as folder:
        return _each("table", seed, first, count, lambda number: _table(Path(folder), *table_document(seed, number)))


def read_both(seed, first, count):
    """Some of each, in one child."""
    return {"recordings": read_recordings(seed, first, count), "tables": read_tables(seed, first, count)}


def _each(what, seed, first, count, read):
    figures = {"read": 0, "refused": 0}
    for number in range(first, first + count):
        try:
            read(number)
            figures["read"] += 1
        except SamepathError as error:
            figures["refused"] += 1
            if "\n" in str(error) or not 0 < len(str(error)) <= LINE_MOST:
                raise AssertionError(
                    f"{what} {number} of seed {seed}: one line was wanted, but {str(error)[:300]!r} came"
                ) from error
        except Exception as error:
            raise AssertionError(f"{what} {number} of seed {seed}: {type(error).__name__}: {error}") from error
    return figures


def _recording(host, path, data):
    path.write_bytes(data)
    _play(host, path.name)
    log = open_log(path)
    for text in (
        info_text(log, everything=False),
        info_text(log, everything=True),
        collisions_text(log, "a", "a"),
        blocked_text(log, 0.0, 100.0),
    ):
        assert len(text) < TEXT_MOST, f"a text of {len(text)} characters"
    replay = LogReplay(log, ReplayOptions(start_s=-0.2, replay_sensors=True))
    replay.begin()
    for step_s in (0.0, 0.05, 0.3):
        replay.advance(step_s)
    for cell in load_cells([path, path], ImportOptions(align=Align.ROW, memory_bytes=LOG_BYTES), "carla-recorder"):
        analyse_cell(cell)


def _play(host, name):
    with suppress(InputError):
        call(host, "replay_file", name, 0.0, 0.0, 24, False, _HERE)
    host.settings = host.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
    ticks(host, 3)
    call(host, "stop_replayer", False)
    ticks(host, 1)


def _table(folder, suffix, data):
    path = folder / f"log.{suffix}"
    path.write_bytes(data)
    align = (Align.TIME, Align.START, Align.ROW)[len(data) % 3]
    for cell in load_cells([path], ImportOptions(align=align, memory_bytes=LOG_BYTES)):
        analyse_cell(cell)
