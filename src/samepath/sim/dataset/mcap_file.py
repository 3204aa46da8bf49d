"""A dataset as one MCAP file, made of the frames of its folder: JSON messages, times of the simulation, no clock.

The library writes records in the order in which they come, so equal frames are equal files.
"""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from samepath import __version__
from samepath.base.errors import InputError
from samepath.base.files import write_atomically
from samepath.sim.dataset.files import FrameFolder
from samepath.sim.dataset.foxglove import messages_of
from samepath.sim.dataset.mcap_schemas import SCHEMAS

if TYPE_CHECKING:
    from mcap.writer import Writer

FILE: Final = "dataset.mcap"


def require_mcap() -> None:
    """Say in one line what is missing, before anything is recorded."""
    if find_spec("mcap") is None:
        raise InputError("--format mcap needs the library mcap, which is not installed: pip install 'samepath[mcap]'")


def write_mcap(path: Path, header: bytes, frames: FrameFolder, ticks: Sequence[int]) -> None:
    """Write the frames of some ticks, and ``header``, the dataset's own description, as an attachment; whole or not at all."""

    def write(partial: Path) -> None:
        from mcap.writer import Writer

        with partial.open("wb") as stream:
            writer = Writer(stream)
            writer.start(profile="", library=f"samepath {__version__}")
            writer.add_attachment(0, 0, "dataset.json", "application/json", header)
            _write_frames(writer, json.loads(header)["labels"], frames, ticks)
            writer.finish()  # type: ignore[no-untyped-call]

    write_atomically(path, write)


def _write_frames(writer: "Writer", names: dict[str, str], frames: FrameFolder, ticks: Sequence[int]) -> None:
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    for tick in ticks:
        labels = frames.read_labels(tick)
        time_ns = round(labels["time_s"] * 1e9)
        for topic, schema, content in messages_of(labels, names, lambda name, tick=tick: frames.read(tick, name)):  # type: ignore[misc]
            if schema not in schemas:
                schemas[schema] = writer.register_schema(schema, "jsonschema", _json(SCHEMAS[schema]))
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, "json", schemas[schema])
            writer.add_message(channels[topic], time_ns, _json(content), time_ns, tick)


def _json(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
