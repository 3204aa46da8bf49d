"""The adapter of MetaDrive: a small project of ours in its own interpreter, in a new process for every repeat."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import InputError
from samepath.core.inputs import InputKind
from samepath.engines.interface import GAME_LOOP, SYNCHRONOUS, RunRequest, Scalar, choice, number, whole
from samepath.engines.subprocess.project import CAR, IN_STEP, REASONS, SubprocessSimulator, TraceReader, record_contacts, rows
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script

NAME: Final = "MetaDrive"
# MetaDrive steps its physics 5 times for a decision of its agents, and so do we: its own step of 0.02 s would make that 0.1 s.
STEPS_PER_TICK: Final = 5
STEP_S: Final = 0.01
TICK_S: Final = 0.05

MODES: Final = (SYNCHRONOUS, GAME_LOOP)

_TICKS_AT_ONCE: Final = 20

SETTINGS: Final[Mapping[str, Scalar]] = {
    "python": "",
    "mode": SYNCHRONOUS,
    "time_scale": 1.0,
    "frame_rate_hz": 60.0,
    "max_steps": 10,
    "settle_s": 1.0,
    "timeout_s": 20.0,
}


@dataclass(frozen=True)
class MetaDriveSettings:
    """What a study may vary about MetaDrive, checked.

    ``python`` is empty where the environment says which interpreter to use.
    """

    python: str
    mode: str
    time_scale: float
    frame_rate_hz: float
    max_steps: int
    settle_s: float
    timeout_s: float

    @property
    def synchronous(self) -> bool:
        """Are drivers asked every tick, whatever the wall clock says?"""
        return self.mode == SYNCHRONOUS

    @property
    def frame_s(self) -> float:
        """How long a frame of the game loop is on the wall clock if nothing delays it."""
        return 1.0 / self.frame_rate_hz

    @property
    def control_s(self) -> float:
        """How often drivers are asked, in simulated time; in the game loop, what they may expect."""
        return TICK_S if self.synchronous else self.frame_s * self.time_scale

    @property
    def settle_steps(self) -> int:
        """Physics steps before the run begins, for cars to come to rest on their springs."""
        return round(self.settle_s / STEP_S)

    @property
    def ticks_at_once(self) -> int:
        """How many ticks of the trace are written together; on the wall clock each as it comes."""
        return _TICKS_AT_ONCE if self.synchronous else 1


def read_settings(values: Mapping[str, Scalar]) -> MetaDriveSettings:
    """Check a study's plain values, each alone and then against each other."""
    read = MetaDriveSettings(
        python=str(values["python"]).strip(),
        mode=choice(values, "mode", MODES),
        time_scale=number(values, "time_scale", 0.01, 100.0),
        frame_rate_hz=number(values, "frame_rate_hz", 1.0, 1000.0),
        max_steps=whole(values, "max_steps", 1, 10_000),
        settle_s=number(values, "settle_s", 0.0, 60.0),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
    )
    if read.synchronous and read.time_scale != 1:
        raise InputError("time_scale: synchronous has no wall clock to be faster than: take 1, or mode game-loop")
    return read


class MetaDrive(SubprocessSimulator[MetaDriveSettings]):
    """MetaDrive 0.3 with its physics engine Bullet.

    In synchronous mode it repeats itself to the bit; in the game loop it promises nothing. Bullet's numbers have 32 bits here;
    a car is where MetaDrive has its origin, the middle of its floor.
    """

    name = "metadrive"
    program = NAME
    summary = "two of MetaDrive's vehicles on its open plain: synchronous, or a game loop on the wall clock"
    known = SETTINGS
    tick_s = TICK_S

    def read(self, values: Mapping[str, Scalar]) -> MetaDriveSettings:
        return read_settings(values)

    def version(self, settings: MetaDriveSettings) -> str:
        from samepath.engines.metadrive.engine import find_python, version_of

        return version_of(find_python(settings.python))

    def missing(self, settings: MetaDriveSettings) -> str:
        from samepath.engines.metadrive.engine import missing

        return missing(settings.python)

    def check(self, script: Script) -> None:
        super().check(script)
        if script.boxes:
            raise InputError(
                f"scenario {script.name}: an open plain was wanted, but it has boxes: MetaDrive is driven without any"
            )

    def covers(self, settings: MetaDriveSettings) -> frozenset[InputKind]:
        """Physics has one step in both modes; on the wall clock drivers are asked once a frame."""
        return IN_STEP if settings.synchronous else frozenset({InputKind.STEP})

    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: MetaDriveSettings,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        from samepath.engines.metadrive.engine import playing

        numbers = [role.number for role in script.roles]
        reader = TraceReader(NAME, CAR, numbers, STEPS_PER_TICK, REASONS)
        with playing(script, settings, until) as metadrive:
            run = metadrive.follow(reader, on_tick)
        recorder.block(range(1, run.tick + 1), numbers, rows(reader.cars()))
        record_contacts(recorder, run.contacts, run.tick)
        if run.frames is not None:
            recorder.event(run.tick, "frames", detail=run.frames.summary)
        recorder.end(run.tick, run.reason)
