"""A study's folder on disk.

study.json       the plan's fingerprint, tolerance, provenance, command line
cells/NAME/      one trace store per cell (see ``samepath.traces.store``)
report.html, report.json, junit.xml
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from samepath.base.errors import StoreError, StudyError
from samepath.base.files import make_folder, write_text_atomically
from samepath.study.plan import Plan

STUDY_FILE: Final = "study.json"
_VERSION: Final = 1


@dataclass(frozen=True)
class StudyRecord:
    """What is known of a study beside its traces."""

    name: str
    fingerprint: str
    tolerance_m: float
    command: str
    provenance: dict[str, object]
    cells: dict[str, int]
    expect: dict[str, str]
    version: int = _VERSION


def open_folder(folder: Path, plan: Plan, command: str, provenance: dict[str, object]) -> StudyRecord:
    """Begin a study in ``folder``, or continue the one that is there if it has the same plan."""
    path = folder / STUDY_FILE
    record = StudyRecord(
        name=plan.name,
        fingerprint=plan.fingerprint,
        tolerance_m=plan.tolerance_m,
        command=command,
        provenance=provenance,
        cells={cell.name: cell.repeats for cell in plan.cells},
        expect={cell.name: cell.expect.value for cell in plan.cells if cell.expect is not None},
    )
    if path.exists():
        found = read_record(folder)
        if found.fingerprint != record.fingerprint:
            raise StudyError(f"{folder} holds another study ({found.name}) or other settings: choose another --out folder")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{folder} is not an empty folder and holds no study: choose another --out folder")
    make_folder(folder)
    write_text_atomically(path, json.dumps(asdict(record), indent=1, sort_keys=True))
    return record


def read_record(folder: Path) -> StudyRecord:
    """Read ``study.json``."""
    path = folder / STUDY_FILE
    try:
        fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
        version = fields.get("version")
        if version != _VERSION:
            raise StoreError(f"{path}: version {version}, but this samepath reads {_VERSION}")
        return StudyRecord(**fields)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; a study folder was wanted") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}): restore it or run the study again") from error
