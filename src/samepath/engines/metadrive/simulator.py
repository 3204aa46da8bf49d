"""The adapter of MetaDrive: a small project of ours in its own interpreter, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.engines.interface import RunRequest, Scalar
from samepath.engines.metadrive.engine import (
    NAME,
    SETTINGS,
    STEPS_PER_TICK,
    TICK_S,
    MetaDriveSettings,
    check_script,
    find_python,
    playing,
    read_settings,
    version_of,
    why_not,
)
from samepath.engines.subprocess.project import CAR, REASONS, SubprocessSimulator, TraceReader, record_contacts, rows
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script


class MetaDrive(SubprocessSimulator[MetaDriveSettings]):
    """MetaDrive 0.3 with its physics engine Bullet.

    In synchronous mode it repeats itself to the bit; in the game loop it promises nothing. Bullet's numbers have 32 bits here;
    a car is where MetaDrive has its origin, the middle of its floor.
    """

    name = "metadrive"
    summary = "two of MetaDrive's vehicles on its open plain: synchronous, or a game loop on the wall clock"
    known = SETTINGS
    tick_s = TICK_S

    def read(self, values: Mapping[str, Scalar]) -> MetaDriveSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def version(self, settings: MetaDriveSettings) -> str:
        """Ask its environment."""
        return version_of(find_python(settings.python))

    def why_not(self, settings: MetaDriveSettings) -> str:
        """Say that MetaDrive is missing or another."""
        return why_not(settings.python)

    def check(self, script: Script) -> Script:
        """Vehicles on a plain only."""
        return check_script(script)

    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: MetaDriveSettings,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        """Run a script in a MetaDrive of its own."""
        numbers = [role.number for role in script.roles]
        reader = TraceReader(NAME, CAR, numbers, STEPS_PER_TICK, REASONS)
        with playing(script, settings, until) as metadrive:
            followed = metadrive.follow(reader, on_tick)
        recorder.block(range(1, followed.tick + 1), numbers, rows(reader.cars()))
        record_contacts(recorder, followed.contacts, followed.tick)
        if followed.frames is not None:
            recorder.event(followed.tick, "frames", detail=followed.frames.words)
        recorder.end(followed.tick, followed.reason)
