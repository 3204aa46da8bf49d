"""The folder of a search that runs things for a long time: what was asked, what is known, and the answer.

A search that was interrupted goes on when the same is asked again, because it asks in the same order and finds its answers
here. One that was finished is not believed again: code and files that it ran may be others by now. Another question begins
anew. A folder that holds anything else is refused.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from samepath.core.digests import fingerprint
from samepath.core.errors import StoreError
from samepath.core.files import write_text_atomically
from samepath.instrument.execution.folder import LOCK_FILE, locked

SEARCH_FILE: Final = "search.json"
_FORMAT: Final = "samepath-search"
_VERSION: Final = 1


class SearchFolder:
    """A folder with the memory of one search; what it knows is in ``place``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "known"

    def finish(self, answer: Mapping[str, Any]) -> None:
        """Write the answer down: from now on the same question is asked anew."""
        path = self.folder / SEARCH_FILE
        write_text_atomically(
            path, json.dumps({**json.loads(path.read_text("utf-8")), "answer": answer}, indent=1, default=str)
        )


@contextmanager
def search_folder(folder: Path, question: Mapping[str, object]) -> Iterator[SearchFolder]:
    """Open the folder of a search, and keep every other samepath out of it."""
    with locked(folder):
        path = folder / SEARCH_FILE
        asked = fingerprint(question)
        if path.exists():
            found = _read(path)
            if found.get("fingerprint") != asked or "answer" in found:
                shutil.rmtree(folder / "known", ignore_errors=True)
                path.unlink()
        elif any(entry.name != LOCK_FILE for entry in folder.iterdir()):
            raise StoreError(f"{folder} is not an empty folder and holds no search: choose another --out folder")
        if not path.exists():
            fields = {"format": _FORMAT, "version": _VERSION, "fingerprint": asked, "question": question}
            write_text_atomically(path, json.dumps(fields, indent=1, default=str))
        opened = SearchFolder(folder)
        opened.place.mkdir(exist_ok=True)
        yield opened


def _read(path: Path) -> dict[str, object]:
    try:
        found = dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}): choose another --out folder") from error
    if (found.get("format"), found.get("version")) != (_FORMAT, _VERSION):
        raise StoreError(f"{path} is no search that this samepath can go on with: choose another --out folder")
    return found
