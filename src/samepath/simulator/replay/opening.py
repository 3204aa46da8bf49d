"""Opens a recording of either kind: a run of a scenario, or what a server did for its clients."""

import json
from pathlib import Path

from samepath.core.errors import InputError
from samepath.simulator.replay.container import RecordingDamagedError, read_parts
from samepath.simulator.replay.recording import RUN, read_run
from samepath.simulator.replay.replay import RunReplay
from samepath.simulator.replay.timeline import Replay


def open_file(path: Path) -> Replay:
    """Open a recording; whatever is none, or not whole, is refused in one line."""
    if path.is_dir():
        raise InputError(f"{path}: the file of a recording or a study's folder was wanted, but this folder is neither")
    _, parts = read_parts(path)
    what = kind_of(path, parts.get("head", b""))
    if what == RUN:
        return RunReplay(read_run(path, parts), str(path))
    raise InputError(f"{path}: the recording of a run was wanted, but that of {what!r} came")


def kind_of(path: Path, head: bytes) -> str:
    """Say what a recording is of."""
    try:
        return str(json.loads(head)["what"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingDamagedError(f"{path} is no recording that this samepath knows: it does not say of what") from error
