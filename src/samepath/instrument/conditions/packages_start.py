"""Runs a module of samepath in another installation: ``PYTHON packages_start.py TASK MODULE ARGUMENTS``.

Run by its path in an interpreter that may know nothing of samepath, so it imports nothing but the standard library before the
module path is right. samepath itself is imported first, from where the study's own process has it: its submodules then come
from there too, whatever lies in the other installation, and both ends of the connection speak the same protocol. After that the
other installation comes first for every import, and what it does not have is taken from the study's own.
"""

import json
import runpy
import sys
from typing import Any


def set_path(task: dict[str, Any]) -> None:
    """Put the module path in order; ``task`` is what :func:`samepath.instrument.conditions.packages.start` made."""
    # The folder of this file, and what PYTHONPATH adds, would come before the installation that was asked for.
    theirs = sys.path[1:]
    if sys.implementation.cache_tag == task["cache_tag"]:
        sys.path[:] = [task["source"], *theirs]
        import samepath

        ours = [entry for entry in task["path"] if entry not in (*task["folders"], *theirs)]
        sys.path[:] = [*task["folders"], *(entry for entry in theirs if entry not in task["folders"]), *ours]
        return
    # Another version of Python cannot load what was compiled for ours: samepath must be installed there, in our version.
    sys.path[:] = [*task["folders"], *(entry for entry in theirs if entry not in task["folders"])]
    here = f"Python {sys.version_info.major}.{sys.version_info.minor} in {sys.prefix}"
    try:
        import samepath
    except ImportError:
        sys.exit(f"{here} is another than the study's: install samepath {task['samepath']} there too, with its engine")
    if samepath.__version__ != task["samepath"]:
        sys.exit(f"{here} has samepath {samepath.__version__}, but {task['samepath']} runs the study: install that there")


def main() -> None:
    """Become the module."""
    task, module = json.loads(sys.argv[1]), sys.argv[2]
    set_path(task)
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
