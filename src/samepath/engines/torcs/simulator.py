"""The adapter of TORCS: a race between its own drivers, in a new process for every repeat."""

from collections.abc import Callable, Mapping
from typing import Final

from samepath.core.errors import SimulatorError
from samepath.engines.interface import (
    DURATION,
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_request,
    last_tick,
    no_tick,
)
from samepath.engines.subprocess.project import ProjectProcess, TraceReader, record_contacts
from samepath.engines.torcs.engine import (
    CAR,
    CHANNELS,
    NAME,
    SCENARIO,
    SETTINGS,
    STEPS_PER_TICK,
    TICK_S,
    RaceDriver,
    TorcsSettings,
    actor_type,
    build,
    in_our_frame,
    installation,
    race,
    read_settings,
    rows,
    version_of,
    why_not,
)
from samepath.instrument.traces.recorder import Recorder

# TORCS takes cars out of a race that do not get on; a lap never takes so long.
_LONGEST_LAP_S: Final = 600.0


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
            capabilities=Capabilities(deterministic=True, lossless=True, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say that TORCS or a compiler is not installed, or that it has no such track or driver."""
        return why_not(self._read(settings))

    def prepare(self, request: RunRequest) -> None:
        """Build our module and read TORCS's version."""
        self.described(request.settings)
        build()

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a race in a TORCS of its own."""
        info = self.described(request.settings)
        settings = read_settings(check_request(info, request))
        reason = why_not(settings)
        if reason:
            raise SimulatorError(reason)
        numbers = list(range(1, len(settings.drivers) + 1))
        for actor_id, driver in zip(numbers, settings.drivers, strict=True):
            recorder.actor(actor_id, actor_type(driver))
        until = last_tick(info, request)
        over = DURATION if until is not None else "simulated time is over"
        reader = TraceReader(NAME, CAR, numbers, STEPS_PER_TICK, {"finished": "the race is over", "over": over})
        ticks = until or round(settings.laps * _LONGEST_LAP_S / TICK_S)
        with race(settings, ticks) as torcs:
            for actor_id, driver in zip(numbers, settings.drivers, strict=True):
                _check_driver(torcs, actor_id, driver)
            followed = torcs.follow(reader, on_tick)
        recorder.block(range(1, followed.tick + 1), numbers, rows(reader.cars()))
        record_contacts(recorder, [in_our_frame(one) for one in followed.contacts], followed.tick)
        recorder.end(followed.tick, followed.reason)

    def _read(self, settings: Mapping[str, Scalar]) -> TorcsSettings:
        known = {name: value for name, value in settings.items() if name in self._defaults}
        return read_settings({**self._defaults, **known})


def _check_driver(torcs: ProjectProcess, actor_id: int, driver: RaceDriver) -> None:
    """Is this car driven by whom we think? TORCS decides who stands where."""
    line, wanted = torcs.line(), f"A {actor_id} {driver.module} {driver.index}"
    if line != wanted.encode():
        raise SimulatorError(f"{NAME} wrote {line[:60]!r} where {wanted!r} was wanted")


def _version(settings: TorcsSettings) -> str:
    try:
        return version_of(installation(settings.program))
    except SimulatorError:
        return "not installed"
