"""What a study may vary about any program that is reached from afar."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.scripts import Place
from samepath.simulators.values import choice, number, whole, word

# The tick of a trace, and how often drivers are asked in synchronous mode.
TICK_S: Final = 0.05
# The program stands still while drivers decide.
SYNCHRONOUS: Final = "synchronous"
# The program runs on by itself; drivers are asked at a rate of the wall clock.
GAME_LOOP: Final = "game-loop"
MODES: Final = (SYNCHRONOUS, GAME_LOOP)

SETTINGS: Final[Mapping[str, Scalar]] = {
    "mode": SYNCHRONOUS,
    "host": "127.0.0.1",
    "port": 0,
    "timeout_s": 20.0,
    "level": "",
    "anchor": "",
    "settle_s": 1.0,
    "frame_rate_hz": 20.0,
}


@dataclass(frozen=True)
class RemoteSettings:
    """The same, checked. ``anchor`` is where the first actor starts, None where the script says; ``level`` may be empty."""

    mode: str
    host: str
    port: int
    timeout_s: float
    level: str
    anchor: Place | None
    settle_s: float
    frame_rate_hz: float

    @property
    def synchronous(self) -> bool:
        """Does the program wait for the drivers?"""
        return self.mode == SYNCHRONOUS

    @property
    def time_scale(self) -> float:
        """How many simulated seconds a second of the wall clock is, while the program runs by itself."""
        return 1.0

    @property
    def control_s(self) -> float:
        """How often drivers are asked, in simulated time; in a running program, what they may expect."""
        return TICK_S if self.synchronous else self.time_scale / self.frame_rate_hz

    @property
    def exact(self) -> bool:
        """Does the program stand still exactly at the ticks of a trace?"""
        return False

    @property
    def address(self) -> str:
        """Where the program listens."""
        return f"{self.host}:{self.port}"


def remote_values(values: Mapping[str, Scalar]) -> dict[str, Any]:
    """Check the plain values that all such programs share."""
    return {
        "mode": choice(values, "mode", MODES),
        "host": word(values, "host"),
        "port": whole(values, "port", 1, 65535),
        "timeout_s": number(values, "timeout_s", 0.1, 3600.0),
        "level": str(values["level"]).strip(),
        "anchor": _anchor(str(values["anchor"])),
        "settle_s": number(values, "settle_s", 0.0, 60.0),
        "frame_rate_hz": number(values, "frame_rate_hz", 1.0, 1000.0),
    }


def _anchor(text: str) -> Place | None:
    if not text.strip():
        return None
    try:
        x_m, y_m, yaw_deg = map(float, text.split(","))
    except ValueError:
        raise InputError(f"anchor: x,y,yaw in metres and degrees was wanted, such as 0,0,90, but {text!r} came") from None
    return Place(x_m, y_m, yaw_deg)
