"""A study's folder on disk.

study.json       the whole plan, its fingerprint, provenance, commands, cells that are not applicable here, rehearsal, hosts
journal.jsonl    what happened when (see ``samepath.execution.journal``)
cells/NAME/      one trace store per cell (see ``samepath.traces.store``); commands.json where commands are replayed
report.html, report.json, junit.xml
.lock            held by the samepath that works here
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from samepath.base.errors import StoreError, StudyError
from samepath.base.files import make_folder, write_text_atomically
from samepath.execution.disk import check_writable
from samepath.execution.rehearsal import Rehearsal
from samepath.study.records import Plan
from samepath.traces.store import StoredCell

STUDY_FILE: Final = "study.json"
LOCK_FILE: Final = ".lock"
_VERSION: Final = 2


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
        """The study's name."""
        return self.plan.name

    @property
    def tolerance_m(self) -> float:
        """The study's own tolerance."""
        return self.plan.tolerance_m


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other samepath from working in ``folder``; it is made if need be, and removed again if nothing came of it."""
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
    """Read ``study.json``."""
    path = folder / STUDY_FILE
    try:
        fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
        version = fields.get("version")
        if version != _VERSION:
            raise StoreError(f"{path}: version {version}, but this samepath reads {_VERSION}: use the samepath that wrote it")
        return StudyRecord(
            plan=Plan.from_dict(fields["plan"]),
            command=fields["command"],
            provenance=fields["provenance"],
            commands=tuple(fields["commands"]),
            not_applicable=dict(fields["not_applicable"]),
            rehearsals=tuple(Rehearsal(**one) for one in fields["rehearsals"]),
            hosts=dict(fields.get("hosts", {})),
        )
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; a study folder was wanted") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}): restore it or run the study again") from error


def stored_cells(plan: Plan, folder: Path) -> list[StoredCell]:
    """Open the cells of a plan that have been run, in the plan's order."""
    paths = [folder / "cells" / cell.folder for cell in plan.cells]
    return [StoredCell(path) for path in paths if (path / "cell.json").exists()]
