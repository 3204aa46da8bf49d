"""BeamNG.tech's process, where the user wants it started: found in its home, started with a run, and ended with it."""

from pathlib import Path
from typing import Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SimulatorError
from samepath.simulators.beamng.settings import LOOPBACK, BeamNGSettings
from samepath.simulators.processes import EngineProcess
from samepath.simulators.remote import find_server

NAME: Final = "BeamNG.tech"
BINARIES: Final = ("BinLinux/BeamNG.tech.x64", "BinLinux/BeamNG.drive.x64")
HOW_TO: Final = "start it with -tcom -tport PORT, or give its folder as home"
_AGAIN_S: Final = 0.05


def binary_of(home: str) -> Path:
    """Return the program in a home folder."""
    for name in BINARIES:
        path = Path(home).expanduser() / name
        if path.is_file():
            return path
    raise SimulatorError(f"{NAME} is not installed ({home} has no {BINARIES[0]}): give the folder it was unpacked to as home")


def started(settings: BeamNGSettings) -> EngineProcess:
    """Start the program without a window, and wait until it listens."""
    _check_free(settings)
    arguments = ["-nosteam", "-tcom", "-tport", str(settings.port), "-tcom-listen-ip", LOOPBACK[0], "-headless"]
    process = EngineProcess(NAME, [str(binary_of(settings.home)), *arguments], talks=False)
    until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
    try:
        while True:
            try:
                find_server(NAME, settings.host, settings.port, HOW_TO)
            except SimulatorError as error:
                if not process.running:
                    raise process.trouble("ended before it listened") from error
                if SYSTEM_CLOCK.monotonic_s() > until_s:
                    raise process.trouble(f"does not listen at {settings.address} after {settings.timeout_s:g} s") from error
            else:
                return process
            SYSTEM_CLOCK.sleep_s(_AGAIN_S)
    except BaseException:
        process.close()
        raise


def _check_free(settings: BeamNGSettings) -> None:
    try:
        find_server(NAME, settings.host, settings.port, HOW_TO)
    except SimulatorError:
        return
    raise SimulatorError(f"somebody listens at {settings.address} already: give another port, or leave out home to use it")
