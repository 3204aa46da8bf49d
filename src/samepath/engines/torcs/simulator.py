"""The adapter of TORCS: a race between its own drivers, in a new process for every repeat."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import InputLog
from samepath.engines.interface import (
    DURATION,
    SYNCHRONOUS,
    TIME_OVER,
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_request,
    choice,
    last_tick,
    no_tick,
    number,
    whole,
    word,
)
from samepath.engines.subprocess.project import IN_STEP, ProjectProcess, TraceReader, record_contacts
from samepath.instrument.traces.recorder import Recorder

NAME: Final = "TORCS"
# TORCS has no world of ours: the nearest to two cars that meet is two of its drivers who start together and want the same line.
SCENARIO: Final = "two-car-race"
CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY, "wz_degps", "throttle_ratio", "steer_ratio", "brake_ratio", "gear_index")
# TORCS takes cars out of a race that do not get on; a lap never takes so long.
_LONGEST_LAP_S: Final = 600.0


# Fixed in TORCS's source: physics steps every 2 ms, robots are asked every tenth of them.
STEP_S: Final = 0.002
STEPS_PER_TICK: Final = 25
TICK_S: Final = STEP_S * STEPS_PER_TICK

MODES: Final = (SYNCHRONOUS,)
MOST_CARS: Final = 10

SETTINGS: Final[Mapping[str, Scalar]] = {
    "program": "",
    "mode": SYNCHRONOUS,
    "track": "aalborg",
    "drivers": "inferno 1, olethros 1",
    "laps": 1,
    "timeout_s": 20.0,
}
_TRACK: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DRIVER: Final = re.compile(r"([A-Za-z0-9_-]{1,31})\s+(\d{1,3})")


@dataclass(frozen=True)
class RaceDriver:
    """One of the drivers a robot of TORCS offers: the robot's name and the driver's number in it."""

    module: str
    index: int


@dataclass(frozen=True)
class TorcsSettings:
    """What a study may vary about TORCS, checked: who races where, and for how long.

    ``program`` is empty where TORCS is to be found by its usual name.
    """

    program: str
    track: str
    drivers: tuple[RaceDriver, ...]
    laps: int
    timeout_s: float


def read_settings(values: Mapping[str, Scalar]) -> TorcsSettings:
    """Check a study's plain values."""
    choice(values, "mode", MODES)
    return TorcsSettings(
        program=str(values["program"]).strip(),
        track=_track(word(values, "track")),
        drivers=_drivers(word(values, "drivers")),
        laps=whole(values, "laps", 1, 100),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
    )


def _track(name: str) -> str:
    if not _TRACK.fullmatch(name):
        raise InputError(f"track: the name of a track was wanted, such as aalborg, but {name!r} came")
    return name


def _drivers(text: str) -> tuple[RaceDriver, ...]:
    found = [_DRIVER.fullmatch(part.strip()) for part in text.split(",")]
    drivers = [RaceDriver(match[1], int(match[2])) for match in found if match is not None]
    if len(drivers) < len(found) or not 2 <= len(drivers) <= MOST_CARS or len(set(drivers)) < len(drivers):
        raise InputError(
            f"drivers: 2 to {MOST_CARS} different ones were wanted, each a robot and a number, such as "
            f"'{SETTINGS['drivers']}', but {text!r} came"
        )
    return tuple(drivers)


class Torcs(Simulator):
    """TORCS 1.3.7 with its physics simuv2; ``defaults`` replace those of the settings. It repeats itself to the bit."""

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; where there is no TORCS, its version says so."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings: the version is that of the program."""
        read = self._read(settings)
        return SimulatorInfo(
            name="torcs",
            version=_version(read),
            summary="two of TORCS's own drivers race, without a window: fixed steps of 2 ms, no clock in it",
            scenarios=(SCENARIO,),
            step_s=TICK_S,
            channels=CHANNELS,
            # Its own robots drive by its own steps: to play a run again from what went in, nothing, is to run it again.
            capabilities=Capabilities(deterministic=True, lossless=True, collisions=True, durations=True, inputs=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say that TORCS or a compiler is not installed, or that it has no such track or driver."""
        from samepath.engines.torcs.engine import missing

        return missing(self._read(settings))

    def prepare(self, request: RunRequest) -> None:
        """Build our module and read TORCS's version."""
        from samepath.engines.torcs.engine import build

        self.described(request.settings)
        build()

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a race in a TORCS of its own."""
        from samepath.engines.torcs.engine import CAR, actor_type, in_our_frame, race, rows

        info = self.described(request.settings)
        settings = read_settings(check_request(info, request))
        reason = self.unavailable(request.settings)
        if reason:
            raise SimulatorError(reason)
        numbers = list(range(1, len(settings.drivers) + 1))
        for actor_id, driver in zip(numbers, settings.drivers, strict=True):
            recorder.actor(actor_id, actor_type(driver))
        until = last_tick(info, request)
        over = DURATION if until is not None else TIME_OVER
        reader = TraceReader(NAME, CAR, numbers, STEPS_PER_TICK, {"finished": "the race is over", "over": over})
        ticks = until or round(settings.laps * _LONGEST_LAP_S / TICK_S)
        with race(settings, ticks) as torcs:
            for actor_id, driver in zip(numbers, settings.drivers, strict=True):
                _check_driver(torcs, actor_id, driver)
            run = torcs.follow(reader, on_tick)
        recorder.block(range(1, run.tick + 1), numbers, rows(reader.cars()))
        record_contacts(recorder, [in_our_frame(contact) for contact in run.contacts], run.tick)
        # Steps of 2 ms, as many as are asked for, and drivers of its own: nothing goes in from outside.
        recorder.inputs(InputLog(covers=IN_STEP))
        recorder.end(run.tick, run.reason)

    def _read(self, settings: Mapping[str, Scalar]) -> TorcsSettings:
        known = {name: value for name, value in settings.items() if name in self._defaults}
        return read_settings({**self._defaults, **known})


def _check_driver(torcs: ProjectProcess, actor_id: int, driver: RaceDriver) -> None:
    """Is this car driven by whom we think? TORCS decides who stands where."""
    line, wanted = torcs.line(), f"A {actor_id} {driver.module} {driver.index}"
    if line != wanted.encode():
        raise SimulatorError(f"{NAME} wrote {line[:60]!r} where {wanted!r} was wanted")


def _version(settings: TorcsSettings) -> str:
    from samepath.engines.torcs.engine import installation, version_of

    try:
        return version_of(installation(settings.program))
    except SimulatorError:
        return "not installed"
