"""What a study may vary about Godot: how time passes, and where the controllers are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.values import choice, number, one_of

NAME: Final = "Godot"
# Godot's own default of physics steps in a second; a tick of the trace is a whole number of them.
STEPS_PER_S: Final = 60
STEPS_PER_TICK: Final = 3
TICK_S: Final = STEPS_PER_TICK / STEPS_PER_S

SYNCHRONOUS: Final = "synchronous"
GAME_LOOP: Final = "game-loop"
PHYSICS, FRAME, EXTERNAL = "physics", "frame", "external"
MODES: Final = (SYNCHRONOUS, GAME_LOOP)
CONTROLLERS: Final = (PHYSICS, FRAME, EXTERNAL)
# Without a window, or drawn by OpenGL ES 2 in software onto a screen in memory.
NONE, GLES2 = "none", "gles2"
RENDERINGS: Final = (NONE, GLES2)
# Powers of two: a step divided and multiplied by one keeps its bits.
TIME_SCALES: Final = (1, 2, 4, 8)

_TICKS_AT_ONCE: Final = 100

SETTINGS: Final[Mapping[str, Scalar]] = {
    "program": "",
    "mode": SYNCHRONOUS,
    "controller": PHYSICS,
    "rendering": NONE,
    "time_scale": 1,
    "frame_sleep_ms": 6.9,
    "settle_s": 0.5,
    "timeout_s": 20.0,
}


@dataclass(frozen=True)
class GodotSettings:
    """The same, checked. ``program`` is empty where Godot is to be found by its usual names."""

    program: str
    mode: str
    controller: str
    rendering: str
    time_scale: int
    frame_sleep_ms: float
    settle_s: float
    timeout_s: float

    @property
    def synchronous(self) -> bool:
        """Does a frame follow the other with a physics step each, whatever the wall clock says?"""
        return self.mode == SYNCHRONOUS

    @property
    def drawn(self) -> bool:
        """Is every frame drawn?"""
        return self.rendering != NONE

    @property
    def frame_sleep_us(self) -> int:
        """How long the engine sleeps after a frame; not at all where nobody waits for it."""
        return 0 if self.synchronous else round(self.frame_sleep_ms * 1000)

    @property
    def ticks_at_once(self) -> int:
        """How many ticks of the trace are written together; on the wall clock, and where frames take long, each as it comes."""
        return _TICKS_AT_ONCE if self.synchronous and not self.drawn else 1

    @property
    def settle_steps(self) -> int:
        """Physics steps before the run begins, for the cars to come to rest on their springs."""
        return round(self.settle_s * STEPS_PER_S)


def read_settings(values: Mapping[str, Scalar]) -> GodotSettings:
    """Check a study's plain values, each alone and then against each other."""
    read = GodotSettings(
        program=str(values["program"]).strip(),
        mode=choice(values, "mode", MODES),
        controller=choice(values, "controller", CONTROLLERS),
        rendering=choice(values, "rendering", RENDERINGS),
        time_scale=one_of(values, "time_scale", TIME_SCALES),
        frame_sleep_ms=number(values, "frame_sleep_ms", 0.0, 1000.0),
        settle_s=number(values, "settle_s", 0.0, 60.0),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
    )
    if read.synchronous and read.controller == EXTERNAL:
        raise InputError(
            "controller: external answers when it answers, which synchronous does not wait for: take mode game-loop"
        )
    if read.synchronous and read.time_scale != 1:
        raise InputError("time_scale: synchronous has no wall clock to be faster than: take 1, or mode game-loop")
    return read
