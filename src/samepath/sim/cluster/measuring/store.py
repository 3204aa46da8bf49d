"""The results of an experiment in a folder: one line of JSON per episode, so that an interrupted one goes on where it was."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from samepath.base.errors import InputError, StoreError
from samepath.base.files import make_folder
from samepath.sim.cluster.measuring.plan import Cell, Plan
from samepath.sim.cluster.measuring.records import Episode

FILE: Final = "episodes.jsonl"
_FORMAT: Final = 1


class Store:
    """The lines of one experiment; the first says which one it is and where it was measured."""

    def __init__(self, folder: Path, plan: Plan, provenance: Mapping[str, object]) -> None:
        self.path = make_folder(folder) / FILE
        self.provenance: list[Mapping[str, Any]] = []
        self._episodes: dict[Cell, Episode] = {}
        self._good_bytes = 0
        if self.path.exists():
            self._read(plan)
        self.was = len(self._episodes)
        self.provenance.append(provenance)
        self._append({"format": _FORMAT, "plan": plan.digest(), "provenance": provenance})

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All that are there, in the order in which they were measured."""
        return tuple(self._episodes.values())

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._episodes

    def add(self, episode: Episode) -> None:
        """Keep an episode."""
        self._append({"episode": episode.plain()})
        self._episodes[episode.cell] = episode

    def _append(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        try:
            with self.path.open("r+b" if self.path.exists() else "wb") as file:
                file.seek(self._good_bytes)
                file.write(data)
                file.truncate()
        except OSError as error:
            raise StoreError(f"{self.path} could not be written: {error.strerror or error}; choose another folder") from error
        self._good_bytes += len(data)

    def _read(self, plan: Plan) -> None:
        """Take up what is there; a last line that was cut off is written over."""
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror or error}; choose another folder") from error
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                found = json.loads(line)
                if "plan" in found:
                    if found["format"] != _FORMAT or found["plan"] != plan.digest():
                        raise InputError(f"{self.path} has results of another experiment: choose another --out, or remove it")
                    self.provenance.append(found["provenance"])
                else:
                    episode = Episode.of(found["episode"])
                    self._episodes[episode.cell] = episode
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{self.path}:{number} is no line of samepath bench cluster: choose another --out") from error
            self._good_bytes += len(line)
