"""A screen in memory for Godot to draw on: an Xvfb of its own for every run, which listens to this machine only."""

from typing import Final

from samepath.simulators.processes import EngineProcess, find_program

HOW_TO: Final = "apt-get install --no-install-recommends xvfb libgl1-mesa-dri"
SIZE: Final = "640x360"
_START_S: Final = 60.0


def find_screen() -> str:
    """Return the path of Xvfb, or say how to get it."""
    return find_program("Xvfb", "A screen in memory", HOW_TO)


def start_screen() -> EngineProcess:
    """Start an Xvfb on the first number that is free."""
    command = [find_screen(), "-displayfd", "1", "-screen", "0", f"{SIZE}x24", "-nolisten", "tcp", "-noreset"]
    return EngineProcess("Xvfb", command)


def display_of(screen: EngineProcess) -> str:
    """Wait until it is there, and return its name."""
    line = screen.line(_START_S) or b""
    if not line.isdigit():
        raise screen.trouble(f"said {line[:60]!r} where the number of its display was wanted", 2.0)
    return f":{int(line)}"


def screen_environment(display: str) -> dict[str, str]:
    """Return what makes OpenGL draw on it, in software whatever graphics card there is."""
    return {"DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1", "WAYLAND_DISPLAY": ""} if display else {}
