"""Simulators with a known answer for searches: one changes its outcome at known settings, one parts for known reasons."""

from samepath.core.errors import SimulatorError
from samepath.engines.interface import Capabilities, Simulator, SimulatorInfo, check_request, check_scripted_request, no_tick
from samepath.instrument.subjects import SubjectRunner
from samepath.scenarios.model import load_scenario

CHANNELS = ("x_m", "y_m", "z_m")


class Threshold(Simulator):
    """Exact. The path is 1 m aside from ``level`` 0.375 on; it ends otherwise where ``left`` and ``right`` are both 1.

    ``flaky_from``: from this level on, odd repeats differ. ``harmless`` changes nothing; ``broken`` at 1 cannot be run.
    """

    def info(self):
        settings = {"level": 0.0, "left": 0, "right": 0, "harmless": 0, "flaky_from": 9.0, "broken": 0}
        return SimulatorInfo("threshold", "1", "changes at a level", ("s",), 0.1, CHANNELS, Capabilities(True), settings)

    def run(self, request, recorder, on_tick=no_tick):
        values = check_request(self.info(), request)
        if values["broken"]:
            raise SimulatorError("broken: 0 was wanted, but 1 came")
        aside_m = 1.0 if values["level"] >= 0.375 else 0.0
        if values["level"] >= values["flaky_from"] and request.repeat % 2:
            aside_m = 2.0
        recorder.actor(1, "car")
        for tick in range(1, 11):
            recorder.state(tick, 1, {"x_m": 0.7 * tick, "y_m": aside_m if tick > 5 else 0.0, "z_m": 0.0})
            on_tick(tick)
        recorder.end(10, "crash" if values["left"] and values["right"] else "done")


class Parting(Simulator):
    """Plays scenario files with straight lines. Odd repeats part at 1 s where there is a walker, and ``sources`` has ``wind``.

    ``rarely``: only every so many-th repeat is an odd one. Two vehicles collide at 0.5 s; a walker more, and the verdict flips.
    """

    def info(self):
        settings = {"sources": "", "rarely": 2}
        can = Capabilities(durations=True, collisions=True)
        return SimulatorInfo("parting", "1", "parts for known reasons", ("s",), 0.1, CHANNELS, can, settings)

    def run(self, request, recorder, on_tick=no_tick):
        values = check_scripted_request(self.info(), request)
        scenario = load_scenario(request.scenario)
        vehicles = [actor for actor in scenario.actors if actor.type.startswith("vehicle")]
        walkers = [actor for actor in scenario.actors if actor.type.startswith("walker")]
        windy = "wind" in str(values["sources"]).split(",")
        odd = bool(walkers) and windy and request.repeat % int(values["rarely"]) == 1
        until_s = min(scenario.duration, request.duration_s or scenario.duration)
        last = round(until_s / 0.1)
        for actor in scenario.actors:
            recorder.actor(actor.id, actor.type)
        for tick in range(1, last + 1):
            for actor in scenario.actors:
                (x_m, y_m), aside_m = actor.path[0], 0.5 if odd and tick >= 10 else 0.0
                recorder.state(tick, actor.id, {"x_m": x_m + 0.1 * tick, "y_m": y_m + aside_m, "z_m": 0.0})
            if tick == 5 and len(vehicles) > 1 and not (odd and len(vehicles) > 2):
                recorder.event(tick, "collision", vehicles[0].id, vehicles[1].id)
            on_tick(tick)
        recorder.end(last, "done")


class InterruptedRuns:
    """Counts the repeats that a search runs, and interrupts it, as Ctrl-C does, when it wants more than ``most``."""

    def __init__(self, monkeypatch, most):
        self.most = most
        self.repeats = []
        real = SubjectRunner.run

        def run(runner, subject, numbers):
            for repeat in real(runner, subject, numbers):
                if len(self.repeats) >= self.most:
                    raise KeyboardInterrupt
                self.repeats.append(repeat)
                yield repeat

        monkeypatch.setattr(SubjectRunner, "run", run)
