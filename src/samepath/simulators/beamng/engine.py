"""Driving BeamNG.tech: a scenario is made from the script, its vehicles are put in place, commanded, stepped and read.

The program tells of no contacts. It tells how much each vehicle is damaged: where that grows, it has touched something; if
another car is near enough, that one, else scenery. Who it was and when is as good as that, and a touch without damage is none.
"""

from collections.abc import Mapping
from typing import Any, Final

from samepath.base.errors import SimulatorError
from samepath.base.trig import wrap_deg
from samepath.simulators.beamng.link import Link
from samepath.simulators.beamng.scene import (
    first_angle_deg,
    may_touch,
    number_of,
    offset_of,
    position_of,
    seen_of,
    start_of,
    state_of,
    turned,
    vector_of,
)
from samepath.simulators.beamng.settings import BeamNGSettings
from samepath.simulators.remote import TICK_S, Contact, Look, RemoteWorld
from samepath.simulators.scripts import STANDING, Role, Script, Seen, VehicleCommand

SCENARIO: Final = "samepath"
# Gears by themselves. A brake that is held at rest becomes the reverse gear: below this speed the parking brake does it.
_SHIFT_MODE: Final = "arcade"
_SLOW_MPS: Final = 1.0
# How far a car may look past where it was to look.
_AIM_DEG: Final = 3.0
# Bodies of BeamNG's own are not those of the script.
_MARGIN_M: Final = 1.0
_SENSORS: Final = ("state", "damage")


class BeamNGWorld(RemoteWorld):
    """A script in one of BeamNG's levels, paused."""

    def __init__(self, link: Link, script: Script, settings: BeamNGSettings) -> None:
        self._link, self._settings, self._script = link, settings, script
        self._roles: dict[int, Role] = {role.number: role for role in script.roles}
        self._cars: dict[int, Any] = {}
        self._offsets: dict[int, tuple[float, float]] = {}
        self._damage: dict[int, float] = {}
        self._seen: dict[int, Look] = {}
        self._start_s: dict[int, float] = {}
        self._ticks = 0
        try:
            with link.asking("before the run"):
                self._load()
                self._place()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        bng, api, settings = self._link.bng, self._link.api, self._settings
        from beamngpy.sensors import Damage

        if settings.synchronous:
            bng.settings.set_deterministic(settings.steps_per_second)
        else:
            bng.settings.set_nondeterministic()
            bng.settings.set_steps_per_second(settings.steps_per_second)
        scenario = api.Scenario(settings.level, SCENARIO)
        for index, role in enumerate(self._script.roles):
            car = api.Vehicle(f"car{role.number}", model=settings.model(index))
            car.sensors.attach("damage", Damage())
            x_m, y_m = position_of(role.start)
            scenario.add_vehicle(car, (x_m, y_m, 0.0), turned(first_angle_deg(role.start.yaw_deg)))
            self._cars[role.number] = car
        scenario.make(bng)
        bng.scenario.load(scenario, connect_player_vehicle=False, connect_existing_vehicles=False)
        bng.scenario.start()
        bng.control.pause()
        for car in self._cars.values():
            self._link.connect(car)
            car.set_shift_mode(_SHIFT_MODE)

    def _place(self) -> None:
        """Put everybody where the script has them, by what the program says of them once they are there."""
        bng = self._link.bng
        bng.control.step(1)
        for number, car in self._cars.items():
            self._brake(car)
            told = self._poll(number)
            centre = vector_of(car.get_mass_properties(), "center_of_gravity")
            self._offsets[number] = offset_of(told, centre)
            self._aim(number, car, vector_of(told, "pos")[2])
        bng.control.step(max(1, round(self._settings.settle_s * self._settings.steps_per_second)))
        for number in self._cars:
            told = self._poll(number)
            self._start_s[number] = number_of(told, "time")
            self._damage[number] = self._damage_of(number)

    def _aim(self, number: int, car: Any, z_m: float) -> None:  # noqa: ANN401
        """Turn a car to its heading. Which way an unturned one looks, and which way angles count, is found out."""
        start = start_of(self._roles[number].start, self._offsets[number])
        angle_deg, x_y_m = first_angle_deg(start.yaw_deg), position_of(start)
        tries, off_deg = [angle_deg], 0.0
        for attempt in range(3):
            car.teleport((*x_y_m, z_m), turned(tries[attempt]), reset=True)
            self._link.bng.control.step(1)
            off_deg = wrap_deg(state_of(self._poll(number))["yaw_deg"] - start.yaw_deg)
            if abs(off_deg) <= _AIM_DEG:
                return
            if attempt == 0:
                tries += [angle_deg + off_deg, angle_deg - off_deg]
        raise SimulatorError(f"actor {number} was to look along {start.yaw_deg:.1f} degrees, but is {off_deg:.1f} off")

    def _poll(self, number: int) -> Mapping[str, Any]:
        sensors = self._cars[number].sensors
        sensors.poll(*_SENSORS)
        return dict(sensors["state"])

    def _damage_of(self, number: int) -> float:
        return number_of(self._cars[number].sensors["damage"], "damage")

    def look(self) -> list[Look]:
        """Ask every vehicle for its state and its damage."""
        with self._link.asking("during the run"):
            for number in self._cars:
                told = self._poll(number)
                passed_s = number_of(told, "time") - self._start_s[number]
                state = state_of(told)
                self._seen[number] = Look(number, self._moment(passed_s), state, seen_of(state, self._offsets[number]))
            return list(self._seen.values())

    def _moment(self, passed_s: float) -> float:
        """In step, time is counted; the program's own clock must agree."""
        if not self._settings.synchronous:
            return passed_s
        counted_s = self._ticks * TICK_S
        if abs(passed_s - counted_s) > TICK_S / 2:
            raise SimulatorError(
                f"BeamNG.tech's clock went {passed_s:g} s in {self._ticks} ticks of {TICK_S:g} s: "
                "does it make the steps it was asked for?"
            )
        return counted_s

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set pedals and wheel."""
        car, seen = self._cars[number], self._seen[number].seen
        with self._link.asking("during the run"):
            slow = self._speed(seen) < _SLOW_MPS
            if command.hand_brake or (slow and command.brake > 0):
                self._brake(car)
                return
            steering = command.steer * self._settings.steer_sign
            gear = {"gear": -1} if command.reverse else {}
            car.control(steering=steering, throttle=command.throttle, brake=command.brake, parkingbrake=0.0, **gear)

    @staticmethod
    def _speed(seen: Seen) -> float:
        return float((seen.vx_mps**2 + seen.vy_mps**2) ** 0.5)

    @staticmethod
    def _brake(car: Any) -> None:  # noqa: ANN401
        car.control(steering=STANDING.steer, throttle=0.0, brake=0.0, parkingbrake=1.0)

    def step(self) -> None:
        """Make the steps of a tick."""
        with self._link.asking("during the run"):
            self._link.bng.control.step(self._settings.steps)
        self._ticks += 1

    def run(self) -> None:
        """End the pause."""
        with self._link.asking("at the start"):
            self._link.bng.control.resume()

    def contacts(self) -> list[Contact]:
        """Return whose damage has grown since this was last asked."""
        found = []
        for number in self._cars:
            damage = self._damage_of(number)
            if damage > self._damage[number]:
                other = self._nearest(number)
                found.append(Contact(self._seen[number].time_s, number, other, "told by damage"))
            self._damage[number] = damage
        return found

    def _nearest(self, number: int) -> int | None:
        """Return the first of the others that are near enough to have been touched."""
        here, body = self._seen[number].seen, self._roles[number].body
        for other, look in self._seen.items():
            if other != number and may_touch(here, body, look.seen, self._roles[other].body, _MARGIN_M):
                return other
        return None

    def close(self) -> None:
        """Leave the scenario, and the program as it is started."""
        bng = self._link.bng
        if self._cars:
            self._link.tidy(bng.control.resume)
            self._link.tidy(bng.scenario.stop)
        self._link.close()
