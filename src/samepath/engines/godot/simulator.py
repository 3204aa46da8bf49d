"""The adapter of Godot 3: a small project of ours, run headless, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.core.errors import SimulatorError
from samepath.engines.godot.engine import (
    PHYSICS,
    SETTINGS,
    TICK_S,
    GodotSettings,
    check_script,
    find_godot,
    playing,
    read_settings,
    reader_of,
    states,
    version_of,
    why_not,
)
from samepath.engines.interface import RunRequest, Scalar
from samepath.engines.subprocess.project import FrameStats, SubprocessSimulator, record_contacts
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script


class Godot(SubprocessSimulator[GodotSettings]):
    """Godot 3 with its physics engine Bullet.

    In synchronous mode it repeats itself to the bit; in the game loop it promises nothing.
    """

    name = "godot"
    summary = "two cars of Godot 3's Bullet physics, headless: synchronous, or a game loop on the wall clock"
    known = SETTINGS
    tick_s = TICK_S

    def read(self, values: Mapping[str, Scalar]) -> GodotSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def version(self, settings: GodotSettings) -> str:
        """Ask the program."""
        return version_of(find_godot(settings.program, drawn=settings.drawn))

    def why_not(self, settings: GodotSettings) -> str:
        """Say that Godot, or a screen to draw on, is missing or another."""
        return why_not(settings)

    def check(self, script: Script) -> Script:
        """Vehicles and boxes only."""
        return check_script(script)

    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: GodotSettings,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        """Run a script in a Godot of its own."""
        reader = reader_of(script.roles)
        with playing(request.scenario, script, settings, until) as godot:
            followed = godot.follow(reader, on_tick)
        frames = followed.frames or FrameStats(0, 0)
        if settings.drawn and frames.most_drawn == 0:
            words = "look whether OpenGL works, or take rendering none"
            raise SimulatorError(f"Godot drew nothing in {frames.count} frames: {words}")
        recorder.block(range(1, followed.tick + 1), [role.number for role in script.roles], states(reader, script.roles))
        record_contacts(recorder, followed.contacts, followed.tick)
        # Where the controllers hang on frames, how these fell is part of what happened; elsewhere it reaches nothing.
        if not settings.synchronous and settings.controller != PHYSICS:
            recorder.event(followed.tick, "frames", detail=frames.words)
        recorder.end(followed.tick, followed.reason)
