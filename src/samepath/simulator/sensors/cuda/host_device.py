"""The processor as a device: ``host.cpp`` built by the machine's own compiler at first use, and kept.

It gives every machine the rules of ``core.h`` without a graphics card. No fusing of products with sums, whatever the processor
can do: see ``core.h``.
"""

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.cuda.records import scene_record
from samepath.simulator.sensors.raster.arrays import F32, F64, U8, U32, CameraArrays, FaceRows, Outputs
from samepath.simulator.sensors.raster.compiled import cache_folder
from samepath.simulator.sensors.raster.prepare import PreparedScene, empty_rows

HERE: Final = Path(__file__).parent
SOURCES: Final = ("core.h", "light.h", "triangles.h", "paint.h", "host.cpp")
COMPILER: Final = "g++"
FLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-fast-math")
_BUILD_S_MAX: Final = 300.0


class HostDevice:
    """Runs the rules on the processor, one camera after the other."""

    name = "host"
    told = "this machine's processor"
    paints_sky = False
    facts: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self._library = _library()
        self._rows: FaceRows = empty_rows(1)

    def empty(self, count: int, kind: Any) -> np.ndarray:  # noqa: ANN401
        """Memory for pictures: any will do."""
        return np.empty(count, kind)

    def close(self) -> None:
        """Nothing to let go of: the code stays loaded for the process."""

    def draw(self, prepared: PreparedScene, views: CameraArrays, out: Outputs, detail: float) -> None:
        """Draw all views into ``out``."""
        static, light, rows = prepared.static, prepared.shade, prepared.rows
        if len(self._rows.label) < rows:
            # A quarter more than asked for: actors come and go. Nothing is kept from tick to tick, what is seen is lit anew.
            self._rows = empty_rows(rows + rows // 4)
        if len(light.beams):
            light = light._replace(glow=self.add_glow(light.glow.copy(), light.numbers, light.beams))
        record = scene_record(static.meshes, prepared.placed, self._rows, light, views, out, detail)
        if len(record.content) != self._library.samepath_scene_bytes():
            raise SimulatorError("the compiled core reads another record than this one writes: remove its cache folder")
        if self._library.samepath_draw(record.content):
            raise SimulatorError("there was not enough memory to draw these cameras: take fewer, or smaller ones")

    def add_glow(self, glow: F32, numbers: F64, lamps: F32) -> F32:
        """Add the light of lamps to the cells of the ground, in place."""
        rows, columns = glow.shape
        self._library.samepath_glow(
            _address(glow), rows, columns, _address(numbers), _address(np.ascontiguousarray(lamps)), len(lamps)
        )
        return glow

    def paint_sky(self, sky: U32, noise: U8, numbers: F64) -> U32:
        """Paint the dome of a weather, in place."""
        self._library.samepath_sky(_address(sky), _address(noise), _address(numbers))
        return sky


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@cache
def _library() -> ctypes.CDLL:
    """The core, built if it was not yet; one per process."""
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise SimulatorError(f"the core of the CUDA renderer needs {COMPILER} on this machine: install it, or draw in software")
    version = _run([compiler, "-dumpfullversion", "-dumpmachine"])
    digest = hashlib.blake2b(f"{version} {' '.join(FLAGS)}".encode(), digest_size=12)
    for name in SOURCES:
        digest.update(name.encode() + b"\0" + (HERE / name).read_bytes())
    kept = cache_folder(HERE)
    # A folder of our own, also beside what is kept: the finished file appears under its name at once, so that of two processes
    # neither sees half of one.
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        path = kept / f"host-{digest.hexdigest()}.so" if kept else Path(folder) / "host.so"
        if not path.exists():
            made = Path(folder) / "made.so"
            _run([compiler, *FLAGS, "-o", str(made), str(HERE / "host.cpp")])
            made.replace(path)
        library = ctypes.CDLL(str(path))
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    library.samepath_scene_bytes.argtypes, library.samepath_scene_bytes.restype = [], whole
    library.samepath_sky.argtypes, library.samepath_sky.restype = [pointer] * 3, None
    library.samepath_glow.argtypes, library.samepath_glow.restype = [pointer, whole, whole, pointer, pointer, whole], None
    library.samepath_draw.argtypes, library.samepath_draw.restype = [ctypes.c_char_p], ctypes.c_int
    return library


def _run(command: list[str]) -> str:
    """A compiler's output; what it complains about becomes one line."""
    try:
        # Our own sources and a compiler found on the path: nothing from outside is in this line.
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S_MAX, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SimulatorError(f"{command[0]} could not build the core of the CUDA renderer: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or "it said nothing").splitlines()[0]
        raise SimulatorError(f"{command[0]} could not build the core of the CUDA renderer: {said}")
    return done.stdout.strip()
