"""What a study may vary about an engine in this process: what drives its time, and how finely it steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.simulators.interface import Scalar
from samepath.simulators.values import choice, number, whole

# The tick of a trace, and how often drivers are asked in synchronous mode.
TICK_S: Final = 0.05
# Fixed steps, as many as a tick has, as fast as they go.
SYNCHRONOUS: Final = "synchronous"
# Frames on the wall clock, drivers asked once a frame; as many fixed steps as fit into the frame's time.
GAME_LOOP: Final = "game-loop"
# Frames on the wall clock, drivers asked once a frame; one step as long as the frame took.
VARIABLE_STEP: Final = "variable-step"

SETTINGS: Final[Mapping[str, Scalar]] = {
    "mode": SYNCHRONOUS,
    "substeps": 6,
    "frame_rate_hz": 60.0,
    "time_scale": 1.0,
    "max_steps": 10,
}


@dataclass(frozen=True)
class PlaySettings:
    """The same, checked. A tick has ``substeps`` fixed steps, a frame has at most ``max_steps`` of them.

    ``time_scale`` is how many simulated seconds a second of the wall clock is.
    """

    mode: str
    substeps: int
    frame_rate_hz: float
    time_scale: float
    max_steps: int

    @property
    def step_s(self) -> float:
        """How long a fixed step is."""
        return TICK_S / self.substeps

    @property
    def frame_s(self) -> float:
        """How long a frame is on the wall clock if nothing delays it."""
        return 1.0 / self.frame_rate_hz

    @property
    def control_s(self) -> float:
        """How often drivers are asked, in simulated time; on the wall clock, what they may expect."""
        return TICK_S if self.mode == SYNCHRONOUS else self.frame_s * self.time_scale


def read_settings(values: Mapping[str, Scalar], modes: tuple[str, ...]) -> PlaySettings:
    """Check a study's plain values."""
    return PlaySettings(
        mode=choice(values, "mode", modes),
        substeps=whole(values, "substeps", 1, 1000),
        frame_rate_hz=number(values, "frame_rate_hz", 1.0, 1000.0),
        time_scale=number(values, "time_scale", 0.01, 100.0),
        max_steps=whole(values, "max_steps", 1, 10_000),
    )
