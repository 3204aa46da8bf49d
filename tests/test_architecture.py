"""Imports run downstream, and importing samepath is light. The code is read as text: nothing is guessed."""

import ast
import re
import subprocess
import sys

import pytest

from tests.support.import_graph import PAGE, SOURCE, edges, imports_of, modules, page_with_drawing, room_of

# Every room, from the bottom up, with the rooms it may import from. Imports inside functions count as well.
# What stands here is all there is: a test below fails for a permission that nobody uses.
WORLD = {"simulator/maps", "simulator/physics", "simulator/world"}
ALLOWED = {
    "core": {"samepath"},
    # OpenSCENARIO files: their places are on OpenDRIVE roads, whose reader is the simulator's. It hands on plain data.
    "openscenario": {"core", "simulator/maps"},
    "scenarios": {"core", "openscenario"},
    "instrument/study": {"core", "instrument/monitors"},
    "instrument/traces": {"core"},
    "simulator/maps": {"core"},
    "simulator/physics": {"core"},
    "simulator/world": {"core", "simulator/maps", "simulator/physics"},
    "simulator/traffic": {"core", *WORLD},
    "simulator/sensors": {"core", "scenarios", *WORLD},
    "simulator/carla": {"core", "simulator/sensors"},
    # Of the sensors, what a scenario's controllers look through.
    "simulator": {"core", "scenarios", "simulator/sensors", "simulator/traffic", *WORLD},
    "simulator/dataset": {"core", "samepath", "scenarios", "simulator", "simulator/physics", "simulator/sensors",
        "simulator/world"},
    "simulator/server": {
        "core", "samepath", "simulator", "simulator/carla", "simulator/sensors", "simulator/traffic", *WORLD,
    },
    # Recordings of both: runs of scenarios, and what a server did for its clients.
    "simulator/replay": {"core", "scenarios", "simulator", "simulator/sensors", "simulator/server", *WORLD},
    "cluster": {"core", "samepath", "simulator/carla", "simulator/maps", "simulator/sensors", "simulator/server"},
    # Sessions of CARLA scripts: a proxy and its recordings, and scripts that are run again against servers of ours.
    "sessions": {"core", "samepath", "simulator/carla", "simulator/server", "instrument/conditions"},
    "engines": {"core", "samepath", "scenarios", "instrument/traces"},
    # Two adapters know more than the interface. samepath's own plays our simulator, as godot's plays Godot. CARLA's reads what
    # CARLA writes, OpenDRIVE and recorder files, with the readers that the server has, and the rigs that ours carry.
    "engines/samepath": {"core", "samepath", "scenarios", "instrument/traces", "engines", "simulator", "simulator/sensors",
        "simulator/maps", "simulator/replay", "simulator/world",
    },
    "engines/carla": {"core", "scenarios", "instrument/traces", "engines", "simulator/carla", "simulator/maps",
        "simulator/sensors",
    },
    "instrument/host": {"core", "samepath", "instrument/traces"},
    "instrument/conditions": {"core", "samepath", "instrument/host"},
    "instrument/execution": {
        "core", "samepath", "engines", "instrument/study", "instrument/traces", "instrument/host", "instrument/conditions",
    },
    "instrument/monitors": {"core", "instrument/traces"},
    "instrument/analysis": {"core", "instrument/monitors", "instrument/traces"},
    "instrument/report": {"core", "samepath", "instrument/analysis"},
    "instrument/viewer": {"core", "instrument/analysis", "instrument/monitors", "instrument/traces"},
}  # fmt: skip
# The tops of the house may use every room; nothing imports them.
TOPS = {"samepath", "instrument", "cli", "client", "pytest_plugin", "__main__"}
# Who may know our simulator. The instrument may not: it sees it as it sees CARLA or Godot, through engines.
KNOW_THE_SIMULATOR = {"cluster", "cli", "client", "samepath", "engines/samepath", "engines/carla", "sessions", "openscenario"}

# Modules that must not ask for time, chance or files: the pure core.
PURE = ("instrument/analysis", "instrument/monitors", "instrument/study/plan.py")
IMPURE_MODULES = {"time", "random", "datetime", "secrets", "subprocess", "socket", "threading", "tempfile"}


def test_every_room_has_its_place_in_the_order():
    assert {room_of(name) for name, _ in modules()} <= {*ALLOWED, *TOPS}


def test_imports_run_downstream():
    wrong = {pair: names for pair, names in edges().items() if pair[0] in ALLOWED and pair[1] not in ALLOWED[pair[0]]}
    assert not wrong


def test_every_permission_is_used():
    """Otherwise the table would promise less than the code keeps."""
    used = set(edges())
    assert not [(room, other) for room, others in ALLOWED.items() for other in others if (room, other) not in used]


def test_no_room_imports_itself_by_a_detour():
    after: dict[str, set[str]] = {}
    for room, other in edges():
        if "samepath" not in (room, other):  # __version__ is everybody's
            after.setdefault(room, set()).add(other)
    while after:
        leaves = [room for room, others in after.items() if not others & set(after)]
        assert leaves, f"a circle among {sorted(after)}"
        for room in leaves:
            del after[room]


def test_only_these_know_our_simulator():
    simulator = {room for room in ALLOWED if room.split("/")[0] == "simulator"}
    found = {room for room, other in edges() if other in simulator and room not in simulator}
    assert found <= KNOW_THE_SIMULATOR


def test_of_the_package_itself_rooms_take_the_version_only():
    for (room, other), names in edges().items():
        if other == "samepath" and room not in TOPS:
            assert not [name for name in names if name.split(": ")[1] not in ("samepath", "samepath.__version__")], names


def test_the_drawing_of_the_imports_is_that_of_the_code():
    text = PAGE.read_text("utf-8")
    assert text == page_with_drawing(text), "draw it anew: python -m tests.support.import_graph"


def test_the_pure_core_asks_for_no_time_no_chance_and_no_processes():
    for place in PURE:
        paths = [SOURCE / place] if place.endswith(".py") else list((SOURCE / place).rglob("*.py"))
        assert paths
        for path in paths:
            assert not {name.split(".")[0] for name in imports_of(path)} & IMPURE_MODULES, path


def test_only_the_clock_module_reads_the_clock():
    for _, path in modules():
        if path.name != "clock.py":
            assert not {name.split(".")[0] for name in imports_of(path)} & {"time", "datetime"}, path


def test_nobody_uses_a_global_random_generator():
    for _, path in modules():
        text = path.read_text("utf-8")
        assert "np.random.seed" not in text
        assert "np.random.default_rng" not in text, f"{path}: chance comes from core.streams"
        assert "random" not in {name.split(".")[0] for name in imports_of(path)}, path


@pytest.mark.parametrize("what", ["samepath", "samepath.cli.app"])
def test_importing_it_imports_no_plotting_and_no_simulator(what):
    script = f"import sys, {what}; print(' '.join(sys.modules))"
    loaded = set(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split())
    heavy = {"matplotlib", "jinja2", "ray", "carla", "pandas", "rapier3d", "numba", "samepath.engines.reference"}
    assert not heavy & loaded


# The same name for the same job in sibling adapters; and CARLA's own struct, which keeps CARLA's name.
SHARED_NAMES = {"Car", "CarParameters", "Actor"}


def test_a_class_has_a_name_of_its_own():
    """Who reads ``Frame`` in one file must not have to know which of five is meant."""
    homes: dict[str, list[str]] = {}
    for module, path in modules():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name for name, places in homes.items() if len(places) > 1} == SHARED_NAMES


def test_no_variable_is_called_one():
    """It says how many there are, which the loop says already, and not what: an actor, a cell, a repeat."""
    # The word is in most texts: only files where something looks assigned to it are parsed.
    loops, assignments = r"\bfor [\w, (*]*\bone\b[\w, )]* in\b", r"^ *[\w, ()]*\bone\b[\w, ()]*(?::.*)? ="
    likely = re.compile(rf"{loops}|{assignments}|\bas one\b|\bone :=", re.MULTILINE)
    for _, path in modules():
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if likely.search(text) else ():
            assigned = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "one"
            assert not assigned, f"{path}:{node.lineno}"
