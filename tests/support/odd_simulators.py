"""Simulators for tests: one that tells where it runs, one that fails as asked, one whose controller varies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from samepath.core.errors import SimulatorError
from samepath.engines.interface import Capabilities, CommandLog, Simulator, SimulatorInfo, no_tick

RUNS = []


class Telling(Simulator):
    """Writes its process, a hash of a word, and how many runs came before in this process, into the trace."""

    def info(self):
        channels = ("x_m", "y_m", "z_m")
        return SimulatorInfo("telling", "1", "tells where it runs", ("s",), 0.1, channels, settings={"sleep_s": 0.0})

    def run(self, request, recorder, on_tick=no_tick):
        recorder.actor(1, "car")
        x_m, y_m = float(os.getpid()), float(hash("samepath") % 1_000_003)
        recorder.state(1, 1, {"x_m": x_m, "y_m": y_m, "z_m": float(len(RUNS))})
        RUNS.append(request.repeat)
        time.sleep(request.settings.get("sleep_s", 0.0))
        on_tick(1)
        recorder.end(1, "done")


class Faulty(Simulator):
    """Exact, but repeat ``at`` and those after it fail in the way that ``fault`` says."""

    def info(self):
        settings = {"fault": "", "at": 2, "mark": ""}
        channels = ("x_m", "y_m")
        return SimulatorInfo("faulty", "1", "fails as asked", ("s",), 0.1, channels, Capabilities(True), settings)

    def run(self, request, recorder, on_tick=no_tick):
        recorder.actor(1, "car")
        for tick in range(1, 6):
            recorder.state(tick, 1, {"x_m": 0.7 * tick, "y_m": 0.0})
            on_tick(tick)
        settings = {**self.info().settings, **request.settings}
        if request.repeat >= settings["at"]:
            self.fail(settings["fault"], settings["mark"])
        recorder.end(5, "done")

    def fail(self, fault, mark):
        if fault == "error":
            raise SimulatorError("engine on fire")
        if fault == "bug":
            raise ZeroDivisionError("a bug\nin two lines")
        if fault == "sys-exit":
            sys.exit("good-bye")
        if fault == "exit":
            os._exit(7)
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "until-mark" and not Path(mark).exists():
            raise SimulatorError("not yet")
        while fault == "wait" and not Path(mark).exists():
            time.sleep(0.01)
        if fault == "hang":
            Path(mark).touch()
            time.sleep(3600)
        if fault == "hang-with-child":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
            Path(mark).touch()
            time.sleep(3600)


class Wavering(Simulator):
    """A world that repeats itself under a controller that does not."""

    def info(self):
        capabilities = Capabilities(durations=True, replays=True)
        return SimulatorInfo("wavering", "1", "its controller varies", ("s",), 0.1, ("x_m", "y_m"), capabilities)

    def record_commands(self, request):
        wavering = tuple((int.from_bytes(os.urandom(7), "little") / 2**56,) for _ in range(3))
        return CommandLog(("speed",), (0.0, 0.1, 0.2), (1, 1, 1), wavering)

    def run(self, request, recorder, on_tick=no_tick):
        commands = request.commands or self.record_commands(request)
        recorder.actor(1, "car")
        x_m = 0.0
        for tick, (speed,) in enumerate(commands.values, 1):
            x_m += speed * 0.1
            recorder.state(tick, 1, {"x_m": x_m, "y_m": 0.0})
            on_tick(tick)
        recorder.end(3, "done")
