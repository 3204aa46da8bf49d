"""Scenarios as other engines get them: complete, exact, and followed by whoever reads only the JSON."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.catalogue import actor_type
from samepath.core.errors import InputError, SimulatorError
from samepath.scenarios.model import load_scenario
from samepath.scenarios.scripts import (
    PlanarState,
    Pose2D,
    brake_force_n,
    controller_of,
    document,
    drive_force_n,
    moved,
    read_script,
    script_names,
    scripted_chassis,
    to_json,
)

DOCS = Path(__file__).parents[2] / "docs" / "engines" / "scripts.md"


@pytest.mark.parametrize("name", sorted(script_names()))
def test_every_scenario_is_a_script_with_all_that_the_scenario_says(name):
    spec, script = load_scenario(name), read_script(name)
    assert (script.duration_s, script.step_s, script.substeps, script.end) == (
        spec.duration,
        spec.step,
        spec.substeps,
        spec.end,
    )
    assert script.ticks == spec.ticks
    assert len(script.boxes) == len(spec.boxes)
    for actor, role in zip(spec.actors, script.roles, strict=True):
        kind = actor_type(actor.type)
        assert (role.number, role.type, role.path) == (actor.id, actor.type, actor.path)
        assert (role.speed_mps, role.start_s, role.after_collision) == (actor.speed, actor.start_delay, actor.after_collision)
        assert (role.start.x_m, role.start.y_m) == actor.path[0]
        assert (role.body.height_m, role.body.mass_kg) == (kind.height_m, kind.mass_kg)
        assert (role.wheels is not None) == (role.kind == "vehicle")
        assert (role.driving is not None) == (role.kind != "prop")


def test_the_json_is_exact_and_every_key_of_it_is_documented():
    text, documented = to_json(read_script("table1-test4")), DOCS.read_text("utf-8")
    data = json.loads(text)
    assert (data["format"], data["version"]) == ("samepath-script", 1)
    assert text == to_json(read_script("table1-test4"))
    role = read_script("table1-test4").roles[2]
    actor = data["actors"][2]
    assert actor["body"] == asdict(role.body)
    assert [tuple(point) for point in actor["path"]] == list(role.path)
    assert actor["wheels"] is None
    assert actor["after_collision"] == "remove"

    def keys(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner)
        for inner in value if isinstance(value, list) else ():
            yield from keys(inner)

    for key in set(keys(data)) - {"x_m", "y_m", "yaw_deg"}:
        assert f"`{key}`" in documented, key


def bicycle(actor, command, state, step_s):
    """A car as the forces of the script make it; ``state`` is x, y, yaw in radians, speed."""
    x, y, yaw, speed = state
    role = read_script("table1-test2").roles[actor["id"] - 1]
    throttle, steer, brake = command
    force_n = drive_force_n(role, throttle, speed) - brake_force_n(role, brake)
    speed = max(0.0, speed + force_n / actor["body"]["mass_kg"] * step_s)
    wheels = actor["wheels"]
    rear = wheels["wheel_base_m"] / 2
    rear_x, rear_y = (
        x - rear * math.cos(yaw) + speed * math.cos(yaw) * step_s,
        y - rear * math.sin(yaw) + speed * math.sin(yaw) * step_s,
    )
    yaw += speed * math.tan(math.radians(steer * wheels["max_steer_deg"])) / wheels["wheel_base_m"] * step_s
    return rear_x + rear * math.cos(yaw), rear_y + rear * math.sin(yaw), yaw, speed


class FromTheDocs:
    """The controller as docs/engines/scripts.md describes it, from the JSON alone."""

    def __init__(self, actor, step_s):
        self.actor, self.step_s = actor, step_s
        self.track = actor["track"]
        arcs = [0.0]
        for a, b in zip(self.track, self.track[1:], strict=False):
            arcs.append(arcs[-1] + math.dist(a[:2], b[:2]))
        self.arcs = arcs
        self.at, self.integral, self.before, self.arrived = 0, 0.0, None, False

    def point(self, arc):
        if arc >= self.arcs[-1]:
            (ax, ay, _), (bx, by, _) = self.track[-2:]
            size = math.dist((ax, ay), (bx, by))
            over = arc - self.arcs[-1]
            return bx + (bx - ax) / size * over, by + (by - ay) / size * over
        after = next(i for i, length in enumerate(self.arcs) if length > arc)
        share = (arc - self.arcs[after - 1]) / (self.arcs[after] - self.arcs[after - 1])
        (ax, ay, _), (bx, by, _) = self.track[after - 1], self.track[after]
        return ax + (bx - ax) * share, ay + (by - ay) * share

    def decide(self, x, y, yaw, speed):
        driving, wheels = self.actor["driving"], self.actor["wheels"]
        ahead = [i for i in range(self.at, len(self.track)) if self.arcs[i] <= self.arcs[self.at] + 2.0]
        self.at = min(ahead, key=lambda i: math.dist((x, y), self.track[i][:2]))
        near = math.dist((x, y), self.track[-1][:2]) <= driving["arrival_m"]
        left = self.arcs[-1] - self.arcs[self.at]
        self.arrived |= self.at == len(self.track) - 1 or (near and left <= 2 * driving["arrival_m"])
        reach = driving["look_ahead_m"] + driving["look_ahead_s"] * speed
        target = self.point(self.arcs[self.at] + reach)
        rear = wheels["wheel_base_m"] / 2
        tx, ty = target[0] - (x - rear * math.cos(yaw)), target[1] - (y - rear * math.sin(yaw))
        right = ty * math.cos(yaw) - tx * math.sin(yaw)
        angle = math.degrees(math.atan2(2 * wheels["wheel_base_m"] * right, tx * tx + ty * ty))
        steer = max(-1.0, min(1.0, angle / wheels["max_steer_deg"]))
        if self.arrived:
            return 0.0, steer, 1.0
        error = max(self.track[self.at][2], driving["creep_mps"]) - speed
        change = 0.0 if self.before is None else (speed - self.before) / self.step_s
        self.before = speed
        limit = driving["integral_limit"]
        direct = driving["proportional"] * error - driving["derivative"] * change
        integral = max(-limit, min(limit, self.integral + driving["integral"] * error * self.step_s))
        if not (abs(direct + integral) > 1 and (direct + integral) * error > 0):
            self.integral = integral
        wanted = max(-1.0, min(1.0, direct + self.integral))
        return max(0.0, wanted), steer, max(0.0, -wanted)


def test_who_follows_the_docs_and_the_json_drives_as_our_own_controller_does():
    """An independent controller, written from the page, must give the same commands all along a drive round a bend."""
    script = read_script("table1-test2")
    role, actor = script.roles[1], json.loads(to_json(script))["actors"][1]
    ours, theirs = controller_of(role, scripted_chassis, script.step_s), FromTheDocs(actor, script.step_s)
    state = (role.start.x_m, role.start.y_m, math.radians(role.start.yaw_deg), 0.0)
    for number in range(script.ticks):
        x, y, yaw, speed = state
        seen = PlanarState(x, y, math.degrees(yaw), speed * math.cos(yaw), speed * math.sin(yaw))
        command = ours.decide(seen, number * script.step_s)
        told = theirs.decide(x, y, yaw, speed)
        assert (command.throttle, command.steer, command.brake) == pytest.approx(told, abs=1e-9), number
        state = bicycle(actor, told, state, script.step_s)
    assert ours.finished
    assert theirs.arrived
    assert math.dist(state[:2], role.path[-1]) < 1.0


def test_forces_are_those_of_a_car():
    role = read_script("table1-test2").roles[0]
    grip_n = role.wheels.friction * role.body.mass_kg * 9.81
    assert drive_force_n(role, 1.0, 0.0) == pytest.approx(grip_n / 2)  # rear wheels alone
    assert drive_force_n(role, 0.5, 40.0) == pytest.approx(0.5 * role.wheels.power_w / 40.0)
    assert drive_force_n(role, 0.0, 3.0) == 0.0
    assert brake_force_n(role, 1.0) <= grip_n
    walker = read_script("table1-test4").roles[2]
    with pytest.raises(SimulatorError, match=r"^actor 3, a walker\.pedestrian\.0001, has no wheels$"):
        drive_force_n(walker, 1.0, 0.0)


def test_boxes_move_with_the_scenario():
    script = read_script("scenery")
    script = script if script.boxes else pytest.fail("a scenario with boxes was wanted")
    there = moved(script, replace(script.roles[0].start, x_m=100.0))
    for before, after in zip(script.boxes, there.boxes, strict=True):
        assert after.place.x_m - before.place.x_m == pytest.approx(100.0 - script.roles[0].start.x_m)
        assert after.place.yaw_deg == pytest.approx(before.place.yaw_deg)
    quarter = moved(script, Pose2D(0.0, 0.0, script.roles[0].start.yaw_deg + 90.0))
    assert document(quarter)["boxes"][0]["size_m"] == script.boxes[0].size_m


def test_controllers_of_the_users_own_are_refused(tmp_path):
    text = "name: mine\nactors:\n  - {id: 1, type: vehicle.tesla.model3, path: [[0, 0]], controller: a:b}\n"
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match="controllers of your own run on the simulator samepath only"):
        read_script(str(tmp_path / "mine.yaml"))


def test_the_command_line_prints_it_for_people_and_for_programs():
    told = CliRunner().invoke(app, ["script", "table1-test4"])
    assert told.exit_code == 0
    assert "end: last-waypoint" in told.output
    printed = CliRunner().invoke(app, ["script", "table1-test4", "--json"])
    assert json.loads(printed.output) == json.loads(to_json(read_script("table1-test4")))
