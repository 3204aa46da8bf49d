"""Driving AirSim: cars of its settings.json are put where the script has them, commanded, and read with the time of its clock.

In synchronous mode the program is paused, and told to go on for a while; it says when it is paused again. How far it went in
between is read from its clock, because it pauses at the end of a frame and not at the moment asked for.
"""

from typing import Any, Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SimulatorError
from samepath.simulators.airsim.link import Link
from samepath.simulators.airsim.scene import Home, homes_of, pose_of, state_of, turn_of, vector_of
from samepath.simulators.airsim.settings import FRAMES, AirSimSettings
from samepath.simulators.remote import Contact, Look, RemoteWorld
from samepath.simulators.scripts import STANDING, Script, Seen, VehicleCommand

# How long to wait before asking again whether the program has paused.
_AGAIN_S: Final = 0.001
_NANOS: Final = 1_000_000_000


class AirSimWorld(RemoteWorld):
    """A script in AirSim's level, paused."""

    def __init__(self, link: Link, script: Script, settings: AirSimSettings) -> None:
        self._link, self._settings = link, settings
        self._homes: dict[int, Home] = {}
        self._names: dict[str, int] = {}
        self._start_ns = 0
        try:
            with link.asking("before the run"):
                self._check_version()
                self._set_up(script)
        except BaseException:
            self.close()
            raise

    def _check_version(self) -> None:
        client = self._link.client
        if client.ping() is not True:
            raise SimulatorError(f"the program at {self._settings.address} does not answer as AirSim does")
        ours, least = client.getClientVersion(), client.getMinRequiredClientVersion()
        if not isinstance(least, int) or ours < least:
            raise SimulatorError(f"AirSim wants a client of version {least}, but cosysairsim is {ours}: install a newer one")

    def _set_up(self, script: Script) -> None:
        client, settings = self._link.client, self._settings
        if settings.level and not client.simLoadLevel(settings.level):
            raise SimulatorError(f"AirSim at {settings.address} could not load the level {settings.level}")
        self._homes = homes_of(script, settings, client.getSettingsString())
        self._names = {home.name: number for number, home in self._homes.items()}
        client.simPause(False)
        client.reset()
        client.simPause(True)
        for role in script.roles:
            home = self._homes[role.number]
            client.enableApiControl(True, home.name)
            down_m = vector_of(client.simGetVehiclePose(home.name).position, "a position")[2]
            place, (w, x, y, z) = pose_of(role.start, home, down_m)
            api = self._link.api
            client.simSetVehiclePose(api.Pose(api.Vector3r(*place), api.Quaternionr(x, y, z, w)), True, home.name)
            self.command(role.number, STANDING)
        for _ in range(round(settings.settle_s / settings.control_s)):
            self._continue()
        self._start_ns = self._state(min(self._homes))[0]

    def look(self) -> list[Look]:
        """Ask for every car's state; each comes with the time it is of."""
        with self._link.asking("during the run"):
            found = []
            for number, home in self._homes.items():
                stamp_ns, kinematics = self._state(number)
                state = state_of(
                    home,
                    vector_of(kinematics.position, "a position"),
                    turn_of(kinematics.orientation),
                    vector_of(kinematics.linear_velocity, "a velocity"),
                )
                seen = Seen(state["x_m"], state["y_m"], state["yaw_deg"], state["vx_mps"], state["vy_mps"])
                found.append(Look(number, (stamp_ns - self._start_ns) / _NANOS, state, seen))
            return found

    def _state(self, number: int) -> tuple[int, Any]:
        told = self._link.client.getCarState(self._homes[number].name)
        stamp_ns, kinematics = getattr(told, "timestamp", None), getattr(told, "kinematics_estimated", None)
        if not isinstance(stamp_ns, int) or not hasattr(kinematics, "linear_velocity"):
            raise SimulatorError(f"AirSim sent {str(told)[:80]!r} where the state of a car was wanted")
        return stamp_ns, kinematics

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set pedals and wheel; reverse is a gear of its own."""
        controls = self._link.api.CarControls(
            throttle=command.throttle,
            steering=command.steer,
            brake=command.brake,
            handbrake=command.hand_brake,
            is_manual_gear=command.reverse,
            manual_gear=-1 if command.reverse else 0,
        )
        with self._link.asking("during the run"):
            self._link.client.setCarControls(controls, self._homes[number].name)

    def step(self) -> None:
        """Go on for a tick, and wait until the program says that it is paused."""
        with self._link.asking("during the run"):
            self._continue()

    def _continue(self) -> None:
        client, settings = self._link.client, self._settings
        if settings.continue_for == FRAMES:
            client.simContinueForFrames(settings.frames)
        else:
            # AirSim takes seconds of the wall clock: it multiplies them by ClockSpeed.
            client.simContinueForTime(settings.control_s / settings.clock_speed)
        until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
        while client.simIsPause() is not True:
            if SYSTEM_CLOCK.monotonic_s() > until_s:
                raise SimulatorError(
                    f"AirSim at {settings.address} was to go on for a moment, but did not pause again "
                    f"within {settings.timeout_s:g} s"
                )
            SYSTEM_CLOCK.sleep_s(_AGAIN_S)

    def run(self) -> None:
        """End the pause."""
        with self._link.asking("at the start"):
            self._link.client.simPause(False)

    def contacts(self) -> list[Contact]:
        """Ask every car for its last contact since it was asked before."""
        found = []
        with self._link.asking("during the run"):
            for number, home in self._homes.items():
                told = self._link.client.simGetCollisionInfo(home.name)
                stamp_ns, name = getattr(told, "time_stamp", None), getattr(told, "object_name", None)
                if not isinstance(stamp_ns, int | float) or not isinstance(name, str):
                    raise SimulatorError(f"AirSim sent {str(told)[:80]!r} where a collision was wanted")
                if told.has_collided:
                    other = self._names.get(name)
                    time_s = (int(stamp_ns) - self._start_ns) / _NANOS
                    found.append(Contact(time_s, number, other, "" if other is not None else name))
        return found

    def close(self) -> None:
        """Let the cars go and the program run on, as it was found."""
        client = self._link.client
        for home in self._homes.values():
            self._link.tidy(lambda name=home.name: client.enableApiControl(False, name))  # type: ignore[misc]
        if self._homes:
            self._link.tidy(lambda: client.simPause(False))
        self._link.close()
