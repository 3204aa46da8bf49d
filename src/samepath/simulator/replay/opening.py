"""Opens a recording of either kind: a run of a scenario, or what a server did for its clients."""

import json
from pathlib import Path
from typing import Final

from samepath.core.errors import InputError
from samepath.simulator.replay.container import RecordingDamagedError, is_recording, read_parts
from samepath.simulator.replay.recording import RUN, RunRecording, read_run
from samepath.simulator.replay.replay import RunReplay
from samepath.simulator.replay.timeline import Replay

SERVED: Final = "served"


def open_file(path: Path, *, sensors: bool = False) -> Replay:
    """Open a recording; whatever is none, or not whole, is refused in one line. ``sensors``: those of a server measure too."""
    # Imported when it is needed: a server's code is most of the package.
    if path.is_dir():
        from samepath.simulator.replay.served import ServedReplay, read_folder
        from samepath.simulator.server.journal_files import numbers_of

        if not any(numbers_of(path)):
            raise InputError(f"{path}: a recording, a study's folder or a server's journal was wanted, but this folder is none")
        return ServedReplay(read_folder(path), str(path), sensors=sensors)
    _, parts = read_parts(path)
    what = kind_of(path, parts.get("head", b""))
    if what == RUN:
        return RunReplay(read_run(path, parts), str(path))
    if what == SERVED:
        from samepath.simulator.replay.served import ServedReplay, read_served

        return ServedReplay(read_served(path, parts), str(path), sensors=sensors)
    raise RecordingDamagedError(f"{path}: a recording of a run or of a server was wanted, but that of {what[:40]!r} came")


def kind_of(path: Path, head: bytes) -> str:
    """Say what a recording is of."""
    try:
        return str(json.loads(head)["what"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingDamagedError(f"{path} is no recording that this samepath knows: it does not say of what") from error


def recorded_run(path: Path) -> RunRecording | None:
    """Read the recording of a run; None where the file, or the folder, is of a server."""
    if path.is_dir():
        return None
    _, parts = read_parts(path)
    return None if kind_of(path, parts.get("head", b"")) == SERVED else read_run(path, parts)


def is_served(path: Path) -> bool:
    """Is this what a server did for its clients: a recording of it, or its journal?"""
    if path.is_dir():
        from samepath.simulator.server.journal_files import numbers_of

        return any(numbers_of(path))
    return path.is_file() and is_recording(path) and kind_of(path, read_parts(path)[1].get("head", b"")) == SERVED
