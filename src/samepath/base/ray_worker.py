"""Inside a process of Ray's: taking back what Ray has set there, so that what runs in it finds its host as without Ray."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def undo_environment() -> None:
    """Give this process the variables and the module path that it would have without Ray."""
    with suppress(OSError):  # without it, what Ray has set stays, and shows in what is read back
        entries = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
        before = {os.fsdecode(name): os.fsdecode(value) for name, _, value in (one.partition(b"=") for one in entries)}
        for name, value in without_ray(dict(os.environ), before).items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    own = _ray_folder()
    sys.path[:] = [place for place in sys.path if own is None or own not in (Path(place), *Path(place).parents)]


def undo_priority() -> tuple[int, int]:
    """Go back to the priority that Ray itself was started with, if the kernel permits; return that one and the one there is."""
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
    return wanted, os.getpriority(os.PRIO_PROCESS, 0)


def without_ray(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str | None]:
    """Return what to change in an environment to have the one that Ray was started with; None is to be removed."""
    return {name: before.get(name) for name, value in now.items() if before.get(name) != value}


def _ray_folder() -> Path | None:
    found = getattr(sys.modules.get("ray"), "__file__", None)
    return None if found is None else Path(found).parent
