"""Tests 6 to 8 of the drafts with the authors' own way-points: who looks far enough ahead walks around the other.

The drafts list all three as collisions of pedestrians, and say in the text «colliding (i.e. with paths intersection)»: the two
have the same way-points in opposite order, plan around each other, and can do so the less the less they look ahead. Ours do
what that sentence says: at 0.4 m they touch; at 2 and 20 m they get past each other, with a metre and more to spare.
"""

import json

import numpy as np
import pytest

from samepath.engines import registry
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest
from samepath.scenarios.model import scenario_from_authors

WAYPOINTS = [(-20.34, -20.84), (-0.34, -17.27), (8.06, -22.00)]
ROWS = [(1, x, y) for x, y in WAYPOINTS] + [(2, x, y) for x, y in WAYPOINTS[::-1]]
AUTHORS = "AgentNo,AgentType,X,Y,V,Colour\n" + "".join(f"{n},walker.pedestrian.0001,{x},{y},4,red\n" for n, x, y in ROWS)


def walk(look_ahead_m, folder):
    data = scenario_from_authors(AUTHORS, "authors.txt").model_dump(mode="json")
    for actor in data["actors"]:
        actor["look_ahead"] = look_ahead_m
    path = folder / "walk.yaml"
    path.write_text(json.dumps(data), "utf-8")
    with registry.create("samepath") as simulator:
        run = run_request(simulator, RunRequest(str(path), 0, duration_s=20.0))
    paths = [run.values[run.actor == actor][:, :2] for actor in (1, 2)]
    hits = [event for event in run.events if event.kind == "collision" and {event.actor, event.other} == {1, 2}]
    shared = min(map(len, paths))
    return hits, float(np.hypot(*(paths[0][:shared] - paths[1][:shared]).T).min())


def test_looking_little_ahead_they_touch(tmp_path):
    hits, _ = walk(0.4, tmp_path)
    assert hits


@pytest.mark.parametrize(("look_ahead_m", "closest_m"), [(2.0, 1.6), (20.0, 1.8)])
def test_looking_farther_ahead_they_walk_around_each_other(tmp_path, look_ahead_m, closest_m):
    hits, closest = walk(look_ahead_m, tmp_path)
    assert not hits
    assert round(closest, 1) == closest_m
