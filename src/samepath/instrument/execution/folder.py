"""A study's folder on disk: enough to go on with the study, to analyse it again, and to know how it came about.

study.json       the whole plan, its fingerprint, provenance, commands, cells that are not applicable here, rehearsal, hosts
journal.jsonl    what happened when (:class:`Journal`)
cells/NAME/      one trace store per cell (see ``samepath.instrument.traces.store``); commands.json where commands are replayed
report.html, report.json, junit.xml
.lock            held by the samepath that works here

Files that are replaced are written beside their place and renamed, so that a reader finds the old one or the new one. The
journal is only ever added to. Neither says what is finished: the trace stores alone do, so the two can never disagree.
"""

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import StoreError, StudyError
from samepath.core.files import make_folder, regular, write_text_atomically
from samepath.engines.interface import CommandLog
from samepath.instrument.execution.rehearsal import Rehearsal
from samepath.instrument.study.records import Plan, PlannedCell
from samepath.instrument.traces.store import StoredCell, stored_repeats

STUDY_FILE: Final = "study.json"
LOCK_FILE: Final = ".lock"
_VERSION: Final = 2
JOURNAL_FILE: Final = "journal.jsonl"
COMMANDS_FILE: Final = "commands.json"
_COMMANDS_VERSION: Final = 1
NOT_APPLICABLE: Final = "not applicable"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"

HostFacts = Mapping[str, object]
"""The provenance that a host gave of itself."""

# What may change results or times, and where it stands in a host's provenance.
_TOLD: Final[Mapping[str, tuple[str, ...]]] = {
    "CPU": ("cpu", "model"),
    "cores": ("cpu", "cores_usable"),
    "instruction sets": ("cpu", "float_flags"),
    "GPUs": ("gpus",),
    "operating system": ("operating_system", "name"),
    "kernel": ("operating_system", "kernel"),
    "C library": ("operating_system", "libc"),
    "virtualisation": ("virtualisation",),
    "Python": ("python", "version"),
    "libraries": ("libraries",),
    "environment": ("environment",),
    "samepath": ("samepath",),
}


@dataclass(frozen=True)
class StudyRecord:
    """What is known of a study beside its traces. ``command`` runs it again, ``commands`` are all that have worked here.

    ``not_applicable`` has the cells that the host does not permit, by name, and why. ``hosts`` has the provenance of every host
    of a cluster that has worked for the study, by name, as it was first seen.
    """

    plan: Plan
    command: str
    provenance: dict[str, object]
    commands: tuple[str, ...] = ()
    not_applicable: dict[str, str] = field(default_factory=dict)
    rehearsals: tuple[Rehearsal, ...] = ()
    hosts: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def tolerance_m(self) -> float:
        return self.plan.tolerance_m


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other samepath from working in ``folder``; it is made if need be, and removed again if nothing came of it.

    The kernel holds the lock and drops it with the process, however that ends: a lock file alone would outlive a kill.
    """
    check_writable(folder)
    made = not folder.exists()
    make_folder(folder)
    path = folder / LOCK_FILE
    try:
        lock = path.open("a+")
    except OSError as error:
        raise StudyError(f"{folder} cannot be written: {error.strerror or error}; choose another --out folder") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock.fileno()).st_nlink == 0:
                raise BlockingIOError  # its holder removed it at this very moment
        except OSError as error:
            lock.seek(0)
            pid = lock.read(20).strip()
            who = f"process {pid}" if pid.isdecimal() else "another process"
            raise StudyError(f"{folder} is in use by another samepath ({who}): wait for it or choose another folder") from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        try:
            yield
        finally:
            if not (folder / STUDY_FILE).exists():
                with suppress(OSError):
                    path.unlink()
                    if made:
                        folder.rmdir()


def begin(folder: Path, record: StudyRecord) -> StudyRecord:
    """Write the record of a study that begins, or bring up to date the one that is there if it has the same plan."""
    found = found_record(folder, record.plan)
    if found is not None:
        # Where the first repeats were measured stays on record: whoever goes on elsewhere does not take its place.
        commands = (*found.commands, *record.commands)
        hosts = {**record.hosts, **found.hosts}
        record = replace(record, commands=commands, provenance=found.provenance, hosts=hosts)
    fields = {**asdict(record), "version": _VERSION, "name": record.name, "fingerprint": record.plan.fingerprint}
    fields["tolerance_m"] = record.tolerance_m
    write_text_atomically(folder / STUDY_FILE, json.dumps(fields, indent=1, sort_keys=True))
    return record


def found_record(folder: Path, plan: Plan) -> StudyRecord | None:
    """Return the record of the study in ``folder``, None where there is none yet; refuse another study and strange files."""
    if (folder / STUDY_FILE).exists():
        found = read_record(folder)
        if found.plan.fingerprint != plan.fingerprint:
            raise StudyError(f"{folder} holds another study ({found.name}) or other settings: choose another --out folder")
        return found
    if folder.exists() and (not folder.is_dir() or any(path.name != LOCK_FILE for path in folder.iterdir())):
        raise StudyError(f"{folder} is not an empty folder and holds no study: choose another --out folder")
    return None


def read_record(folder: Path) -> StudyRecord:
    path = folder / STUDY_FILE
    try:
        fields: dict[str, Any] = json.loads(regular(path).read_text("utf-8"))
        version = fields.get("version")
        if version != _VERSION:
            raise StoreError(f"{path}: version {version}, but this samepath reads {_VERSION}: use the samepath that wrote it")
        return StudyRecord(
            plan=_plan_of(fields["plan"]),
            command=fields["command"],
            provenance=fields["provenance"],
            commands=tuple(fields["commands"]),
            not_applicable=dict(fields["not_applicable"]),
            rehearsals=tuple(Rehearsal(**rehearsal) for rehearsal in fields["rehearsals"]),
            hosts=dict(fields.get("hosts", {})),
        )
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; a study folder was wanted") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}): restore it or run the study again") from error


def _plan_of(fields: dict[str, Any]) -> Plan:
    """Read a plan. The folder may be somebody else's: its cells are read and written in it, and nowhere else."""
    plan = Plan.from_dict(fields)
    for cell in plan.cells:
        if Path(cell.folder).name != cell.folder or cell.folder in ("", ".", ".."):
            raise ValueError(f"a cell in folder {cell.folder!r}, but a name without path was wanted")
    return plan


def stored_cells(plan: Plan, folder: Path) -> list[StoredCell]:
    """Open the cells of a plan that have been run, in the plan's order."""
    paths = [folder / "cells" / cell.folder for cell in plan.cells]
    return [StoredCell(path) for path in paths if (path / "cell.json").exists()]


@dataclass(frozen=True)
class AbsentCell:
    """A cell with fewer than the two repeats that a comparison needs."""

    cell: PlannedCell
    kind: str
    reason: str


def absent_cells(record: StudyRecord, folder: Path) -> list[AbsentCell]:
    """Return them in the plan's order; why a cell failed is what the journal said last."""
    there = {cell.name for cell in record.plan.cells if len(stored_repeats(folder / "cells" / cell.folder)) > 1}
    reasons = {
        entry["cell"]: str(entry.get("reason", ""))
        for entry in read_journal(folder)
        if entry["what"] in ("failed", "given up") and "cell" in entry
    }
    found = []
    for cell in record.plan.cells:
        if cell.name in there:
            continue
        if cell.name in record.not_applicable:
            found.append(AbsentCell(cell, NOT_APPLICABLE, record.not_applicable[cell.name]))
        else:
            reason = reasons.get(cell.name)
            kind = NOT_RUN if reason is None else FAILED
            found.append(AbsentCell(cell, kind, reason or "fewer than two repeats were finished"))
    return found


class Journal:
    """One JSON object per line; each is in the hands of the kernel before the next step is taken, so a kill loses none.

    ``begun``, ``resumed``  command, version and process of samepath
    ``slot``                a stretch of repeats begins: loads asked for and measured after settling; its host, if several
    ``repeat``              finished: digest, seconds, what was measured
    ``failed``              a repeat came to nothing, and why; ``detail`` may hold a traceback
    ``given up``            the rest of a cell is left out, and why
    ``host lost``           a host of a cluster is gone, the cell it had and how that was noticed
    ``interrupted``, ``finished``
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path = folder / JOURNAL_FILE
        self._clock = clock
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            end = os.lseek(self._handle, 0, os.SEEK_END)
            if end and os.pread(self._handle, 1, end - 1) != b"\n":
                os.write(self._handle, b"\n")  # the last line was torn; the next one must not be
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def add(self, what: str, **fields: object) -> None:
        line = json.dumps({"what": what, "time_utc": self._clock.utc_iso(), **fields}, default=str)
        data = line.encode() + b"\n"
        try:
            written = os.write(self._handle, data)
        except OSError as error:
            raise StoreError(f"{self._path} could not be written: {error.strerror or error}") from error
        if written != len(data):
            raise StoreError(f"{self._path} could not be written: the disk is full")

    def close(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """Return the journal's lines; torn ones are left out, no journal is an empty one."""
    try:
        text = (folder / JOURNAL_FILE).read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{folder / JOURNAL_FILE} cannot be read: {error.strerror or error}") from error
    entries = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "what" in entry:
            entries.append(entry)
    return entries


def save_commands(folder: Path, commands: CommandLog) -> None:
    """Write what a cell's controllers decided beside its traces; numbers come back bit for bit, NaN (no value) is null."""
    data = {
        "version": _COMMANDS_VERSION,
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
        data: dict[str, Any] = json.loads(regular(path).read_text("utf-8"))
        if data["version"] != _COMMANDS_VERSION:
            raise StoreError(f"{path}: version {data['version']}, but this samepath reads {_COMMANDS_VERSION}")
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


def free_bytes(folder: Path) -> int:
    """Return the free space where ``folder`` is or will be."""
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    path = folder.absolute()
    while not path.exists():
        path = path.parent
    return path


def check_writable(folder: Path) -> None:
    """Refuse a place that cannot hold a study, without touching it."""
    place = existing(folder)
    if not place.is_dir():
        raise StudyError(f"{folder} cannot hold a study: {place} is not a folder; choose another --out folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise StudyError(f"{folder} cannot be written: permission denied in {place}; choose another --out folder")


def check_room(folder: Path, needed_bytes: int) -> None:
    """Refuse a study that would fill the disk."""
    free = free_bytes(folder)
    if free < needed_bytes:
        raise StudyError(
            f"{folder}: the study needs about {size(needed_bytes)}, but {size(free)} are free there: make room, choose another "
            "--out folder, or lower design.repeats or raise design.log_every"
        )


def size(count: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def differences(hosts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """Name what is not the same on all hosts and may change results or times."""
    return tuple(name for name, place in _TOLD.items() if _differ([_at(host, place) for host in hosts.values()]))


def in_words(host: HostFacts) -> str:
    """Describe a host in one line."""
    cores = _at(host, ("cpu", "cores_usable"))
    places = [("operating_system", "name"), ("operating_system", "kernel")]
    words = [str(_at(host, ("cpu", "model"))), f"{cores} cores", *(str(_at(host, place)) for place in places)]
    return ", ".join([*words, f"Python {_at(host, ('python', 'version'))}"])


def with_hosts(provenance: HostFacts, hosts: Mapping[str, HostFacts]) -> dict[str, object]:
    """Add the hosts of a cluster to what a report says of where its figures come from."""
    if not hosts:
        return dict(provenance)
    differing = ", ".join(differences(hosts))
    told: dict[str, object] = {f"host {name}": in_words(host) for name, host in hosts.items()}
    return {**provenance, "cluster": {**told, "hosts differ in": differing or "nothing that is recorded"}}


def _differ(values: Sequence[object]) -> bool:
    return any(value != values[0] for value in values[1:])


def _at(record: object, place: Sequence[str]) -> object:
    for name in place:
        record = record.get(name, "unknown") if isinstance(record, Mapping) else "unknown"
    return record
