"""The logs of the paper's authors (Trustworthy Systems Lab, University of Bristol).

Header ``repeatNo, agentNo, agentID, agentType, agentTypeNo, time, fps, x, y, z, yaw``; metres, degrees, seconds, three
decimals. ``agentID`` is CARLA's id, new in every repeat; ``agentNo`` names the actor.
"""

from collections.abc import Sequence
from pathlib import Path

from samepath.base.errors import InputError
from samepath.base.words import printable
from samepath.traces.cell import MemoryCell
from samepath.traces.importers import ImportOptions
from samepath.traces.importers.table import header_of
from samepath.traces.importers.tidy import TidyImporter

HEADER = ("repeatNo", "agentNo", "agentID", "agentType", "agentTypeNo", "time", "fps", "x", "y", "z", "yaw")
COLUMNS = {
    "repeat": "repeatNo",
    "actor": "agentNo",
    "actor_type": "agentType",
    "time_s": "time",
    "x_m": "x",
    "y_m": "y",
    "z_m": "z",
    "yaw_deg": "yaw",
}


class TslImporter:
    """Reads the authors' logs; the log is rounded to 1 mm, whatever the user says."""

    name = "tsl"

    def accepts(self, path: Path, head: bytes) -> bool:
        """Take files with exactly the authors' header."""
        return b"\x00" not in head and tuple(header_of(head)[0]) == HEADER

    def read(self, paths: Sequence[Path], options: ImportOptions) -> list[MemoryCell]:
        """Read each file as a cell."""
        for path in paths:
            with path.open("rb") as handle:
                names = header_of(handle.read(4096))[0]
            if tuple(names) != HEADER:
                came = printable(", ".join(names))
                raise InputError(f"{path}, line 1: the header {', '.join(HEADER)} was wanted, but {came} came")
        fixed = ImportOptions(columns={**COLUMNS, **options.columns}, align=options.align, lossless=False)
        return TidyImporter().read(paths, fixed)
