"""The paper authors' own inputs as scenarios: ``AgentNo,AgentType,X,Y,V,Colour``, one waypoint a line."""

import csv
import io
from typing import Any

from samepath.base.errors import InputError
from samepath.sim.scenarios.model import ScenarioSpec, build_scenario
from samepath.sim.world.catalogue import WalkerType, actor_type

HEADER = ["AgentNo", "AgentType", "X", "Y", "V", "Colour"]


def scenario_from_authors(text: str, where: str) -> ScenarioSpec:
    """Read waypoints per agent; speeds are metres per second. The authors' own town is not ours: the ground is flat."""
    rows = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if any(field.strip() for field in row)]
    if not rows or [field.strip() for field in rows[0]] != HEADER:
        raise InputError(
            f"{where}, line 1: the header {','.join(HEADER)} was wanted, but {','.join(rows[0]) if rows else 'nothing'} came"
        )
    agents: dict[int, dict[str, Any]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(HEADER):
            raise InputError(f"{where}, line {line}: {len(HEADER)} values were wanted, but {len(row)} came")
        try:
            number, kind, x_m, y_m, speed_mps = int(row[0]), row[1].strip(), float(row[2]), float(row[3]), float(row[4])
        except ValueError as error:
            raise InputError(f"{where}, line {line}: {error}") from error
        agent = agents.setdefault(number, {"id": number, "type": kind, "path": [], "speed": speed_mps})
        agent["path"].append([x_m, y_m])
    for agent in agents.values():
        if isinstance(actor_type(agent["type"]), WalkerType):
            # The authors' pedestrians cover 0.98 m a second in their logs whatever V says.
            agent["speed"] = min(agent["speed"], 1.0)
    name = where.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    data = {"name": name, "description": "waypoints of the paper's authors", "map": "flat", "duration": 20.0, "end": "duration"}
    return build_scenario({**data, "actors": [agents[number] for number in sorted(agents)]}, where)
