"""The game-loop adapter: honest resampling, the conformance kit, and more than one outcome on the machine's own clock."""

from itertools import cycle

import numpy as np
import pytest

from samepath.core.errors import UnknownNameError
from samepath.engines import registry
from samepath.engines.conformance import CHECKS, run_once
from samepath.engines.resampling import RESAMPLING, interpolated, watch_resampling
from samepath.engines.samepath import Samepath
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.simulator.game_loop import MODES, LoopSettings
from samepath.simulator.sources import SOURCES, parse_sources
from tests.support.shared_runs import offer_some_scenarios, share_runs

QUICK = {"time_scale": 200.0, "frame_cost_s": 0.0}


@pytest.fixture(scope="module")
def runs():
    return {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_game_loop_conforms(monkeypatch, runs, check):
    share_runs(monkeypatch, runs, "samepath-game-loop")
    offer_some_scenarios(monkeypatch)
    check(lambda: SamepathGameLoop(QUICK))


def test_it_is_registered():
    assert isinstance(registry.create("samepath-game-loop"), SamepathGameLoop)


def test_lockstep_leaves_the_same_trace_as_the_lockstep_adapter():
    assert (
        run_once(SamepathGameLoop({"mode": "lockstep"}), "table1-test4").digest == run_once(Samepath(), "table1-test4").digest
    )


@pytest.mark.parametrize("controllers", ["inline", "thread"])
def test_the_wall_clock_gives_more_than_one_outcome(controllers):
    simulator = SamepathGameLoop({**QUICK, "controllers": controllers})
    assert len({run_once(simulator, "table1-test2", repeat).digest for repeat in range(6)}) > 1


class UnevenClock:
    """Frames of a machine that keeps up, some longer than others; by the clock of a busy one the cars may miss each other."""

    def __init__(self):
        self._now_s, self._frames_s = 0.0, cycle((0.0003, 0.0005, 0.0002, 0.0007))

    def monotonic_s(self):
        self._now_s += next(self._frames_s)
        return self._now_s

    def sleep_s(self, seconds):
        self._now_s += seconds

    def utc_iso(self):
        return "2000-01-01T00:00:00+00:00"


def test_every_mode_reaches_an_end_with_the_collision_in_it():
    for mode in ("real-time", "variable", "semi-fixed"):
        settings = {"time_scale": 100.0, "frame_cost_s": 0.0, "mode": mode}
        repeat = run_once(SamepathGameLoop(settings, UnevenClock()), "table1-test2")
        assert [event.kind for event in repeat.events].count("collision") >= 1, mode
        assert repeat.end.tick == pytest.approx(350, abs=60), mode


SETTINGS = [{"mode": mode, "sources": sources} for mode in MODES for sources in ("", *SOURCES, "bit-flip, wall-clock-step")]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: f"{settings['mode']} {settings['sources']}")
def test_only_what_makes_fixed_steps_is_called_lossless(settings):
    info = SamepathGameLoop().described(settings)
    loop = LoopSettings(mode=settings["mode"]).with_sources(parse_sources(settings["sources"]))
    assert info.capabilities.lossless == loop.is_fixed
    assert (RESAMPLING in info.channels) != loop.is_fixed


@pytest.mark.parametrize("mode", ["variable", "semi-fixed"])
def test_steps_that_vary_are_resampled_with_a_bound_and_a_note(mode):
    simulator = SamepathGameLoop({"time_scale": 100.0, "frame_cost_s": 0.0, "mode": mode}, UnevenClock())
    with watch_resampling() as seen:
        repeat = run_once(simulator, "table1-test4")
    assert seen.count > 0
    bound_m = repeat.values[:, repeat.channels.index(RESAMPLING)]
    assert np.all(bound_m >= 0)
    assert bound_m.max() > 0.001, "somebody is hit between two steps"
    note = next(event for event in repeat.events if event.kind == "note")
    assert note.detail.startswith("resampled from the engine's frames")
    assert f"at most {bound_m.max():.3g} m off" in note.detail
    gears = repeat.values[:, repeat.channels.index("gear_index")]
    assert np.all(np.isnan(gears) | (gears == np.rint(gears))), "commands hold, they have nothing between two steps"


@pytest.mark.parametrize("mode", ["lockstep", "real-time"])
def test_fixed_steps_are_recorded_as_they_are(mode):
    with watch_resampling() as seen:
        repeat = run_once(
            SamepathGameLoop({"time_scale": 100.0, "frame_cost_s": 0.0, "mode": mode}, UnevenClock()), "table1-test1"
        )
    assert seen.count == 0
    assert RESAMPLING not in repeat.channels
    assert "note" not in {event.kind for event in repeat.events}


def test_interpolation_is_exact_on_steady_motion():
    before, after = {"x_m": 1.0, "vx_mps": 8.0}, {"x_m": 3.0, "vx_mps": 8.0}
    assert interpolated(before, after, 0.25) == {"x_m": 1.5, "vx_mps": 8.0}
    assert interpolated(before, {"x_m": 0.1 + 0.2, "vx_mps": 8.0}, 1.0)["x_m"] == 0.1 + 0.2


def test_interpolation_under_acceleration_is_off_by_no_more_than_a_chord():
    acceleration, step_s = 3.0, 0.08
    before, after = {"x_m": 0.0}, {"x_m": 0.5 * acceleration * step_s**2}
    worst = max(
        abs(interpolated(before, after, share / 64)["x_m"] - 0.5 * acceleration * (share / 64 * step_s) ** 2)
        for share in range(65)
    )
    assert worst == pytest.approx(acceleration * step_s**2 / 8)


@pytest.mark.parametrize(("a", "b", "middle"), [(179.0, -179.0, -180.0), (-170.0, 170.0, -180.0), (10.0, 30.0, 20.0)])
def test_angles_go_the_short_way_round(a, b, middle):
    assert interpolated({"yaw_deg": a}, {"yaw_deg": b}, 0.5) == {"yaw_deg": middle}


def test_an_unknown_source_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'bit-flip'"):
        run_once(SamepathGameLoop({**QUICK, "sources": "bitflip"}), "table1-test2")
