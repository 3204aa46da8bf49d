"""``samepath export``: the repeats of a cell on one timeline, for other people's viewers and tables.

``csv`` is a table that :func:`samepath.load` reads back to the same bits. ``mcap`` (for Foxglove and others) and ``rerun`` hold
every repeat as scenes of boxes; their viewers want right-handed axes, so y changes its sign there: x forward, y left, z up. All
three have the simulation's times and no clock: equal traces give equal files, except that Rerun's own library stamps its file.
"""

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath import __version__
from samepath.core.errors import InputError, unknown
from samepath.core.files import write_atomically
from samepath.instrument.explaining import cells_of, only_cell
from samepath.instrument.traces.cell import CellTrace
from samepath.instrument.traces.records import EventKind, Repeat
from samepath.instrument.viewer.scene import Shape, shape_of

Floats = NDArray[np.float64]
PathLike = str | os.PathLike[str]

SUFFIXES: Final = {"csv": ".csv", "mcap": ".mcap", "rerun": ".rrd"}
_EXTRAS: Final = ("mcap", "rerun")
# Rows of all repeats together: a viewer that is to hold them all at once takes no more, and a table of them is 5 GB.
ROWS_MOST: Final = 20_000_000
_PALETTE: Final = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (230, 159, 0))
_SCENE: Final = "foxglove.SceneUpdate"
_LOG: Final = "foxglove.Log"
_INFO: Final = 2


def export(path: PathLike, out: PathLike, *, to: str, cell: str | None = None, repeats: Sequence[int] | None = None) -> Path:
    r"""Write the repeats of a cell, or some of them, into one file: ``csv``, ``mcap`` or ``rerun``.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    >>> export("log.csv", "again.csv", to="csv").name
    'again.csv'
    """
    if to not in SUFFIXES:
        raise unknown("format", to, SUFFIXES)
    if to in _EXTRAS and find_spec(to) is None:
        raise InputError(f"--to {to} needs a library that is not installed: pip install 'samepath[{to}]'")
    found, place = only_cell(cells_of(path, cell), path), Path(out)
    if place.suffix != SUFFIXES[to]:
        raise InputError(f"--out: a name that ends in {SUFFIXES[to]} was wanted for {to}, but {place} came")
    known = [run.repeat for run in found.runs]
    chosen = known if repeats is None else [number for number in known if number in repeats]
    if not chosen:
        raise InputError(f"--repeats: cell {found.header.cell!r} has none of the repeats that were asked for")
    rows = sum(run.rows for run in found.runs if run.repeat in set(chosen))
    if rows > ROWS_MOST:
        raise InputError(f"{rows} rows are too many for one file, {ROWS_MOST} are the most: choose repeats with --repeats")
    write: dict[str, Callable[[CellTrace, Sequence[int], Path], None]] = {
        "csv": _write_csv,
        "mcap": _write_mcap,
        "rerun": _write_rerun,
    }
    write_atomically(place, lambda partial: write[to](found, chosen, partial))
    return place


def _write_csv(cell: CellTrace, repeats: Sequence[int], path: Path) -> None:
    """One row for a repeat, tick and actor; numbers in the fewest digits that read back to the same bits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["repeat", "tick", "time_s", "actor", "actor_type", *cell.header.channels])
        for number in repeats:
            run = cell.load(number)
            types = {actor.id: actor.type for actor in run.actors}
            for tick, actor, time_s, values in zip(
                run.tick.tolist(), run.actor.tolist(), run.time_s.tolist(), run.values, strict=True
            ):
                numbers = ["" if math.isnan(value) else repr(value) for value in values.tolist()]
                table.writerow([number, tick, repr(time_s), actor, types[actor], *numbers])


def _write_mcap(cell: CellTrace, repeats: Sequence[int], path: Path) -> None:
    """A topic with the scenes of each repeat, and one with its events, at the simulation's times."""
    from mcap.writer import Writer

    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start(profile="", library=f"samepath {__version__}")
        schemas = {name: writer.register_schema(name, "jsonschema", _json(SCHEMAS[name])) for name in (_SCENE, _LOG)}
        for order, number in enumerate(repeats):
            run = cell.load(number)
            scenes = writer.register_channel(f"/repeat_{number}/actors", "json", schemas[_SCENE])
            said = writer.register_channel(f"/repeat_{number}/events", "json", schemas[_LOG])
            for tick, scene in _scenes(cell, run, _PALETTE[order % len(_PALETTE)]):
                at_ns = _ns(cell, tick)
                writer.add_message(scenes, at_ns, _json(scene), at_ns, tick)
            for event in run.events:
                at_ns = _ns(cell, event.tick)
                words = f"{event.kind} actor {event.actor}" + ("" if event.other is None else f" and {event.other}")
                content = {"timestamp": _stamp(at_ns), "level": _INFO, "message": f"{words} {event.detail}".strip()}
                writer.add_message(said, at_ns, _json({**content, "name": f"repeat {number}", "file": "", "line": 0}), at_ns)
        writer.finish()  # type: ignore[no-untyped-call]


def _scenes(cell: CellTrace, run: Repeat, colour: tuple[int, int, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    shapes = {actor.id: shape_of(actor.type) for actor in run.actors}
    types = {actor.id: actor.type for actor in run.actors}
    poses = _poses(cell, run)
    starts = np.flatnonzero(np.diff(run.tick, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(run.tick)], strict=True):
        tick = int(run.tick[start])
        stamp = _stamp(_ns(cell, tick))
        entities = []
        for row in range(start, end):
            actor = int(run.actor[row])
            size = shapes[actor]
            x, y, z, heading_rad = poses[row].tolist()
            box = {
                "pose": {
                    "position": {"x": x, "y": y, "z": z},
                    "orientation": {"x": 0.0, "y": 0.0, "z": math.sin(heading_rad / 2), "w": math.cos(heading_rad / 2)},
                },
                "size": {"x": size.length_m, "y": size.width_m, "z": size.height_m},
                "color": {"r": colour[0] / 255, "g": colour[1] / 255, "b": colour[2] / 255, "a": 0.6},
            }
            entities.append(
                {
                    "timestamp": stamp,
                    "frame_id": "world",
                    "id": f"repeat {run.repeat} actor {actor}",
                    # Until the next scene of this repeat: who is gone is not there.
                    "lifetime": {"sec": 0, "nsec": 0},
                    "frame_locked": False,
                    "metadata": [{"key": "type", "value": types[actor]}],
                    "cubes": [box],
                }
            )
        gone = [{"timestamp": stamp, "type": 1, "id": ""}]
        yield tick, {"deletions": gone, "entities": entities}


def _write_rerun(cell: CellTrace, repeats: Sequence[int], path: Path) -> None:
    """An entity for each actor of each repeat, on the timelines ``tick`` and ``time``."""
    import rerun as rr

    # Of the cell's own content: a name by chance would make every export another recording.
    recording = rr.RecordingStream("samepath", recording_id=f"{cell.header.experiment}/{cell.header.cell}")
    recording.save(str(path))
    recording.log("/", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    for order, number in enumerate(repeats):
        run = cell.load(number)
        poses = _poses(cell, run)
        for actor in run.actors:
            rows = np.flatnonzero(run.actor == actor.id)
            if not rows.size:
                continue
            entity, size = f"/repeat_{number}/actor_{actor.id}", shape_of(actor.type)
            colour, half = _PALETTE[order % len(_PALETTE)], _half(size)
            recording.log(entity, rr.Boxes3D(half_sizes=[half], colors=[colour], labels=[actor.type]), static=True)
            place = poses[rows]
            turned = np.zeros((len(rows), 4))
            turned[:, 2], turned[:, 3] = np.sin(place[:, 3] / 2), np.cos(place[:, 3] / 2)
            indexes = [
                rr.TimeColumn("tick", sequence=run.tick[rows]),
                rr.TimeColumn("time", duration=run.tick[rows] * cell.header.step_s),
            ]
            recording.send_columns(entity, indexes, rr.Transform3D.columns(translation=place[:, :3], quaternion=turned))
        for event in run.events:
            if event.kind != EventKind.SPAWN:
                recording.set_time("tick", sequence=event.tick)
                recording.set_time("time", duration=event.tick * cell.header.step_s)
                recording.log(f"/repeat_{number}/events", rr.TextLog(f"{event.kind} {event.actor} {event.detail}".strip()))
    recording.flush()
    recording.disconnect()


def _poses(cell: CellTrace, run: Repeat) -> Floats:
    """Middle of each row's box in right-handed axes, and its heading in radians, anticlockwise."""
    at = {name: index for index, name in enumerate(cell.header.channels)}

    def channel(name: str) -> Floats:
        return np.nan_to_num(run.values[:, at[name]]) if name in at else np.zeros(len(run.tick))

    lift = {actor.id: shape_of(actor.type).height_m / 2 - shape_of(actor.type).below_m for actor in run.actors}
    up = np.array([lift[actor] for actor in run.actor.tolist()])
    heading = -np.radians(channel("yaw_deg"))
    return np.stack([channel("x_m"), -channel("y_m"), channel("z_m") + up, heading], axis=-1)


def _half(shape: Shape) -> list[float]:
    return [shape.length_m / 2, shape.width_m / 2, shape.height_m / 2]


def _ns(cell: CellTrace, tick: int) -> int:
    return round(tick * cell.header.step_s * 1e9)


def _stamp(at_ns: int) -> dict[str, int]:
    return {"sec": at_ns // 10**9, "nsec": at_ns % 10**9}


def _json(data: object) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def _object(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


_NUMBER: Final = {"type": "number"}
_WORD: Final = {"type": "string"}
_TIME: Final = _object(sec={"type": "integer"}, nsec={"type": "integer"})
_XYZ: Final = _object(x=_NUMBER, y=_NUMBER, z=_NUMBER)
_CUBE: Final = _object(
    pose=_object(position=_XYZ, orientation=_object(x=_NUMBER, y=_NUMBER, z=_NUMBER, w=_NUMBER)),
    size=_XYZ,
    color=_object(r=_NUMBER, g=_NUMBER, b=_NUMBER, a=_NUMBER),
)
_ENTITY: Final = _object(
    timestamp=_TIME,
    frame_id=_WORD,
    id=_WORD,
    lifetime=_TIME,
    frame_locked={"type": "boolean"},
    metadata={"type": "array", "items": _object(key=_WORD, value=_WORD)},
    cubes={"type": "array", "items": _CUBE},
)
_DELETION: Final = _object(timestamp=_TIME, type={"type": "integer"}, id=_WORD)
# The parts of Foxglove's JSON schemas that are used, under its names.
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    _SCENE: _object(deletions={"type": "array", "items": _DELETION}, entities={"type": "array", "items": _ENTITY}),
    _LOG: _object(timestamp=_TIME, level={"type": "integer"}, message=_WORD, name=_WORD, file=_WORD, line={"type": "integer"}),
}
