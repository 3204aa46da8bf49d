"""The conformance kit finds what is wrong with an adapter: each broken simulator fails the check it breaks."""

import math
from dataclasses import replace

import pytest

from samepath.engines import conformance
from samepath.engines.interface import (
    Capabilities,
    CommandLog,
    RunRequest,
    Simulator,
    SimulatorInfo,
    check_request,
    last_tick,
    no_tick,
)
from samepath.engines.reference import Exact, Leaky
from samepath.engines.resampling import RESAMPLING, EngineFrame, Resampler


class Good(Simulator):
    """The smallest honest simulator: one car that drives on."""

    deterministic = durations = replays = True
    channels = ("x_m", "y_m")
    log = CommandLog(("speed_mps",), (0.0, 0.2), (1, 1), ((2.0,), (3.0,)))

    def info(self):
        return SimulatorInfo(
            "good",
            "1",
            "drives on",
            ("road",),
            0.1,
            self.channels,
            Capabilities(self.deterministic, durations=self.durations, replays=self.replays),
            {"speed_mps": 2.0},
        )

    def run(self, request, recorder, on_tick=no_tick):
        settings = check_request(self.info(), request)
        recorder.actor(1, "car")
        for tick in range(1, 16):
            recorder.state(tick, 1, self.state(tick, request, settings))
            on_tick(tick)
            if tick == self.last_tick(request):
                return recorder.end(tick, "duration")
        return recorder.end(15, "done")

    def last_tick(self, request):
        return last_tick(self.info(), request)

    def record_commands(self, request):
        return self.log

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


class ClaimsNotToLeak(Leaky):
    deterministic = True


class RunsOn(Good):
    def last_tick(self, request):
        return None


class StopsLate(Good):
    def last_tick(self, request):
        return request.duration_s and round(request.duration_s / 0.1) + 1


class GivesAnotherReason(Good):
    def run(self, request, recorder, on_tick=no_tick):
        check_request(self.info(), request)
        recorder.actor(1, "car")
        stop = self.last_tick(request) or 15
        for tick in range(1, stop + 1):
            recorder.state(tick, 1, {"x_m": 0.0, "y_m": 0.0})
            on_tick(tick)
        recorder.end(stop, "somebody stopped it")


class HurriesToItsEnd(Good):
    def state(self, tick, request, settings):
        return {"x_m": tick * (2.0 if request.duration_s is None else 3.0), "y_m": 0.0}


class ReplaysSomethingElse(Good):
    def state(self, tick, request, settings):
        return {"x_m": tick * (2.0 if request.commands is None else 2.0 + 1e-15), "y_m": 0.0}


class RecordsNothing(Good):
    log = CommandLog(("speed_mps",), (), (), ())


class RecordsBackwards(Good):
    log = CommandLog(("speed_mps",), (0.2, 0.0), (1, 1), ((2.0,), (3.0,)))


class RecordsStrangers(Good):
    log = CommandLog(("speed_mps",), (0.0,), (7,), ((2.0,),))


class OnlySaysItRecords(Good):
    record_commands = Simulator.record_commands


class ResamplesInSilence(Good):
    """Frames every 0.07 s, ticks every 0.1 s, and not a word of it."""

    def run(self, request, recorder, on_tick=no_tick):
        check_request(self.info(), request)
        recorder.actor(1, "car")
        frames = [EngineFrame(0.07 * n, {1: {"x_m": n * n, "y_m": 0.0}}) for n in range(30)]
        resampler = Resampler(0.1, frames[0])
        ticks = [tick for frame in frames[1:] for tick in resampler.take(frame)]
        for tick, states in ticks:
            recorder.state(tick, 1, {name: states[1][name] for name in self.channels if name in states[1]})
            on_tick(tick)
        self.finish(recorder, ticks[-1].tick, resampler)

    def finish(self, recorder, tick, resampler):
        recorder.end(tick, "done")


class ResamplesAndCallsItLossless(ResamplesInSilence):
    channels = ("x_m", "y_m", RESAMPLING)


class ResamplesWithoutANote(ResamplesAndCallsItLossless):
    def info(self):
        info = super().info()
        return replace(info, capabilities=replace(info.capabilities, lossless=False))


class ResamplesOpenly(ResamplesWithoutANote):
    def finish(self, recorder, tick, resampler):
        recorder.event(tick, "note", detail=resampler.note)
        recorder.end(tick, "done")


class MixesRowsByHand(Good):
    channels = ("x_m", "y_m", "gear_index")

    def state(self, tick, request, settings):
        return {"x_m": tick, "y_m": 0.0, "gear_index": 1.0 + (tick % 3) / 2}


def test_one_that_resamples_and_says_so_passes():
    conformance.says_if_it_resamples(ResamplesOpenly)


class NoScenario(Good):
    def info(self):
        return SimulatorInfo("bad", "1", "nothing to run", (), 0.1)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_an_honest_simulator_passes(check):
    check(Good)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_one_that_promises_nothing_is_held_to_nothing_it_did_not_promise(check):
    class Modest(RunsOn, Drifts):
        deterministic = durations = replays = False
        record_commands = Simulator.record_commands

    check(Modest)


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Drifts, "repeats itself if it says so", "gave 3 digests"),
        (LeaksBetweenRuns, "repeats itself if it says so", "digests"),
        (LeaksBetweenRuns, "forgets the run before", "must not depend on any run before it"),
        (ClaimsNotToLeak, "forgets the run before", "must not depend on any run before it"),
        (ClaimsNotToLeak, "repeats itself if it says so", "gave 3 digests"),
        (RunsOn, "ends at a duration if it says so", "1 ticks ended at tick 15 with the reason 'done'"),
        (StopsLate, "ends at a duration if it says so", "1 ticks ended at tick 2"),
        (GivesAnotherReason, "ends at a duration if it says so", "'somebody stopped it', not 'duration' at tick 1"),
        (HurriesToItsEnd, "ends at a duration if it says so", "other states than the first 1 ticks"),
        (ReplaysSomethingElse, "replays if it says so", "the replay differs from the run with controllers"),
        (RecordsNothing, "replays if it says so", "no command was recorded"),
        (RecordsBackwards, "replays if it says so", "in order of time"),
        (RecordsStrangers, "replays if it says so", "[7], who were never announced"),
        (OnlySaysItRecords, "replays if it says so", "cannot record its controllers' commands"),
        (AcceptsAnything, "refuses the unknown", "must be refused"),
        (ForgetsTicks, "calls on tick", "on_tick must"),
        (NoEnd, "records a whole run", "without saying how"),
        (SilentActor, "records a whole run", "never had a state"),
        (DeclaresTooMuch, "uses declared channels", "yaw_deg is declared"),
        (CollidesWithoutImpulse, "names actors in events", "impulse"),
        (NotANumber, "records a whole run", "x_m is nan"),
        (ClosesOnce, "closes twice", "closed already"),
        (ResamplesInSilence, "says if it resamples", "states were put between two frames: declare the channel resampling_m"),
        (ResamplesAndCallsItLossless, "says if it resamples", "what is resampled is not lossless"),
        (ResamplesWithoutANote, "says if it resamples", "a note in the trace must say how far off"),
        (MixesRowsByHand, "says if it resamples", "gear_index is [1.5]: states of two steps are mixed"),
        (NoScenario, "describes itself", "at least one scenario"),
    ],
)
def test_a_broken_simulator_fails_the_check_it_breaks(broken, check, words):
    problems = {result.name: result.problem for result in conformance.check_all(broken)}
    assert words in problems[check], problems


def test_a_simulator_whose_runs_depend_on_each_other_is_caught_only_where_it_promises_more():
    assert not any(result.problem for result in conformance.check_all(Leaky)), "it declares that it does not repeat itself"
    assert not any(result.problem for result in conformance.check_all(Exact))


class DrivesThrough(Good):
    """Two cars that pass through each other: 0.15 m between their centres, without an event."""

    collisions, kind, apart_m, reported = True, "car", 0.15, False

    def info(self):
        found = super().info()
        return replace(found, capabilities=replace(found.capabilities, collisions=self.collisions))

    def run(self, request, recorder, on_tick=no_tick):
        check_request(self.info(), request)
        for actor in (1, 2):
            recorder.actor(actor, self.kind)
        for tick in range(1, 16):
            recorder.state(tick, 1, {"x_m": 2.0 * tick, "y_m": 0.0})
            recorder.state(tick, 2, {"x_m": 30.0 - 2.0 * tick, "y_m": self.apart_m})
            if self.reported and tick == 8:
                recorder.event(tick, "collision", 1, 2, (1.0, 0.0, 0.0))
            on_tick(tick)
            if tick == self.last_tick(request):
                return recorder.end(tick, "duration")
        return recorder.end(15, "done")


def _result(check, broken):
    return next(result for result in conformance.check_all(broken) if result.name == check)


def test_bodies_that_overlap_without_a_contact_fail_or_are_remarked():
    class SaysNothing(DrivesThrough):
        collisions = False

    class Reports(DrivesThrough):
        reported = True

    class Walkers(DrivesThrough):
        kind, apart_m = "walker.pedestrian.0001", 0.5

    class PassBeside(DrivesThrough):
        apart_m = 1.9

    told = "road: 0.15 m between the centres of actors 1 and 2 (car, car) at tick 8"
    assert _result("reports contacts", DrivesThrough).problem == f"{told}, but no collision is reported"
    said = _result("reports contacts", SaysNothing)
    assert (said.problem, said.remark.startswith(told)) == ("", True)
    for clean in (Reports, Walkers, PassBeside, Good):
        result = _result("reports contacts", clean)
        assert (result.problem, result.remark) == ("", ""), clean


def test_what_few_equal_runs_cannot_exclude_is_said_and_more_runs_can_be_asked_for():
    class FailsOnce(Good):
        def state(self, tick, request, settings):
            return {"x_m": 2.0 * tick + (0.001 if request.repeat == 13 else 0.0), "y_m": 0.0}

    few = _result("repeats itself if it says so", FailsOnce)
    assert few.problem == ""
    assert "3 runs of each scenario are equal; this excludes only that more than 63.2 % of runs differ" in few.remark
    assert "misses a fault in one run of 20 with probability 86 %" in few.remark
    many = {result.name: result for result in conformance.check_all(FailsOnce, runs=60)}
    assert "60 repeats gave 2 digests" in many["repeats itself if it says so"].problem
    # The bound is exact: at that rate, so many equal runs come in one of 20 tries.
    for runs in (3, 20, 59):
        rate = float(conformance.excluded_words(runs).split("more than ")[1].split(" %")[0]) / 100
        assert (1 - rate) ** runs == pytest.approx(0.05, rel=0.02)
