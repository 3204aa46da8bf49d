"""Recorded commands of a cell's controllers on disk: ``commands.json`` beside its traces. Numbers come back bit for bit."""

import json
import math
from pathlib import Path
from typing import Any, Final

from samepath.base.errors import StoreError
from samepath.base.files import write_text_atomically
from samepath.simulators.interface import CommandLog

COMMANDS_FILE: Final = "commands.json"
_VERSION: Final = 1


def save_commands(folder: Path, commands: CommandLog) -> None:
    """Write commands; a value that does not apply (NaN) is null."""
    data = {
        "version": _VERSION,
        "channels": commands.channels,
        "time_s": commands.time_s,
        "actors": commands.actors,
        "values": [[None if math.isnan(value) else value for value in row] for row in commands.values],
    }
    write_text_atomically(folder / COMMANDS_FILE, json.dumps(data, separators=(",", ":")))


def load_commands(folder: Path) -> CommandLog | None:
    """Read commands back; None where none were recorded."""
    path = folder / COMMANDS_FILE
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if data["version"] != _VERSION:
            raise StoreError(f"{path}: version {data['version']}, but this samepath reads {_VERSION}")
        return CommandLog(
            tuple(data["channels"]),
            tuple(float(value) for value in data["time_s"]),
            tuple(data["actors"]),
            tuple(tuple(math.nan if value is None else float(value) for value in row) for row in data["values"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}): delete it and the cell's traces, then run the study again") from error
