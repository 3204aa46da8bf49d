"""What may be asked of a simulator: durations, settings as factors; what cannot be is refused in one line."""

import math

import numpy as np
import pytest

from samepath.core.errors import SamepathError
from samepath.engines import registry
from samepath.engines.conformance import run_once, run_request
from samepath.engines.interface import Capabilities, CommandLog, RunRequest, SimulatorInfo, check_request, last_tick
from samepath.engines.samepath import Samepath
from samepath.engines.samepath.game_loop import SamepathGameLoop

ABLE = SimulatorInfo("able", "1", "", ("road",), 0.05, capabilities=Capabilities(durations=True, replays=True))
UNABLE = SimulatorInfo("unable", "1", "", ("road",), 0.05)
NOTHING = CommandLog((), (), (), ())
QUICK = {"time_scale": 200.0, "frame_cost_s": 0.0}
TABLE1 = [f"table1-test{number}" for number in range(1, 7)]


@pytest.mark.parametrize(
    ("info", "asked", "words"),
    [
        (ABLE, {"duration_s": 0.0}, "above 0 s was wanted, but 0.0 came"),
        (ABLE, {"duration_s": -1.0}, "above 0 s was wanted, but -1.0 came"),
        (ABLE, {"duration_s": math.inf}, "above 0 s was wanted, but inf came"),
        (ABLE, {"duration_s": math.nan}, "above 0 s was wanted, but nan came"),
        (UNABLE, {"duration_s": 1.0}, "unable cannot end a run at a time of ours: leave out the duration"),
        (UNABLE, {"commands": NOTHING}, "unable cannot replay commands: leave out controller=replayed"),
    ],
)
def test_what_makes_no_sense_or_cannot_be_done_is_refused_in_one_line(info, asked, words):
    with pytest.raises(SamepathError, match=words) as caught:
        check_request(info, RunRequest("road", 0, **asked))
    assert "\n" not in str(caught.value)


def test_what_can_be_done_is_let_through():
    assert check_request(ABLE, RunRequest("road", 0, duration_s=1.0, commands=NOTHING)) == {}
    with pytest.raises(SamepathError, match="control-exact cannot record"):
        registry.create("control-exact").record_commands(RunRequest("crossing", 0))


@pytest.mark.parametrize(("duration_s", "tick"), [(5.0, 100), (5.01, 101), (0.15, 3), (3 * 0.05, 3), (0.001, 1), (1e-12, 1)])
def test_a_duration_ends_at_the_first_tick_at_or_after_it(duration_s, tick):
    assert last_tick(ABLE, RunRequest("road", 0, duration_s=duration_s)) == tick
    assert last_tick(ABLE, RunRequest("road", 0)) is None


@pytest.mark.parametrize(
    "simulator",
    [
        Samepath(),
        *(SamepathGameLoop({**QUICK, "mode": mode}) for mode in ("lockstep", "real-time", "variable", "semi-fixed")),
        registry.create("control-exact"),
        registry.create("control-gaussian"),
    ],
    ids=["samepath", "lockstep", "real-time", "variable", "semi-fixed", "control-exact", "control-gaussian"],
)
def test_a_duration_ends_the_run_at_its_tick_in_every_mode(simulator):
    scenario = "crossing" if simulator.info().name.startswith("control") else "table1-test4"
    ticks = []
    short = run_request(simulator, RunRequest(scenario, 0, duration_s=1.02), ticks.append)
    assert (short.end.tick, short.end.reason, short.end.completed) == (21, "duration", True)
    assert ticks == list(range(1, 22))
    assert np.unique(short.tick).tolist() == ticks
    long = run_request(simulator, RunRequest(scenario, 0, duration_s=1000.0))
    assert long.end.reason != "duration"


def test_what_happens_in_a_step_that_goes_beyond_the_duration_is_of_the_last_tick():
    """The pedestrian is hit in the step from 6.91 to 6.98 s: at tick 140, unless the run is over at 139."""
    for duration_s, ends in ((6.95, 139), (6.97, 140), (7.1, 142)):
        simulator = SamepathGameLoop({"mode": "variable", "time_scale": 1.0, "frame_cost_s": 0.0}, clock=Beat())
        repeat = run_request(simulator, RunRequest("table1-test4", 0, duration_s=duration_s))
        assert (repeat.end.tick, int(repeat.tick.max())) == (ends, ends)
        happened = [(event.tick, event.kind, event.actor) for event in repeat.events if event.tick and event.kind != "note"]
        assert happened == [(min(ends, 140), "collision", 1), (min(ends, 140), "destroy", 3)]


class Beat:
    """A clock on which every frame takes 70 ms."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic_s(self):
        self.now_s += 0.07
        return self.now_s

    def sleep_s(self, seconds):
        pass

    def utc_iso(self):
        return "2000-01-01T00:00:00+00:00"


def test_a_run_cut_short_is_the_beginning_of_the_whole_one_with_finer_steps_too():
    settings = {"step_s": 0.025}
    whole = run_request(Samepath(), RunRequest("table1-test4", 0, settings=settings))
    short = run_request(Samepath(), RunRequest("table1-test4", 0, settings=settings, duration_s=7.0))
    assert short.end.tick == 140
    assert np.array_equal(short.digests, whole.digests[whole.tick <= 140])


def test_a_file_of_ones_own_takes_a_duration_and_settings(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nactors:\n  - {id: 1, type: vehicle.tesla.model3, path: [[0, 0], [40, 0]]}\n"
    )
    request = RunRequest(str(tmp_path / "mine.yaml"), 0, duration_s=0.5, settings={"step_s": 0.025})
    assert run_request(Samepath(), request).end.tick == 10


FACTORS = [
    {"substeps": 1},
    {"substeps": 10},
    {"step_s": 0.025},
    {"solver_iterations": 1},
    {"solver_iterations": 8},
    {"physics_threads": 1},
    {"physics_threads": 2},
    {"grid_m": 0.5},
    {"frame_cost_s": 0.0001},
]


@pytest.mark.parametrize("settings", FACTORS, ids=str)
def test_internal_settings_can_be_varied_in_both_adapters_on_all_six_tests(settings):
    for simulator in (Samepath(), SamepathGameLoop(QUICK)):
        for scenario in TABLE1:
            assert run_request(simulator, RunRequest(scenario, 0, settings=settings, duration_s=1.0)).end.tick == 20


@pytest.mark.parametrize(
    ("settings", "same"),
    [({"physics_threads": 2}, True), ({"frame_cost_s": 0.0001}, True), ({"substeps": 1}, False), ({"step_s": 0.025}, False)],
    ids=str,
)
def test_threads_and_rendering_change_no_bit_and_steps_do(settings, same):
    base, other = (
        run_once(Samepath(), "table1-test2"),
        run_request(Samepath(), RunRequest("table1-test2", 0, settings=settings)),
    )
    assert (base.digest == other.digest) is same


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"substeps": 2.5}, "substeps: a whole number from 0 to 100"),
        ({"substeps": -1}, "substeps"),
        ({"solver_iterations": 0}, "solver_iterations: a whole number from 1"),
        ({"physics_threads": "two"}, "physics_threads: a whole number from 0 to 1024 was wanted, but 'two' came"),
        ({"physics_threads": True}, "physics_threads"),
        ({"grid_m": math.nan}, "grid_m"),
        ({"step_s": "short"}, "step_s: a number"),
        ({"step_s": 0.03}, "step_s: a whole part of 0.05 s"),
        ({"frame_cost_s": -1.0}, "frame_cost_s: a number of at least 0"),
        ({"frame_cost_s": "much"}, "frame_cost_s: a number"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_line(settings, words):
    for simulator in (Samepath(), SamepathGameLoop(QUICK)):
        with pytest.raises(SamepathError, match=words) as caught:
            run_request(simulator, RunRequest("table1-test2", 0, settings=settings))
        assert "\n" not in str(caught.value)
