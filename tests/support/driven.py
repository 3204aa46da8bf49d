"""What tests of engines look at in a run: who met whom, and whether everybody drove along the path and as recorded."""

import socket

import numpy as np

from samepath.scenarios.scripts import read_script


def free_port():
    """Return a port at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def collisions(repeat):
    return [event for event in repeat.events if event.kind == "collision"]


def columns_of(run, role, *names):
    """Return the rows of a role, a column for each name."""
    rows = run.values[run.actor == role.number]
    return tuple(rows[:, run.channels.index(name)] for name in names)


def check_arrivals(run, scenario, step_s, *, speed_ratio=0.05, moved_mps=0.15, course_deg=12.0):
    """Everybody arrives without a collision, at the speed asked for, and velocities and headings are what positions do."""
    assert run.end.reason == "every actor reached its last waypoint"
    assert not collisions(run)
    for role in read_script(scenario).roles:
        x_m, y_m, yaw_deg, vx_mps, vy_mps = columns_of(run, role, "x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps")
        assert np.hypot(x_m[-1] - role.path[-1][0], y_m[-1] - role.path[-1][1]) < 0.7
        speed_mps = np.hypot(vx_mps, vy_mps)
        assert role.speed_mps * (1 - speed_ratio) < speed_mps.max() < role.speed_mps * (1 + speed_ratio)
        between_mps = np.hypot(np.diff(x_m), np.diff(y_m)) / step_s
        assert np.abs(between_mps - (speed_mps[1:] + speed_mps[:-1]) / 2).max() < moved_mps
        fast = speed_mps > 2
        going_deg = np.degrees(np.arctan2(vy_mps[fast], vx_mps[fast]))
        assert np.abs((going_deg - yaw_deg[fast] + 180) % 360 - 180).max() < course_deg
