"""A recorded run: what it was set up with, all that went into it by step, and what came of it as digests.

The setup holds the whole scenario and rig, so that neither file is needed; of the map only the digest, and a map that is
another is refused. What came of the run is a digest of the world after every step, chained over its whole history, and of every
frame that a sensor measured: a replay compares each, and stops at the first that differs.

The scenario's own drivers are recorded too, although they could be asked again: a replay then needs nobody, and a fork can go
on with what everybody did.
"""

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from samepath.core.digests import LINK_BYTES, link
from samepath.core.errors import InputError, SamepathError
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.scenarios.model import ScenarioSpec, build_scenario
from samepath.simulator.maps import load_map
from samepath.simulator.replay.container import RecordingDamagedError, read_parts, write_parts
from samepath.simulator.run_setup import RunSetup

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


_encoder: Final = msgspec.msgpack.Encoder()
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
