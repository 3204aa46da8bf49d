"""What a simulator says of itself in the installation that a cell asks for: its version, its settings, what is missing there.

Without the condition ``packages`` that is this process. With it, another interpreter is asked (``python -m`` this module),
since one process can hold one version of an engine only.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from samepath.core.errors import SamepathError, StudyError
from samepath.engines import registry
from samepath.engines.interface import Capabilities, Scalar, SimulatorInfo
from samepath.instrument.conditions import packages
from samepath.instrument.study.records import PlannedCell

_NAME = "packages"


@dataclass(frozen=True)
class InstalledSimulator:
    """What a simulator says under a cell's settings, and why it cannot run (empty where it can)."""

    info: SimulatorInfo
    unavailable: str


def level_of(cell: PlannedCell) -> str:
    """Return the installation that a cell asks for."""
    return str(cell.condition.get(_NAME, packages.OWN))


def way_of(cell: PlannedCell) -> str:
    """Name a simulator under its settings in its installation: what is the same there need not be asked twice."""
    return json.dumps([cell.simulator, level_of(cell), cell.settings], sort_keys=True)


def installed(cell: PlannedCell) -> InstalledSimulator:
    """Ask the simulator of a cell where the cell will run it."""
    level = level_of(cell)
    if level == packages.OWN:
        with registry.create(cell.simulator) as simulator:
            return InstalledSimulator(simulator.described(cell.settings), simulator.unavailable(cell.settings))
    return _asked(level, cell.simulator, json.dumps(cell.settings, sort_keys=True))


@cache
def _asked(level: str, simulator: str, settings: str) -> InstalledSimulator:
    """Ask once: every answer costs the start of an interpreter."""
    answer: Mapping[str, Any] = packages.ask(level, __name__, {"simulator": simulator, "settings": json.loads(settings)})
    if "error" in answer:
        raise StudyError(f"packages {level!r}: {answer['error']}")
    fields = dict(answer["info"])
    info = SimulatorInfo(
        **{
            **fields,
            "scenarios": tuple(fields["scenarios"]),
            "channels": tuple(fields["channels"]),
            "capabilities": Capabilities(**fields["capabilities"]),
        }
    )
    missing = str(answer["unavailable"])
    return InstalledSimulator(info, f"packages {level!r}: {missing}" if missing else "")


def _answer(simulator: str, settings: Mapping[str, Scalar]) -> dict[str, object]:
    try:
        with registry.create(simulator) as made:
            info = made.described(settings)
            plain = {**info.__dict__, "settings": dict(info.settings), "capabilities": asdict(info.capabilities)}
            return {"info": plain, "unavailable": made.unavailable(settings)}
    except SamepathError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(_answer(asked["simulator"], asked["settings"])))
