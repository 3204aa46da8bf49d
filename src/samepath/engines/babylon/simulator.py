"""The adapter of Babylon.js: a small project of ours on Node, in a new process for every repeat."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import InputKind
from samepath.engines.interface import SYNCHRONOUS, RunRequest, Scalar, choice, number, one_of
from samepath.engines.resampling import RESAMPLING
from samepath.engines.subprocess.project import (
    IN_STEP,
    FrameStats,
    ProjectEnd,
    ReceivedStates,
    SubprocessContact,
    SubprocessSimulator,
)
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script

NAME: Final = "Babylon.js"
STATE: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY)
CONTROLS: Final = ("throttle_ratio", "steer_ratio", "brake_ratio")
CHANNELS: Final = (*STATE, *CONTROLS)
RESAMPLED_CHANNELS: Final = (*STATE, RESAMPLING, *CONTROLS)
# Babylon's own default of physics steps in a second; a tick of the trace is a whole number of them.
STEPS_PER_S: Final = 60
STEPS_PER_TICK: Final = 3
TICK_S: Final = STEPS_PER_TICK / STEPS_PER_S

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
    """What a study may vary about Babylon.js, checked: how time passes, and where the controllers are called.

    An empty ``program`` is a Node of the usual name, empty ``modules`` are in the usual folder.
    """

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
    def variable_step(self) -> bool:
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


class Babylon(SubprocessSimulator[BabylonSettings]):
    """Babylon.js with its physics engine Havok.

    In synchronous mode it repeats itself to the bit; in its own loops it promises nothing, and its defaults are resampled.
    """

    name = "babylon"
    program = NAME
    summary = "cars of Babylon.js with Havok, headless: synchronous, engine defaults or deterministic lockstep"
    known = SETTINGS
    tick_s = TICK_S

    def read(self, values: Mapping[str, Scalar]) -> BabylonSettings:
        return read_settings(values)

    def version(self, settings: BabylonSettings) -> str:
        from samepath.engines.babylon.engine import version_words

        return version_words(settings)

    def missing(self, settings: BabylonSettings) -> str:
        from samepath.engines.babylon.engine import missing

        return missing(settings)

    def check(self, script: Script) -> None:
        super().check(script)
        for role in script.roles:
            if role.after_collision != "go on":
                raise InputError(
                    f"scenario {script.name}: vehicles that go on after a collision were wanted, "
                    f"but actor {role.number} does not"
                )

    def channels(self, settings: BabylonSettings) -> tuple[str, ...]:
        """Where steps are as long as frames took, how far off a state may be is recorded too."""
        return RESAMPLED_CHANNELS if settings.variable_step else CHANNELS

    def lossless(self, settings: BabylonSettings) -> bool:
        """What is resampled is not."""
        return not settings.variable_step

    def covers(self, settings: BabylonSettings) -> frozenset[InputKind]:
        """Its defaults step as long as frames are; in lockstep, drivers that hang on frames are asked by the wall clock."""
        if settings.variable_step:
            return frozenset()
        in_step = settings.synchronous or settings.controller != FRAME
        return IN_STEP if in_step else frozenset({InputKind.STEP})

    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: BabylonSettings,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        """Follow a run from its first tick to its end, then record it; a frame may reach beyond the run's last tick."""
        from samepath.engines.babylon.engine import BabylonReader, playing

        reader = BabylonReader(script.roles, variable_step=settings.variable_step)
        most = min(round(script.duration_s / TICK_S), until or round(script.duration_s / TICK_S))
        contacts: list[SubprocessContact] = []
        tick, frames, ended = 0, FrameStats(0, 0), None
        with playing(script, settings, until) as node:
            while ended is None:
                item = reader.read(node.line())
                if isinstance(item, ReceivedStates):
                    for reached in item.ticks:
                        if reached <= most:
                            tick = reached
                            on_tick(tick)
                elif isinstance(item, SubprocessContact):
                    contacts.append(item)
                elif isinstance(item, FrameStats):
                    frames = item
                elif isinstance(item, ProjectEnd):
                    ended = item
            if tick < 1:
                raise SimulatorError("Babylon.js ended the run before its first tick")
            if ended.tick != tick:
                raise SimulatorError(f"Babylon.js ended the run at tick {ended.tick}, but had written {tick}")
            node.finish()
        values = reader.values()[:tick]
        recorder.block(range(1, len(values) + 1), [role.number for role in script.roles], values)
        for contact in contacts:
            recorder.event(min(contact.tick, tick), "collision", contact.actor, contact.other, contact.impulse_ns)
        if reader.note:
            recorder.event(tick, "note", detail=reader.note)
        # Where the controllers hang on frames and physics does not, how these fell is part of what happened.
        if settings.mode == LOCKSTEP and settings.controller == FRAME:
            recorder.event(tick, "frames", detail=frames.summary)
        recorder.end(tick, ended.reason)
