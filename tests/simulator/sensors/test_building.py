"""The code of sensors is built ahead: all of it, once, also where the cache is damaged, partly there, or can only be read."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

EVERY_KIND = """
from samepath.simulator.sensors.building import build_code
from samepath.simulator.sensors.raster import compiled

entries = []
enable = compiled._Dispatcher.enable_caching

def collect(self):
    entries.append(self)
    enable(self)

compiled._Dispatcher.enable_caching = collect
build_code(print)

def signatures():
    return {(entry.py_func.__module__, entry.py_func.__name__, str(found)) for entry in entries for found in entry.signatures}

built = signatures()
assert len(built) >= 9, built
from tests.support.sensor_bytes import in_a_rig, on_the_wire
in_a_rig(2)
on_the_wire()
print("later:", sorted(signatures() - built))
"""

USE = """
import os
import numpy as np
from samepath.simulator.sensors.raster import compiled

def twice(a, to):
    for k in range(to.shape[0]):
        to[k] = a[k] + a[k]

compiled.PROGRESS.log = lambda line: print("log:", line)
exec(os.environ.get("FIRST", ""))
function = compiled.compiled_entry(twice)
to = np.zeros(4)
function(np.arange(4.0), to)
print(to.tolist(), "built" if sum(function.stats.cache_misses.values()) else "loaded")
"""
RESULT = "[0.0, 2.0, 4.0, 6.0]"


def run(script, folder, first=""):
    """Run a script whose code is kept in a folder, after ``first``; the lines that it printed."""
    path = folder / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "SAMEPATH_CACHE_DIR": str(folder), "FIRST": first, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture
def kept(tmp_path):
    """A folder in which the code of one function is kept."""
    first = run(USE, tmp_path)
    assert first[0].startswith("log: building the code of sensors for x86-64"), first
    assert f"kept in {tmp_path / 'samepath'}" in first[0]
    assert first[1:] == [f"{RESULT} built"]
    assert run(USE, tmp_path) == [f"{RESULT} loaded"]
    return tmp_path


def test_no_kind_of_sensor_uses_code_that_was_not_built_ahead():
    done = subprocess.run(
        [sys.executable, "-c", EVERY_KIND], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "later: []"


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("left", [0, 40])
def test_code_that_a_power_cut_left_half_is_built_again(kept, ending, left):
    (file,) = kept.rglob(f"*{ending}")
    file.write_bytes(file.read_bytes()[:left])
    said = run(USE, kept)
    assert said[0].startswith("log: the code of twice in ") and "cannot be read" in said[0]
    assert said[-1] == f"{RESULT} built"
    assert run(USE, kept) == [f"{RESULT} loaded"]


def test_code_that_is_partly_there_is_completed(kept):
    (file,) = kept.rglob("*.nbc")
    file.unlink()
    assert run(USE, kept)[-1] == f"{RESULT} built"
    assert run(USE, kept) == [f"{RESULT} loaded"]


def test_code_in_a_folder_that_can_only_be_read_is_loaded(kept):
    # Permissions do not bind root, who may run this test.
    assert run(USE, kept, first="os.access = lambda *_: False") == [f"{RESULT} loaded"]


def test_code_that_others_can_change_is_not_loaded(kept):
    (file,) = kept.rglob("*.nbc")
    file.parent.chmod(0o777)
    said = run(USE, kept)
    assert "not kept: no folder can be written" in said[0]
    assert said[1:] == [f"{RESULT} built"]


FULL = """
import errno
def fail(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
compiled.caching.IndexDataCacheFile.save = fail
"""


def test_a_full_disk_costs_only_what_is_kept(tmp_path):
    said = run(USE, tmp_path, first=FULL)
    assert "cannot be kept in" in said[1] and "No space left on device" in said[1]
    assert said[2] == f"{RESULT} built"
