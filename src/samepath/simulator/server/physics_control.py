"""CARLA's description of a vehicle's physics, from our type of vehicle and back.

Everything round-trips. What acts: the torque curve up to the largest engine speed, gears and where they shift, final ratio,
automatic or manual gearbox, mass, centre of mass (an offset, in metres), drag, steering curve, and of each wheel friction,
steering angle, radius, brake and hand brake torque, lateral and (below the usual 1000) longitudinal stiffness. What is only
kept: inertia and damping of the engine,
clutch, switch time, damping of the wheels, maximal load, sweeping wheels: our drivetrain has no such parts.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Final

from samepath.core.catalogue import Engine, VehicleType, WheelFit
from samepath.core.states import Pose, Vector
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.records import Gear, PhysicsControl, Point2, WheelPhysicsControl
from samepath.simulator.physics.drivetrain import GRAVITY_MPS2, wheel_places_m
from samepath.simulator.physics.frames import axes_of, quaternion_of

# CARLA's tyres are 3.5 where a road tyre's coefficient is 0.9.
FRICTION_SCALE: Final = 3.5 / 0.9
# Sideways the 3.5 is taken at its word. CARLA's traffic manager counts on it: it speeds up to 30 km/h in the corners of CARLA's
# towns, which are of 6 m. With half as much the longest cars came out in the opposite lane of Town02, and hit who waited there.
_SIDE_GRIP: Final = FRICTION_SCALE
# How far CARLA's vehicles of four wheels steer, and how much of it is left at a speed in km/h. Every public figure of them says
# 70 degrees (CARLA's default and tutorial, listings of the Lincoln MKZ and others, the vehicle_info of its ROS bridge), and
# listings have this curve. Controllers are tuned to it: a steer of 0.1 is 7 degrees, whatever a real car would do.
_STEER_DEG: Final = 70.0
_FLAT: Final = ((0.0, 1.0), (200.0 / 3.6, 1.0))
_STEERING_CURVE: Final = ((0.0, 1.0), (20.0, 0.9), (60.0, 0.8), (120.0, 0.7))
_CM: Final = 100.0
_KMH: Final = 3.6
_FRONT_SHARE, _REAR_SHARE, _HAND_SHARE = 0.3, 0.2, 0.2
_LATERAL_STIFFNESS: Final = 17.0
_LONGITUDINAL_STIFFNESS: Final = 1000.0
_SOFTEST: Final = 1.0
_WHEELS: Final = 4


def served_type(kind: VehicleType) -> VehicleType:
    """A vehicle as CARLA's clients know it: its steering and how it holds in bends are CARLA's, the rest ours."""
    if kind.upright:
        return kind
    curve = tuple((speed_kmh / _KMH, left) for speed_kmh, left in _STEERING_CURVE)
    return replace(kind, max_steer_deg=_STEER_DEG, steering_curve=curve, side_grip=_SIDE_GRIP)


def control_of(kind: VehicleType, pose: Pose) -> PhysicsControl:
    """Describe a vehicle of a type that nobody has changed."""
    engine = kind.engine
    max_rpm = engine.torque_curve[-1][0]
    down, up = (min(rpm / max_rpm, 1.0) for rpm in (engine.shift_down_rpm, engine.shift_up_rpm))
    return PhysicsControl(
        torque_curve=tuple(Point2(*point) for point in engine.torque_curve),
        max_rpm=max_rpm,
        moi=1.0,
        damping_rate_full_throttle=0.15,
        damping_rate_zero_throttle_clutch_engaged=2.0,
        damping_rate_zero_throttle_clutch_disengaged=0.35,
        use_gear_autobox=True,
        gear_switch_time=0.0,
        clutch_strength=10.0,
        final_ratio=engine.final_ratio,
        forward_gears=tuple(Gear(ratio, down, up) for ratio in engine.gear_ratios),
        mass=kind.mass_kg,
        drag_coefficient=kind.drag_area_m2 / _front_m2(kind),
        center_of_mass=Vector(),
        steering_curve=tuple(Point2(speed_mps * _KMH, left) for speed_mps, left in kind.steering_curve or _FLAT),
        wheels=tuple(_wheel(kind, index, pose) for index in range(_WHEELS)),
        use_sweep_wheel_collision=False,
    )


def _front_m2(kind: VehicleType) -> float:
    return kind.width_m * kind.height_m


def _wheel(kind: VehicleType, index: int, pose: Pose) -> WheelPhysicsControl:
    front, radius_m = index < 2, kind.wheel_radius_m
    brake_n = kind.max_brake_n * (_FRONT_SHARE if front else _REAR_SHARE)
    hand_n = 0.0 if front else _HAND_SHARE * kind.tyre_friction * kind.mass_kg * GRAVITY_MPS2
    return WheelPhysicsControl(
        tire_friction=kind.tyre_friction * FRICTION_SCALE,
        damping_rate=0.25,
        max_steer_angle=kind.max_steer_deg if front else 0.0,
        radius=radius_m * _CM,
        max_brake_torque=brake_n * radius_m,
        max_handbrake_torque=hand_n * radius_m,
        lat_stiff_max_load=2.0,
        lat_stiff_value=_LATERAL_STIFFNESS,
        long_stiff_value=_LONGITUDINAL_STIFFNESS,
        position=wheel_place_cm(kind, index, pose),
    )


def wheel_place_cm(kind: VehicleType, index: int, pose: Pose) -> Vector:
    """Where a wheel's middle is in the world, in centimetres as CARLA has it."""
    forward, right, up = axes_of(quaternion_of(pose))
    x_m, left_m = wheel_places_m(kind)[index]
    x, y, z = (
        at + x_m * forward[part] - left_m * right[part] + kind.wheel_radius_m * up[part]
        for part, at in enumerate((pose.x_m, pose.y_m, pose.z_m))
    )
    return Vector(x * _CM, y * _CM, z * _CM)


def with_friction(control: PhysicsControl, friction: float) -> PhysicsControl:
    """The same vehicle on a patch of other ground."""
    wheels = tuple(wheel._replace(tire_friction=friction * FRICTION_SCALE) for wheel in control.wheels)
    return control._replace(wheels=wheels)


def kind_from(base: VehicleType, control: PhysicsControl) -> VehicleType:
    """Our type of vehicle for a description; ``base`` is what the vehicle was born as."""
    _check(control)
    wheels = tuple(_fit(wheel) for wheel in control.wheels)
    offset = control.center_of_mass
    return replace(
        base,
        engine=_engine(base.engine, control),
        mass_kg=control.mass,
        drag_area_m2=control.drag_coefficient * _front_m2(base),
        wheel_radius_m=sum(wheel.radius_m for wheel in wheels) / len(wheels),
        max_steer_deg=max(wheel.max_steer_deg for wheel in wheels),
        tyre_friction=sum(wheel.friction for wheel in wheels) / len(wheels),
        automatic=control.use_gear_autobox,
        wheels=wheels,
        slip_per_n=_slip_per_n(base, control),
        centre_of_mass_m=(offset.x, offset.y, 0.38 * base.height_m + offset.z),
        steering_curve=tuple((point.x / _KMH, point.y) for point in control.steering_curve),
    )


def _slip_per_n(base: VehicleType, control: PhysicsControl) -> float:
    """CARLA's stiffness is per unit of gravity and wheel; tyres as stiff as usual, or stiffer, do not slip here."""
    driven = {"front": control.wheels[:2], "rear": control.wheels[2:]}.get(base.driven, control.wheels)
    stiffness = sum(max(wheel.long_stiff_value, _SOFTEST) for wheel in driven) / len(driven)
    return max(0.0, 1.0 / stiffness - 1.0 / _LONGITUDINAL_STIFFNESS) / (GRAVITY_MPS2 * len(driven))


def _engine(base: Engine, control: PhysicsControl) -> Engine:
    max_rpm = control.max_rpm
    curve = [(point.x, point.y) for point in control.torque_curve if point.x <= control.max_rpm]
    return replace(
        base,
        torque_curve=tuple(curve or [(control.max_rpm, control.torque_curve[0].y)]),
        gear_ratios=tuple(gear.ratio for gear in control.forward_gears),
        final_ratio=control.final_ratio,
        gear_shift_rpm=tuple((gear.down_ratio * max_rpm, gear.up_ratio * max_rpm) for gear in control.forward_gears),
    )


def _fit(wheel: WheelPhysicsControl) -> WheelFit:
    radius_m = wheel.radius / _CM
    return WheelFit(
        friction=wheel.tire_friction / FRICTION_SCALE,
        max_steer_deg=wheel.max_steer_angle,
        radius_m=radius_m,
        brake_n=wheel.max_brake_torque / radius_m,
        hand_brake_n=wheel.max_handbrake_torque / radius_m,
        side_stiffness=min(1.0, wheel.lat_stiff_value / _LATERAL_STIFFNESS),
    )


def _check(control: PhysicsControl) -> None:
    """Refuse what no vehicle can be."""
    wheels = control.wheels
    wanted = (
        (len(wheels) == _WHEELS, f"{_WHEELS} wheels", len(wheels)),
        (1 <= len(control.forward_gears) <= 30, "1 to 30 forward gears", len(control.forward_gears)),
        (len(control.torque_curve) >= 1, "a torque curve", "none"),
        (1.0 <= control.mass <= 1e6, "a mass of 1 to 1e6 kg", control.mass),
        (0.0 < control.max_rpm <= 1e6, "a max_rpm above 0", control.max_rpm),
        (0.0 <= control.drag_coefficient <= 1e4, "a drag coefficient of at least 0", control.drag_coefficient),
        (all(1.0 <= wheel.radius <= 500.0 for wheel in wheels), "radii of 1 to 500 cm", "another"),
        (all(0.0 <= wheel.tire_friction <= 1e3 for wheel in wheels), "a tire_friction of 0 to 1000", "another"),
        (all(0.0 <= wheel.max_steer_angle <= 90.0 for wheel in wheels), "steering angles of 0 to 90 degrees", "another"),
        (all(min(wheel[4:9]) >= 0.0 for wheel in wheels), "torques and stiffnesses of at least 0", "less"),
        (max(map(abs, control.center_of_mass)) <= 10.0, "a centre of mass within 10 m", "another"),
        (_rises(control.torque_curve) and _rises(control.steering_curve), "curves whose x rises", "another"),
    )
    for holds, what, came in wanted:
        if not holds:
            raise CallError(f"vehicle physics: {what} was wanted, but {came} came")


def _rises(curve: tuple[Point2, ...]) -> bool:
    return all(a.x < b.x for a, b in pairwise(curve))
