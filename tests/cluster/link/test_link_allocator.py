"""Memory of images that come and go is kept by the process."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from samepath.cluster.link import hold_memory
if sys.argv[1] == "hold" and not hold_memory():
    sys.exit("no such setting")
def tick():
    images = [bytes(bytearray(5_529_600)) for _ in range(8)]
for _ in range(3):
    tick()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    tick()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how):
    command = [sys.executable, "-c", SCRIPT, how]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.stderr.strip() == "no such setting":
        pytest.skip("the C library has no such setting")
    return int(found.stdout)


def test_images_that_come_and_go_cost_no_page_faults():
    assert faults("leave") > 20 * faults("hold")
