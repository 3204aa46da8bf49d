"""Every sensor gives the same bytes in fresh processes, whatever the C library, numpy and the compiler may choose."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

SCRIPT = """
import hashlib
from ray_scenes import crowd
from samepath.sim.sensors.gnss import Gnss, Origin
from samepath.sim.sensors.imu import Imu
from samepath.sim.sensors.lidar import Lidar
from samepath.sim.sensors.noise import Chance
from samepath.sim.sensors.radar import Radar
from samepath.sim.sensors.rays.caster import RayCaster
from samepath.sim.world.records import Pose, Vector
import sys

digest = hashlib.blake2b(digest_size=16)
caster, scene, pose = RayCaster(int(sys.argv[1])), crowd(), Pose(1.3, -2.7, 2.1, 3.0, -4.0, 25.0)
noisy = {"channels": 16, "points_per_second": 160_000, "range": 70.0, "noise_stddev": 0.03, "noise_seed": 11}
lidars = Lidar.from_attributes(noisy), Lidar.from_attributes({"channels": 8, "range": 70.0}, semantic=True)
radar = Radar.from_attributes({"points_per_second": 8000, "horizontal_fov": 90})
imu = Imu.from_attributes({f"noise_{kind}_stddev_{axis}": 0.5 for kind in ("accel", "gyro") for axis in "xyz"})
gnss = Gnss.from_attributes({"noise_lat_stddev": 1e-4, "noise_alt_stddev": 1.0})
for tick in range(4):
    chance, speeds = Chance(0, 1, tick), {k: Vector(k, -k, 0.1 * k) for k in range(60)}
    for lidar in lidars:
        digest.update(lidar.scan(caster, scene, pose, 0.05 * tick, 0.05, chance).to_bytes())
    digest.update(radar.detect(caster, scene, pose, Vector(3.0, 1.0, 0.0), speeds, 0.05, chance).tobytes())
    digest.update(imu.measure(pose, Vector(1.0, 2.0, 3.0), Vector(10.0, -20.0, 30.0), 9.81, chance).to_bytes())
    digest.update(gnss.measure(Origin(49.3, 8.7), 1234.5, -987.6, 12.3, chance).to_bytes())
print(digest.hexdigest())
"""
FUSED_OFF = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"


def digest(threads=1, **changes):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **changes}
    command = [sys.executable, "-c", SCRIPT, str(threads)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.fixture(scope="module")
def reference():
    return digest()


def test_another_process_with_two_threads_gives_the_same_bytes(reference):
    assert digest(2, PYTHONHASHSEED="7") == reference


def test_neither_fused_multiply_add_nor_wide_vectors_change_a_byte(reference):
    dispatched = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    assert digest(GLIBC_TUNABLES=FUSED_OFF, NPY_DISABLE_CPU_FEATURES=" ".join(dispatched)) == reference


def test_code_built_for_the_oldest_processors_gives_the_same_bytes(reference):
    assert digest(SAMEPATH_RENDER_CPU="x86-64") == reference
