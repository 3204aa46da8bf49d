"""Every simulator of the table can be constructed and described where its engine is not installed."""

import subprocess
import sys
from pathlib import Path

from samepath import engines
from samepath.engines.registry import BUILT_IN

ENGINES = ("carla", "cosysairsim", "beamngpy", "gymnasium", "highway_env", "mujoco", "panda3d", "pymunk", "libsumo")


def test_constructing_and_describing_imports_no_engine():
    script = (
        "import sys\n"
        f"for name in {ENGINES}: sys.modules[name] = None\n"  # importing one of them fails
        "from samepath.engines import registry\n"
        f"for name in {[*BUILT_IN]}:\n"
        "    with registry.create(name) as simulator: print(simulator.info().name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*BUILT_IN]


def test_every_engine_has_the_same_files():
    """Having read one folder you can read them all: what an engine is and its settings, and how it is driven."""
    folder = Path(engines.__file__).parent
    names = {target.removeprefix("samepath.engines.").partition(":")[0].partition(".")[0] for target in BUILT_IN.values()}
    for name in sorted(names - {"reference", "samepath"}):
        files = {path.name for path in (folder / name).glob("*.py")}
        assert {"__init__.py", "simulator.py", "engine.py"} <= files, name
