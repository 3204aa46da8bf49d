"""Imports run downstream, and importing samepath is light. The code is read as text: nothing is guessed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "samepath"

# Which folders a folder may import from, beside itself.
ALLOWED = {
    "base": set(),
    "traces": {"base"},
    "study": {"base"},
    "conditions": {"base", "traces"},
    "simulators": {"base", "traces", "sim"},
    "sim": {"base", "traces"},
    "analysis": {"base", "traces"},
    "execution": {"base", "study", "conditions", "simulators", "traces"},
    "report": {"base", "traces", "analysis"},
    # cli reaches into sim for two things only, inside functions: samepath serve and samepath record.
    "cli": {"base", "study", "conditions", "execution", "simulators", "traces", "analysis", "report", "sim"},
}
# Modules that must not ask for time, chance or files: the pure core.
PURE = ("analysis", "study/plan.py")
IMPURE_MODULES = {"time", "random", "datetime", "secrets", "subprocess", "socket", "threading", "tempfile"}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_imports_run_downstream(folder):
    for path in (SOURCE / folder).rglob("*.py"):
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] == "samepath" and len(parts) > 1 and (SOURCE / parts[1]).is_dir():
                assert parts[1] in {*ALLOWED[folder], folder}, f"{path.relative_to(SOURCE)} imports {name}"


def test_every_folder_has_its_place_in_the_order():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= set(ALLOWED)


def test_the_pure_core_asks_for_no_time_no_chance_and_no_processes():
    for place in PURE:
        paths = [SOURCE / place] if place.endswith(".py") else list((SOURCE / place).rglob("*.py"))
        for path in paths:
            assert not {name.split(".")[0] for name in imports_of(path)} & IMPURE_MODULES, path


def test_only_the_clock_module_reads_the_clock():
    for path in SOURCE.rglob("*.py"):
        names = {name.split(".")[0] for name in imports_of(path)}
        if path.name != "clock.py":
            assert not names & {"time", "datetime"}, path


def test_nobody_uses_a_global_random_generator():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        assert "np.random.seed" not in text
        assert "np.random.default_rng" not in text, f"{path}: chance comes from base.streams"
        assert "random" not in {name.split(".")[0] for name in imports_of(path)}, path


def test_importing_samepath_and_its_command_line_imports_no_plotting_and_no_simulator():
    script = "import sys, samepath, samepath.cli.app; print(' '.join(sys.modules))"
    loaded = set(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split())
    for heavy in ("matplotlib", "jinja2", "ray", "carla", "pandas", "samepath.engines.reference"):
        assert heavy not in loaded


def test_modules_stay_small_enough_to_read():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 400, path
