"""The conformance kit finds what is wrong with an adapter: each broken simulator fails the check it breaks."""

import math

import pytest

from samepath.simulators import conformance
from samepath.simulators.interface import Capabilities, RunRequest, Simulator, SimulatorInfo, check_request, no_tick


class Good(Simulator):
    """The smallest honest simulator: one car that drives on."""

    deterministic = True
    channels = ("x_m", "y_m")

    def info(self):
        return SimulatorInfo(
            "good",
            "1",
            "drives on",
            ("road",),
            0.1,
            self.channels,
            Capabilities(self.deterministic),
            {"speed_mps": 2.0},
        )

    def run(self, request, recorder, on_tick=no_tick):
        settings = check_request(self.info(), request)
        recorder.actor(1, "car")
        for tick in range(1, 6):
            recorder.state(tick, 1, self.state(tick, request, settings))
            on_tick(tick)
        recorder.end(5, "done")

    def state(self, tick, request, settings):
        return {"x_m": tick * settings["speed_mps"], "y_m": 0.0}


class Drifts(Good):
    def state(self, tick, request, settings):
        return {"x_m": tick + 1e-15 * request.repeat, "y_m": 0.0}


class LeaksBetweenRuns(Good):
    def __init__(self):
        self.runs = 0

    def run(self, request, recorder, on_tick=no_tick):
        self.runs += 1
        super().run(request, recorder, on_tick)

    def state(self, tick, request, settings):
        return {"x_m": tick + self.runs * 0.25, "y_m": 0.0}


class AcceptsAnything(Good):
    def run(self, request, recorder, on_tick=no_tick):
        super().run(RunRequest("road", request.repeat), recorder, on_tick)


class ForgetsTicks(Good):
    def run(self, request, recorder, on_tick=no_tick):
        super().run(request, recorder)


class NoEnd(Good):
    def run(self, request, recorder, on_tick=no_tick):
        check_request(self.info(), request)
        recorder.actor(1, "car")
        recorder.state(1, 1, {"x_m": 0.0, "y_m": 0.0})


class SilentActor(Good):
    def run(self, request, recorder, on_tick=no_tick):
        check_request(self.info(), request)
        recorder.actor(9, "ghost")
        super().run(request, recorder, on_tick)


class DeclaresTooMuch(Good):
    channels = ("x_m", "y_m", "yaw_deg")


class CollidesWithoutImpulse(Good):
    def run(self, request, recorder, on_tick=no_tick):
        check_request(self.info(), request)
        recorder.actor(1, "car")
        recorder.state(1, 1, {"x_m": 0.0, "y_m": 0.0})
        recorder.event(1, "collision", 1)
        on_tick(1)
        recorder.end(1, "done")


class NotANumber(Good):
    def state(self, tick, request, settings):
        return {"x_m": math.nan, "y_m": 0.0}


class ClosesOnce(Good):
    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class NoScenario(Good):
    def info(self):
        return SimulatorInfo("bad", "1", "nothing to run", (), 0.1)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_an_honest_simulator_passes(check):
    check(Good)


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Drifts, "repeats itself if it says so", "gave 3 digests"),
        (LeaksBetweenRuns, "repeats itself if it says so", "digests"),
        (AcceptsAnything, "refuses the unknown", "must be refused"),
        (ForgetsTicks, "calls on tick", "on_tick must"),
        (NoEnd, "records a whole run", "without saying how"),
        (SilentActor, "records a whole run", "never had a state"),
        (DeclaresTooMuch, "uses declared channels", "yaw_deg is declared"),
        (CollidesWithoutImpulse, "names actors in events", "impulse"),
        (NotANumber, "records a whole run", "x_m is nan"),
        (ClosesOnce, "closes twice", "closed already"),
        (NoScenario, "describes itself", "at least one scenario"),
    ],
)
def test_a_broken_simulator_fails_the_check_it_breaks(broken, check, words):
    problems = {result.name: result.problem for result in conformance.check_all(broken)}
    assert words in problems[check], problems
