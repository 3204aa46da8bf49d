"""What lies behind something is not drawn: that saves time and changes no bit of any channel.

Without the compiler, in a process of its own, so that the same code can be run with the shortcut and without it. The C++ core
has no such shortcut at all, and gives the same bytes too (``test_cuda_core.py``).
"""

import json
import os
import subprocess
import sys

from tests.support import ROOT

PROGRAM = """
import json
from samepath.simulator.sensors.raster import software
from tests.support.camera_scenes import EVERYTHING, cameras, digest, street_scene

shortcut, answers = software.is_hidden, []

def counted(*arguments):
    answers.append(bool(shortcut(*arguments)))
    return answers[-1]

scene, eyes, renderer = street_scene("noon"), cameras(EVERYTHING, 24, 16), software.SoftwareRenderer(1)
software.is_hidden = counted
found = {"with": [digest([frame]) for frame in renderer.render(scene, eyes)], "hidden": sum(answers), "asked": len(answers)}
software.is_hidden = lambda *arguments: False
found["without"] = [digest([frame]) for frame in renderer.render(scene, eyes)]
print(json.dumps(found))
"""


def test_leaving_out_what_is_hidden_changes_no_bit():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["with"] == found["without"]
    # It is asked for all that is in sight, and something is hidden: the comparison has something to compare.
    assert found["asked"] > 200 and 5 <= found["hidden"] < found["asked"]
