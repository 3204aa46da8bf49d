"""``stress-ng`` as the source of CPU load. It cannot be told another load while it runs, so it is started anew for each."""

import shutil
import subprocess
import tempfile
from typing import Final

from samepath.core.errors import StudyError
from samepath.instrument.conditions.worker_pool import SchedulingState, end, last_words, launch

NAME: Final = "stress-ng"
INSTALL: Final = "install it (apt-get install stress-ng, dnf install stress-ng) or leave load_tool at auto"


def installed() -> bool:
    """Say whether it is there."""
    return shutil.which(NAME) is not None


class StressNg:
    """One ``stress-ng --cpu`` with a worker per core, at ``percent`` of each; 0 is none at all.

    It ends with the thread that set it, and its own children end with it.
    """

    def __init__(self, scheduling: SchedulingState) -> None:
        self.percent = 0
        self._scheduling = scheduling
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the load
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return None if self._process is None else self._process.pid

    def run_at(self, percent: int) -> None:
        """End the one that runs and start another; the gap is about a hundredth of a second."""
        before, self._process, self.percent = self._process, None, percent
        if percent > 0:
            cores = str(len(self._scheduling.cores))
            argv = [NAME, "--cpu", cores, "--cpu-load", str(percent), "--timeout", "0", "--quiet", "--oomable"]
            self._process = launch("command", self._scheduling, self._errors, argv=argv)
        if before is not None:
            end(before)

    def check(self) -> None:
        """Raise StudyError if it is gone."""
        if self._process is not None and self._process.poll() is not None:
            raise StudyError(f"{NAME} ended: {last_words(self._errors, self._process.returncode)}")

    def close(self) -> None:
        """End it."""
        self.run_at(0)
        self._errors.close()
