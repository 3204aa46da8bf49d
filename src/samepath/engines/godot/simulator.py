"""The adapter of Godot 3: a small project of ours, run headless, in a new process for every repeat."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError, SimulatorError
from samepath.core.inputs import InputKind
from samepath.engines.interface import GAME_LOOP, SYNCHRONOUS, RunRequest, Scalar, choice, number, one_of
from samepath.engines.subprocess.project import IN_STEP, FrameStats, SubprocessSimulator, record_contacts
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script

NAME: Final = "Godot"
# Godot's own default of physics steps in a second; a tick of the trace is a whole number of them.
STEPS_PER_S: Final = 60
STEPS_PER_TICK: Final = 3
TICK_S: Final = STEPS_PER_TICK / STEPS_PER_S

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
    """What a study may vary about Godot, checked: how time passes, where controllers are called, whether frames are drawn.

    ``program`` is empty where Godot is to be found by its usual names.
    """

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


class Godot(SubprocessSimulator[GodotSettings]):
    """Godot 3 with its physics engine Bullet.

    In synchronous mode it repeats itself to the bit; in the game loop it promises nothing.
    """

    name = "godot"
    program = NAME
    summary = "two cars of Godot 3's Bullet physics, headless: synchronous, or a game loop on the wall clock"
    known = SETTINGS
    tick_s = TICK_S

    def read(self, values: Mapping[str, Scalar]) -> GodotSettings:
        return read_settings(values)

    def version(self, settings: GodotSettings) -> str:
        from samepath.engines.godot.engine import find_godot, version_of

        return version_of(find_godot(settings.program, drawn=settings.drawn))

    def covers(self, settings: GodotSettings) -> frozenset[InputKind]:
        """Physics has one step in every mode; drivers that hang on frames are asked by the wall clock."""
        in_step = settings.synchronous or settings.controller == PHYSICS
        return IN_STEP if in_step else frozenset({InputKind.STEP})

    def missing(self, settings: GodotSettings) -> str:
        from samepath.engines.godot.engine import missing

        return missing(settings)

    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: GodotSettings,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        from samepath.engines.godot.engine import playing, reader_of, states

        reader = reader_of(script.roles)
        with playing(request.scenario, script, settings, until) as godot:
            run = godot.follow(reader, on_tick)
        frames = run.frames or FrameStats(0, 0)
        if settings.drawn and frames.most_drawn == 0:
            advice = "look whether OpenGL works, or take rendering none"
            raise SimulatorError(f"Godot drew nothing in {frames.count} frames: {advice}")
        recorder.block(range(1, run.tick + 1), [role.number for role in script.roles], states(reader, script.roles))
        record_contacts(recorder, run.contacts, run.tick)
        # Where the controllers hang on frames, how these fell is part of what happened; elsewhere it reaches nothing.
        if not settings.synchronous and settings.controller != PHYSICS:
            recorder.event(run.tick, "frames", detail=frames.summary)
        recorder.end(run.tick, run.reason)
