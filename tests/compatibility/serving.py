"""What the scripts of this folder share: the server that they run somebody else's program against."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from samepath.core.clock import SYSTEM_CLOCK
from tests.support import ROOT

START_S = 120.0
OUR_CODE = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
"""For processes of ours: the samepath of this checkout, wherever they run."""


@contextmanager
def serving(port: int, words: Sequence[str]) -> Iterator[Path]:
    """Run ``samepath serve`` in a folder of its own, from when it serves; gives its log, a file that is gone with it.

    Its log is a file and no pipe: nobody reads along, and a server whose pipe is full would stand still.
    """
    command = [sys.executable, "-m", "samepath", "serve", "--port", str(port), *words]
    with tempfile.TemporaryDirectory(prefix="samepath-serve-") as place:
        log = Path(place) / "serve.log"
        with log.open("w") as file:
            server = subprocess.Popen(command, stderr=file, env={**os.environ, **OUR_CODE}, cwd=place)
        try:
            _wait(server, log)
            yield log
        finally:
            server.terminate()
            server.wait()


def _wait(server: "subprocess.Popen[bytes]", log: Path) -> None:
    end_s = SYSTEM_CLOCK.monotonic_s() + START_S
    while "serving map" not in log.read_text(errors="replace"):
        if server.poll() is not None or SYSTEM_CLOCK.monotonic_s() > end_s:
            sys.exit(f"the server did not start: {log.read_text(errors='replace').strip()}")
        SYSTEM_CLOCK.sleep_s(0.05)
