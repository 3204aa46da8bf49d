"""OpenSCENARIO 1.x files as scenarios: read, played once without physics, handed on as timed paths that any engine drives."""

from pathlib import Path
from typing import Any

from samepath.core.errors import InputError, SamepathError
from samepath.openscenario.play import STEP_S, MotionPlan, Player, Track
from samepath.openscenario.reader import FileReader
from samepath.openscenario.records import ScenarioFile

__all__ = ["MotionPlan", "ScenarioFile", "plan_file", "scenario_data"]


def plan_file(path: Path) -> tuple[ScenarioFile, MotionPlan]:
    """Read a file and play it; whatever is wrong with it is one line that begins with its name."""
    file = FileReader(path).read()
    try:
        return file, Player(file).play()
    except SamepathError as error:
        raise InputError(f"{path.name}: {error}") from error


def scenario_data(path: Path) -> dict[str, Any]:
    """Return a file as the plain data of a scenario: an actor for each entity, with a path and the times along it."""
    file, plan = plan_file(path)
    left_out = f"; not played: {', '.join(file.left_out)}" if file.left_out else ""
    actors = []
    for number, (entity, (_, track)) in enumerate(zip(file.entities, plan.tracks, strict=True), start=1):
        actors.append({"id": number, "type": entity.type, **_moves(entity.kind, track)})
    return {
        "name": file.name,
        "description": f"{file.description or file.name} (OpenSCENARIO; ended by: {plan.ended}{left_out})",
        "map": file.map,
        "duration": plan.ticks * STEP_S,
        "step": STEP_S,
        "end": "duration",
        "actors": actors,
    }


def _moves(kind: str, track: Track) -> dict[str, Any]:
    if kind == "static":
        return {"path": [list(track.points[0])], "heading_deg": track.yaw_deg}
    points, times_s = thinned(track.points)
    return {
        "path": [list(point) for point in points],
        "times": times_s,
        "heading_deg": track.yaw_deg,
        "start_speed": track.start_mps if kind == "vehicle" else 0.0,
    }


def thinned(points: tuple[tuple[float, float], ...]) -> tuple[list[tuple[float, float]], list[float]]:
    """Leave out what lies on the way from its neighbour before to the one after, in place and in time."""
    kept = [0]
    for number in range(1, len(points) - 1):
        (ax, ay), (bx, by), (cx, cy) = points[kept[-1]], points[number], points[number + 1]
        share = (number - kept[-1]) / (number + 1 - kept[-1])
        # A tenth of a millimetre is nothing to a car; adding up, it could be: neighbours are compared with the last one kept.
        if abs(ax + (cx - ax) * share - bx) > 1e-4 or abs(ay + (cy - ay) * share - by) > 1e-4 or number - kept[-1] >= 100:
            kept.append(number)
    kept.append(len(points) - 1)
    return [points[number] for number in kept], [round(number * STEP_S, 6) for number in kept]
