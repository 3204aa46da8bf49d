"""Small worlds for followers: a kinematic bicycle and points that walk. Only operations with one rounding are used."""

import math

from samepath.core.trig import sincos, sincos_deg, to_radians
from samepath.scenarios.drivers import VehicleFollower, VehicleObservation, VehicleSettings
from samepath.scenarios.paths import Path, interpolate
from samepath.scenarios.walkers import WalkerFollower, WalkerObservation, WalkerObstacle


def curved_path():
    """30 m straight on, a right turn of 12 m radius, 16 m, a left turn of 9 m radius, and on to (80, 49)."""
    right = [(30.0 + 12.0 * s, 12.0 - 12.0 * c) for s, c in (sincos_deg(4.5 * k) for k in range(1, 21))]
    left = [(51.0 - 9.0 * c, 40.0 + 9.0 * s) for s, c in (sincos_deg(6.0 * k) for k in range(1, 16))]
    return Path(interpolate([(0.0, 0.0), (30.0, 0.0), *right, (42.0, 40.0), *left, (80.0, 49.0)]))


def bicycle_drive(path, settings, *, lateral_m=0.0, ticks=4000, pause_at=None, rebuild=None):
    """Drive until the hand brake is set; return one (x, y, speed, lateral acceleration, command) per tick."""
    follower = VehicleFollower(path, settings)
    state, rear, base = follower.initial_state(), settings.rear_m, settings.steering.wheel_base_m
    x, y, heading_rad, speed = 0.0, lateral_m, 0.0, 0.0
    trace = []
    for tick in range(ticks):
        if tick == pause_at:
            state = rebuild(state)
        s, c = sincos(heading_rad)
        centre = (x + rear * c, y + rear * s)
        command, state = follower.step(VehicleObservation(*centre, c, s, speed), state)
        steer_s, steer_c = sincos(command.steer * to_radians(settings.steering.max_steer_deg))
        turn_rate = speed / base * (steer_s / steer_c)
        trace.append((*centre, speed, speed * turn_rate, command))
        if command.hand_brake:
            break
        speed = max(0.0, speed + (3.0 * command.throttle - 8.0 * command.brake - 0.05 * speed) * settings.step_s)
        heading_rad += turn_rate * settings.step_s
        x += speed * c * settings.step_s
        y += speed * s * settings.step_s
    return trace


def drive_settings(**changes):
    return VehicleSettings(**{"step_s": 0.02, **changes})


def off_path_m(path, x, y):
    return min(math.sqrt((x - px) ** 2 + (y - py) ** 2) for px, py in path.points)


def walk_together(followers, starts, *, ticks=1200, bodies=(), pause_at=None, rebuild=None):
    """Walk until all have finished; return each tick's positions. Everybody decides from the same tick."""
    step_s = followers[0].settings.step_s
    places = [tuple(start) for start in starts]
    velocities = [(0.0, 0.0)] * len(places)
    states = [follower.initial_state(*start) for follower, start in zip(followers, starts, strict=True)]
    trace = [tuple(places)]
    for tick in range(ticks):
        if tick == pause_at:
            states = [rebuild(state) for state in states]
        discs = [
            WalkerObstacle(*place, *velocity, follower.settings.radius_m)
            for follower, place, velocity in zip(followers, places, velocities, strict=True)
        ]
        commands = []
        for number, follower in enumerate(followers):
            others = [*discs[:number], *discs[number + 1 :], *bodies]
            command, states[number] = follower.step(WalkerObservation(*places[number]), others, states[number])
            commands.append(command)
        velocities = [(c.direction_x * c.speed_mps, c.direction_y * c.speed_mps) for c in commands]
        places = [(x + vx * step_s, y + vy * step_s) for (x, y), (vx, vy) in zip(places, velocities, strict=True)]
        trace.append(tuple(places))
        if all(state.finished for state in states):
            break
    return trace


def walker(grid, waypoints, settings, chance=None):
    return WalkerFollower(grid, tuple(waypoints), settings, chance)
