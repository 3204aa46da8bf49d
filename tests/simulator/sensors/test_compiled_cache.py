"""Code that two processes need for the first time at once: one builds and keeps it, the other waits and loads it."""

import os
import subprocess
import sys

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from samepath.core.clock import SYSTEM_CLOCK
from samepath.simulator.sensors.raster import compiled

here, other = (Path(name) for name in sys.argv[1:])
keep = compiled._Cache.save_overload

def keep_late(self, *what):
    while not other.exists():
        SYSTEM_CLOCK.sleep_s(0.01)
    SYSTEM_CLOCK.sleep_s(0.3)  # the other one has come: time enough to look for code that is not kept yet
    keep(self, *what)

def twice(a, to):
    for k in range(to.shape[0]):
        to[k] = a[k] + a[k]

compiled._Cache.save_overload = keep_late
function = compiled.compiled_entry(twice)
a, to = np.arange(4.0), np.zeros(4)
here.touch()
function(a, to)
print(to.tolist(), sum(function.stats.cache_misses.values()))
"""


def test_one_of_two_processes_builds_and_the_other_waits_for_it(tmp_path):
    script = tmp_path / "first_use.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "SAMEPATH_CACHE_DIR": str(tmp_path)}
    names = [str(tmp_path / name) for name in ("one", "other")]
    both = [
        subprocess.Popen([sys.executable, str(script), *order], env=environment, stdout=subprocess.PIPE, text=True)
        for order in (names, names[::-1])
    ]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert sorted(said) == ["[0.0, 2.0, 4.0, 6.0] 0\n", "[0.0, 2.0, 4.0, 6.0] 1\n"]
