r"""A recorded run: what it was set up with, all that went into it by step, and what came of it as digests.

The setup holds the whole scenario and rig, so that neither file is needed; of the map only the digest, and a map that is
another is refused. What came of the run is a digest of the world after every step, chained over its whole history, and of every
frame that a sensor measured: a replay compares each, and stops at the first that differs.

The scenario's own drivers are recorded too, although they could be asked again: a replay then needs nobody, and a fork can go
on with what everybody did.

The file that a recording is: named parts behind a table that says of each how long it is and what its bytes are called.

::

    samepath recording 1\n           the format, for people and programs
    table length, table             one row per part: name, length, length when unpacked, digest; msgpack
    digest of all of the above      which names the whole recording: the table has the digests of the parts
    parts                           back to back, each packed by zlib

A reader looks at the first line, then at the table and its digest, then at the size of the file, then at each part's digest,
and unpacks last. So a file of somebody else's, of a newer format, one that is cut short and one in which a bit has turned are
told apart, in this order, and nothing of any of them is used. Every length has a bound, also that of what is unpacked.
"""

import importlib.metadata
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from samepath.core.digests import LINK_BYTES, link
from samepath.core.errors import InputError, SamepathError, printable
from samepath.core.files import regular, write_bytes_atomically
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.scenarios.model import ScenarioSpec, build_scenario
from samepath.simulator.maps import load_map
from samepath.simulator.run_setup import RunSetup

FORMAT: Final = 1
_WORDS: Final = b"samepath recording "
_TABLE_MOST: Final = 1 << 20
_FILE_MOST: Final = 1 << 32
# What one part may be when it is unpacked: 5 million inputs, or an hour of a served town, take a tenth of it.
_PART_MOST: Final = 1 << 31
_LENGTH_BYTES: Final = 4
SUFFIX: Final = ".recording"


class _Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: str
    size: int
    unpacked: int
    digest: bytes


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[_Row])


class RecordingDamagedError(InputError):
    """A file that was a recording once, or part of one."""


def is_recording(path: Path) -> bool:
    """Does a file begin as a recording does, of any format?"""
    try:
        with regular(path).open("rb") as file:
            return file.read(len(_WORDS)) == _WORDS
    except OSError:
        return False


def write_parts(path: Path, parts: Mapping[str, bytes]) -> str:
    """Write a recording, whole or not at all; return its name: 32 hex digits over every bit of it."""
    packed = {name: zlib.compress(content, 6) for name, content in parts.items()}
    rows = [_Row(name, len(data), len(parts[name]), link(b"", data)) for name, data in packed.items()]
    head = _head(_encoder.encode(rows))
    write_bytes_atomically(path, b"".join([head, link(b"", head), *packed.values()]))
    return link(b"", head).hex()


def _head(table: bytes) -> bytes:
    return _WORDS + f"{FORMAT}\n".encode() + len(table).to_bytes(_LENGTH_BYTES, "little") + table


def read_parts(path: Path) -> tuple[str, dict[str, bytes]]:
    """Read a recording; return its name and its parts. Whatever is not whole is refused in one line."""
    try:
        size = regular(path).stat().st_size
        if size > _FILE_MOST:
            raise InputError(f"{path}: a recording of at most {_FILE_MOST >> 20} MiB was wanted, but {size >> 20} MiB came")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    start = _after_first_line(path, data)
    length = int.from_bytes(data[start : start + _LENGTH_BYTES], "little")
    end = start + _LENGTH_BYTES + length
    if length > _TABLE_MOST or len(data) < end + LINK_BYTES:
        raise _cut(path, f"its table ends at byte {end + LINK_BYTES}, but there are {len(data)}")
    name = link(b"", data[:end])
    if data[end : end + LINK_BYTES] != name:
        raise RecordingDamagedError(f"{path} is damaged: its table is not the one that was written; restore the file")
    rows = _rows(path, data[start + _LENGTH_BYTES : end])
    at = end + LINK_BYTES
    wanted = at + sum(row.size for row in rows)
    if wanted != len(data):
        raise _cut(path, f"{wanted} bytes were wanted, but {len(data)} came")
    parts: dict[str, bytes] = {}
    for row in rows:
        parts[row.name] = _part(path, row, data[at : at + row.size])
        at += row.size
    return name.hex(), parts


def _after_first_line(path: Path, data: bytes) -> int:
    line, newline, _ = data[:64].partition(b"\n")
    # A file that ends within the first line has too little to be anything.
    if not line.startswith(_WORDS):
        came = printable(line[:20].decode("utf-8", "replace"))
        raise InputError(f"{path}: a recording of samepath was wanted, but the file begins with {came!r}")
    number = line[len(_WORDS) :]
    if not newline or not number.isdigit():
        raise _cut(path, "it ends within its first line") if not newline else _foreign(path)
    if int(number) != FORMAT:
        hint = "a newer samepath wrote it: update" if int(number) > FORMAT else "an older samepath wrote it: use that one"
        raise InputError(f"{path}: a recording of format {FORMAT} was wanted, but format {int(number)} came; {hint}")
    return len(line) + 1


def _foreign(path: Path) -> InputError:
    return InputError(f"{path}: a recording of samepath was wanted, but its first line names no format")


def _cut(path: Path, why: str) -> RecordingDamagedError:
    return RecordingDamagedError(f"{path} is cut short or damaged ({why}): restore the file, or record the run again")


def _rows(path: Path, table: bytes) -> list[_Row]:
    try:
        rows = _decoder.decode(table)
    except msgspec.MsgspecError as error:
        raise RecordingDamagedError(f"{path} is damaged: its table cannot be read ({error})") from error
    if len({row.name for row in rows}) != len(rows) or any(not 0 <= row.unpacked <= _PART_MOST or row.size < 0 for row in rows):
        raise RecordingDamagedError(f"{path} is damaged: its table names parts that cannot be")
    return rows


def _part(path: Path, row: _Row, packed: bytes) -> bytes:
    if link(b"", packed) != row.digest:
        raise RecordingDamagedError(f"{path} is damaged: part {row.name!r} is not the one that was written; restore the file")
    unpacker = zlib.decompressobj()
    try:
        # One byte more than it may be: a part that says it is small and is not never fills the memory.
        content = unpacker.decompress(packed, row.unpacked + 1)
    except zlib.error as error:
        raise RecordingDamagedError(f"{path} is damaged: part {row.name!r} cannot be unpacked") from error
    if len(content) != row.unpacked or not unpacker.eof:
        raise RecordingDamagedError(f"{path} is damaged: part {row.name!r} is not as long as it says")
    return content


RUN: Final = "run"
# What computes: where bits differ from those recorded, this is the first thing to look at.
_LIBRARIES: Final = ("samepath", "rapier3d", "numpy")
INPUTS_MOST: Final = 5_000_000

Scalar = str | float | int | bool


class _InputRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    step: int
    kind: str
    name: int  # of the table of names: a command's is long, and there are few
    actor: int | None
    values: tuple[float, ...]
    text: str
    decided_step: int | None


class _Inputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    step_s: float | None
    covers: list[str]
    names: list[str]
    rows: list[_InputRow]


class SensorDigest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a sensor measured at a tick of the trace, by its name."""

    tick: int
    sensor: str
    digest: bytes


_inputs_decoder: Final = msgspec.msgpack.Decoder(_Inputs)
_sensors_decoder: Final = msgspec.msgpack.Decoder(list[SensorDigest])


@dataclass(frozen=True)
class RunRecording:
    """See the top of this module. ``values`` are all settings of the simulator, as a study has them.

    ``digests`` are those of the world after each step, 16 bytes each. ``trace_digest`` names the run's trace, which has every
    ``log_every``-th tick, without what it says of the host; ``rig`` is the text of the rig that rode along. ``origin`` says
    where it comes from, for people. ``made_by`` are the versions of what computed.
    """

    simulator: str
    scenario: ScenarioSpec
    values: Mapping[str, Scalar]
    seed: int
    duration_s: float | None
    flip_ticks: int
    inputs: InputLog
    digests: bytes
    ended: str
    map_digest: str
    log_every: int = 1
    trace_digest: str = ""
    rig: str = ""
    sensors: tuple[SensorDigest, ...] = ()
    origin: str = ""
    made_by: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def setup(self) -> RunSetup:
        """What the run was set up with; every setting is checked as a study's is."""
        return RunSetup.of_values(self.scenario, self.values, self.seed, self.duration_s, self.flip_ticks)

    @property
    def steps(self) -> int:
        """How many steps the run had."""
        return len(self.digests) // LINK_BYTES

    def digest_after(self, steps: int) -> bytes:
        """The digest of the world after so many steps, of at least one."""
        return self.digests[(steps - 1) * LINK_BYTES : steps * LINK_BYTES]

    def write(self, path: Path) -> str:
        """Write the recording to a file, whole or not at all; return its name."""
        return write_parts(
            path,
            {
                "head": json.dumps(self._head(), allow_nan=False).encode(),
                "inputs": _packed_inputs(self.inputs),
                "digests": self.digests,
                "sensors": _encoder.encode(list(self.sensors)),
            },
        )

    def _head(self) -> dict[str, Any]:
        return {
            "what": RUN,
            "simulator": self.simulator,
            "scenario": self.scenario.model_dump(mode="json"),
            "values": dict(self.values),
            "seed": self.seed,
            "duration_s": self.duration_s,
            "flip_ticks": self.flip_ticks,
            "ended": self.ended,
            "map_digest": self.map_digest,
            "log_every": self.log_every,
            "trace_digest": self.trace_digest,
            "rig": self.rig,
            "origin": self.origin,
            "made_by": dict(self.made_by),
        }

    def check_map(self) -> None:
        """Refuse to play on a map that is another than the one that was recorded on."""
        here = map_digest(self.scenario.map)
        if here != self.map_digest:
            raise InputError(
                f"the recording was made on another map {self.scenario.map!r} ({self.map_digest[:8]}, here {here[:8]}): "
                "give the file that it was made on"
            )


def read_run(path: Path, parts: Mapping[str, bytes] | None = None) -> RunRecording:
    """Read the recording of a run."""
    if parts is None:
        _, parts = read_parts(path)
    try:
        head = json.loads(parts["head"])
        if head["what"] != RUN:
            raise InputError(f"{path}: the recording of a run was wanted, but that of {head['what']!r} came")
        digests = parts["digests"]
        if len(digests) % LINK_BYTES:
            raise RecordingDamagedError(f"{path} is damaged: {len(digests)} bytes are no whole digests")
        recording = RunRecording(
            simulator=head["simulator"],
            scenario=build_scenario(head["scenario"], "scenario"),
            values=head["values"],
            seed=int(head["seed"]),
            duration_s=head["duration_s"],
            flip_ticks=int(head["flip_ticks"]),
            inputs=_unpacked_inputs(parts["inputs"]),
            digests=digests,
            ended=head["ended"],
            map_digest=head["map_digest"],
            log_every=max(1, int(head["log_every"])),
            trace_digest=head["trace_digest"],
            rig=head["rig"],
            sensors=tuple(_sensors_decoder.decode(parts["sensors"])),
            origin=head["origin"],
            made_by=head["made_by"],
        )
        # Now, not when it is first played: a setting that cannot be is the file's fault.
        if not recording.steps or recording.setup is None:
            raise RecordingDamagedError("a run of at least one step was wanted, but none came")
    except SamepathError as error:
        raise type(error)(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error
    except (KeyError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise RecordingDamagedError(
            f"{path} is no recording that this samepath knows ({error!r}): record the run again"
        ) from error
    return recording


def versions() -> dict[str, str]:
    """The versions of what computes here."""
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}


def made_with(then: Mapping[str, str]) -> str:
    """Say with which other versions something was made, for the end of a sentence; nothing where they are those of here."""
    other = [f"{name} {then.get(name, 'unknown')}, here {here}" for name, here in versions().items() if then.get(name) != here]
    return f"; it was made with {', '.join(other)}" if other else ""


def map_digest(name: str) -> str:
    """Name a map by its OpenDRIVE; the flat ground has none."""
    return "" if name == "flat" else link(b"map", load_map(name).xodr.encode()).hex()


def _packed_inputs(log: InputLog) -> bytes:
    names: dict[str, int] = {}
    rows = [
        _InputRow(e.step, str(e.kind), names.setdefault(e.name, len(names)), e.actor, e.values, e.text, e.decided_step)
        for e in log
    ]
    return _encoder.encode(_Inputs(log.step_s, sorted(log.covers), list(names), rows))


def _unpacked_inputs(packed: bytes) -> InputLog:
    found = _inputs_decoder.decode(packed)
    if len(found.rows) > INPUTS_MOST:
        raise InputError(f"at most {INPUTS_MOST} inputs were wanted, but {len(found.rows)} came")
    kinds = {str(kind): kind for kind in InputKind}
    log = InputLog(covers=frozenset(InputKind(kind) for kind in found.covers), step_s=found.step_s)
    for row in found.rows:
        if row.kind not in kinds or not 0 <= row.name < len(found.names):
            raise InputError(f"an input of a known kind was wanted at step {row.step}, but {row.kind!r} came")
        name = found.names[row.name]
        log.add(Input(row.step, kinds[row.kind], name, row.actor, row.values, row.text, row.decided_step))
    return log
