"""What a study may vary about Babylon.js: how time passes, and where the controllers are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.values import choice, number, one_of

# Babylon's own default of physics steps in a second; a tick of the trace is a whole number of them.
STEPS_PER_S: Final = 60
STEPS_PER_TICK: Final = 3
TICK_S: Final = STEPS_PER_TICK / STEPS_PER_S

# A frame is one fixed step, as fast as they go.
SYNCHRONOUS: Final = "synchronous"
# What the engine does by itself: frames on the wall clock, one physics step in each, as long as the frame took.
DEFAULTS: Final = "defaults"
# The same frames, each with as many fixed steps as are due.
LOCKSTEP: Final = "lockstep"
PHYSICS, FRAME = "physics", "frame"
MODES: Final = (SYNCHRONOUS, DEFAULTS, LOCKSTEP)
CONTROLLERS: Final = (PHYSICS, FRAME)
# The engine's 16 ms between frames stay whole milliseconds, which is what timers of Node are set in.
TIME_SCALES: Final = (1, 2, 4)

_STATES_AT_ONCE: Final = 100

SETTINGS: Final[Mapping[str, Scalar]] = {
    "program": "",
    "modules": "",
    "mode": SYNCHRONOUS,
    "controller": PHYSICS,
    "time_scale": 1,
    "settle_s": 0.5,
    "timeout_s": 20.0,
}


@dataclass(frozen=True)
class BabylonSettings:
    """The same, checked. An empty ``program`` is a Node of the usual name, empty ``modules`` are in the usual folder."""

    program: str
    modules: str
    mode: str
    controller: str
    time_scale: int
    settle_s: float
    timeout_s: float

    @property
    def synchronous(self) -> bool:
        """Does a step follow the other, whatever the wall clock says?"""
        return self.mode == SYNCHRONOUS

    @property
    def stretched(self) -> bool:
        """Is a physics step as long as a frame took, so that a trace has to be resampled?"""
        return self.mode == DEFAULTS

    @property
    def states_at_once(self) -> int:
        """How many states of the trace are written together; on the wall clock each as it comes."""
        return _STATES_AT_ONCE if self.synchronous else 1

    @property
    def settle_steps(self) -> int:
        """Physics steps before the run begins, fixed ones in every mode, for the cars to come to rest on the ground."""
        return round(self.settle_s * STEPS_PER_S)


def read_settings(values: Mapping[str, Scalar]) -> BabylonSettings:
    """Check a study's plain values, each alone and then against each other."""
    read = BabylonSettings(
        program=str(values["program"]).strip(),
        modules=str(values["modules"]).strip(),
        mode=choice(values, "mode", MODES),
        controller=choice(values, "controller", CONTROLLERS),
        time_scale=one_of(values, "time_scale", TIME_SCALES),
        settle_s=number(values, "settle_s", 0.0, 60.0),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
    )
    if read.synchronous and read.time_scale != 1:
        raise InputError("time_scale: synchronous has no wall clock to be faster than: take 1, or mode defaults or lockstep")
    return read
