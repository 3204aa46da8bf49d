"""The conformance kit: what every simulator adapter must do, as checks that authors of adapters can run.

From the command line: ``samepath conformance NAME``. In an adapter's own tests::

    from samepath.engines.conformance import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_adapter_conforms(check):
        check(MySimulator)

A check returns None, or a remark on what it could not show, or raises :class:`samepath.core.errors.SimulatorError`. Checks hold
a simulator to what it declares and to nothing more: one that promises no determinism is not asked for it. They ask it under its
defaults; other modes are checked with other defaults (``samepath conformance NAME --setting mode=game-loop``).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import POSITION, RESAMPLING, check_channels
from samepath.core.errors import SimulatorError, UnknownNameError
from samepath.engines.interface import DURATION, CommandLog, RunRequest, Simulator, SimulatorInfo, no_tick
from samepath.engines.resampling import watch_resampling
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import EventKind, Repeat

Factory = Callable[[], Simulator]
Check = Callable[[Factory], str | None]

_FEW_TICKS: Final = 10
RUNS: Final = 3
"""Runs of every scenario that must be equal where determinism is declared."""
# No two road users have their centres nearer than this, and no two cars: the narrowest cars are wider. Bodies have no size in
# a trace, so that only what overlaps for certain is found.
_CENTRES_MIN_M: Final = 0.25
_CARS_MIN_M: Final = 1.0
_STEP_MAX_M: Final = 10.0
_SMALL: Final = (
    "walker",
    "pedestrian",
    "person",
    "human",
    "cyc",
    "bike",
    "motor",
    "scooter",
    "prop",
    "sensor",
    "drone",
    "trailer",
)


def run_once(simulator: Simulator, scenario: str, repeat: int = 0, on_tick: Callable[[int], None] = no_tick) -> Repeat:
    """Run a scenario with default settings and return its record."""
    return run_request(simulator, RunRequest(scenario, repeat), on_tick)


def run_request(simulator: Simulator, request: RunRequest, on_tick: Callable[[int], None] = no_tick) -> Repeat:
    """Run what is asked for and return its record."""
    info = simulator.described(request.settings)
    recorder = Recorder(request.repeat, info.channels, info.step_s)
    simulator.run(request, recorder, on_tick)
    return recorder.finish()


def describes_itself(factory: Factory) -> None:
    """Name, version, summary, a step, at least one scenario and valid channels; twice the same."""
    with factory() as simulator:
        info = simulator.info()
        _require(all((info.name, info.version, info.summary)), "name, version and summary must not be empty")
        _require(math.isfinite(info.step_s) and info.step_s > 0, f"step_s must be above 0, not {info.step_s}")
        _require(len(info.scenarios) > 0, "at least one scenario must be offered")
        _require(len(set(info.scenarios)) == len(info.scenarios), "scenario names must be distinct")
        check_channels(info.channels)
        _require(simulator.info() == info, "info() must say the same each time")


def records_a_whole_run(factory: Factory) -> None:
    """Every scenario gives states of announced actors at rising ticks, and an end."""
    for scenario, repeat, _ in _each_scenario(factory):
        _require(len(repeat.actors) > 0, f"{scenario}: no actor was announced")
        _require(len(repeat.tick) > 0, f"{scenario}: no state was recorded")
        silent = {actor.id for actor in repeat.actors} - set(np.unique(repeat.actor).tolist())
        _require(not silent, f"{scenario}: actors {sorted(silent)} were announced but never had a state")
        _require(bool(np.all(np.diff(repeat.tick) >= 0)), f"{scenario}: ticks must not fall")
        _require(int(repeat.tick.max()) <= repeat.end.tick, f"{scenario}: states after the end at tick {repeat.end.tick}")
        _require(bool(repeat.end.reason), f"{scenario}: the end needs a reason")


def keeps_time(factory: Factory) -> None:
    """Simulated time rises strictly with the tick, and is the same for all actors of a tick."""
    for scenario, repeat, _ in _each_scenario(factory):
        for tick in np.unique(repeat.tick)[:50].tolist():
            times = np.unique(repeat.time_s[repeat.tick == tick])
            _require(len(times) == 1, f"{scenario}: actors disagree on the time of tick {tick}")
        _, first = np.unique(repeat.tick, return_index=True)
        _require(bool(np.all(np.diff(repeat.time_s[first]) > 0)), f"{scenario}: time must rise with the tick")


def uses_declared_channels(factory: Factory) -> None:
    """Every declared channel is recorded for at least one actor of at least one scenario."""
    used: dict[str, bool] = {}
    for _, repeat, _ in _each_scenario(factory):
        for index, channel in enumerate(repeat.channels):
            used[channel] = used.get(channel, False) or not bool(np.all(np.isnan(repeat.values[:, index])))
    for channel, found in used.items():
        _require(found, f"channel {channel} is declared but never recorded")


def says_if_it_resamples(factory: Factory) -> None:
    """States put between two steps are declared: channel ``resampling_m``, not lossless, a note; else rows are own steps."""
    with factory() as simulator:
        info = simulator.info()
    declared = RESAMPLING in info.channels
    _require(not (declared and info.capabilities.lossless), f"{RESAMPLING} is declared: what is resampled is not lossless")
    for scenario, repeat, interpolated in _each_scenario(factory):
        told = f"{scenario}: {interpolated} states were put between two frames"
        _require(declared or not interpolated, f"{told}: declare the channel {RESAMPLING}, and that it is not lossless")
        noted = any(event.kind == "note" and event.detail.startswith("resampled") for event in repeat.events)
        _require(noted or not declared, f"{scenario}: a note in the trace must say how far off resampled states may be")
        _check_rows_are_steps(repeat, scenario)


def _check_rows_are_steps(repeat: Repeat, scenario: str) -> None:
    """A gear or a switch has whole values: what lies between two is a mixture of two rows, made by whatever means."""
    for index, channel in enumerate(repeat.channels):
        if channel.endswith(("_bool", "_index")):
            values = repeat.values[:, index]
            mixed = values[np.isfinite(values) & (values != np.rint(values))]
            _require(not len(mixed), f"{scenario}: {channel} is {mixed[:1].tolist()}: states of two steps are mixed in one row")


def calls_on_tick(factory: Factory) -> None:
    """``on_tick`` is called once per tick, rising, up to the end."""
    with factory() as simulator:
        for scenario in simulator.info().scenarios:
            ticks: list[int] = []
            repeat = run_once(simulator, scenario, on_tick=ticks.append)
            _require(ticks == sorted(set(ticks)), f"{scenario}: on_tick must be called with rising ticks, once each")
            _require(bool(ticks) and ticks[-1] == repeat.end.tick, f"{scenario}: on_tick must reach the end tick")


def names_actors_in_events(factory: Factory) -> None:
    """Events lie within the run; a collision names an actor; a destroyed actor has no later state."""
    for scenario, repeat, _ in _each_scenario(factory):
        for event in repeat.events:
            _require(0 <= event.tick <= repeat.end.tick, f"{scenario}: {event.kind} at tick {event.tick} is outside the run")
            if event.kind == EventKind.COLLISION:
                _require(event.actor is not None, f"{scenario}: a collision must name an actor")
                told = event.impulse_ns is not None or bool(event.detail)
                _require(told, f"{scenario}: a collision must have an impulse, or a detail that says why there is none")
            if event.kind == EventKind.DESTROY:
                last = repeat.tick[repeat.actor == event.actor].max()
                _require(int(last) <= event.tick, f"{scenario}: actor {event.actor} was destroyed but moves on")


def reports_contacts(factory: Factory) -> str | None:
    """Where collisions are declared, actors whose bodies overlap have a collision event; elsewhere overlaps are remarked."""
    with factory() as simulator:
        declared = simulator.info().capabilities.collisions
    remark = None
    for scenario, repeat, _ in _each_scenario(factory):
        found = _overlap(repeat)
        if found is not None:
            _require(not declared, f"{scenario}: {found}, but no collision is reported")
            remark = remark or f"{scenario}: {found}; no contact is reported, and collisions are not declared"
    return remark


def _overlap(run: Repeat) -> str | None:
    """Return the first two actors that are too near each other for their bodies, without any contact until then."""
    axes = [run.channels.index(name) for name in POSITION if name in run.channels]
    types = {actor.id: actor.type.lower() for actor in run.actors}
    contacts = [(event.tick, {event.actor, event.other}) for event in run.events if event.kind == EventKind.COLLISION]
    starts = np.unique(run.tick, return_index=True)[1].tolist()
    before: tuple[list[int], NDArray[np.float64]] | None = None
    for start, end in zip(starts, [*starts[1:], len(run.tick)], strict=True):
        ids, places = run.actor[start:end].tolist(), run.values[start:end][:, axes]
        between = places[:, None] - places[None]
        apart = np.sqrt(np.sum(between**2, axis=2))
        if before is not None and before[0] == ids:
            apart = np.minimum(apart, _closest(before[1], between))
        before = ids, between
        for first, second in np.argwhere(np.triu(apart < _CARS_MIN_M, 1)).tolist():
            pair, tick = {ids[first], ids[second]}, int(run.tick[start])
            is_small = any(word in types[actor] for actor in pair for word in _SMALL)
            known = any(at <= tick + 1 and (who <= {*pair, None}) for at, who in contacts)
            if apart[first, second] < (_CENTRES_MIN_M if is_small else _CARS_MIN_M) and not known:
                near = f"{apart[first, second]:.2f} m between the centres of actors {ids[first]} and {ids[second]}"
                return f"{near} ({types[ids[first]]}, {types[ids[second]]}) at tick {tick}"
    return None


def _closest(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how near actors come on straight lines from one row to the next: fast cars meet between two rows."""
    moved = after - before
    squares = np.sum(moved**2, axis=2)
    share = np.clip(-np.sum(before * moved, axis=2) / np.where(squares > 0, squares, 1.0), 0.0, 1.0)
    closest: NDArray[np.float64] = np.sqrt(np.sum((before + share[:, :, None] * moved) ** 2, axis=2))
    # A longer step is a jump to another place, which passes no other actor.
    closest[squares > _STEP_MAX_M**2] = np.inf
    return closest


def repeats_itself_if_it_says_so(factory: Factory, runs: int = RUNS) -> str | None:
    """Where determinism is declared, all repeats have the same digest, in one instance and in a fresh one."""
    with factory() as simulator, factory() as fresh:
        if not simulator.info().capabilities.deterministic:
            return None
        for scenario in simulator.info().scenarios:
            digests = [run_once(simulator, scenario, repeat).digest for repeat in range(runs - 1)]
            digests.append(run_once(fresh, scenario, runs - 1).digest)
            told = "three" if runs == RUNS else str(runs)
            _require(
                len(set(digests)) == 1,
                f"{scenario}: declared deterministic, but {told} repeats gave {len(set(digests))} digests",
            )
    return excluded_words(runs)


def excluded_words(runs: int) -> str:
    """Say which rate of odd runs so many equal ones exclude: at a higher one, all are equal in less than 5 % of tries."""
    rate = 1.0 - 0.05 ** (1.0 / runs)
    missed = (1.0 - 0.05) ** runs
    return (
        f"{runs} runs of each scenario are equal; this excludes only that more than {100 * rate:.3g} % of runs differ "
        f"(95 % confidence), and misses a fault in one run of 20 with probability {100 * missed:.2g} %; --runs tries more"
    )


def forgets_the_run_before(factory: Factory) -> None:
    """Where determinism is declared, one and the same repeat has the same digest when it is run again in the same process."""
    with factory() as simulator:
        if not simulator.info().capabilities.deterministic:
            return
        for scenario in simulator.info().scenarios:
            again = run_once(simulator, scenario).digest == run_once(simulator, scenario).digest
            _require(again, f"{scenario}: run again, repeat 0 gave other bits: a run must not depend on any run before it")


def ends_at_a_duration_if_it_says_so(factory: Factory) -> None:
    """Where durations are declared, they end a run at their tick; where determinism is too, it is the whole run cut short."""
    with factory() as simulator:
        info = simulator.info()
        if not info.capabilities.durations:
            return
        for scenario in info.scenarios:
            whole = run_once(simulator, scenario) if info.capabilities.deterministic else None
            for ticks in (1, _FEW_TICKS):
                heard: list[int] = []
                request = RunRequest(scenario, 0, duration_s=ticks * info.step_s)
                short = run_request(simulator, request, heard.append)
                where = f"{scenario}: a duration of {ticks} ticks"
                _check_end(short, ticks, where)
                _require(heard[-1:] == [short.end.tick], f"{where}: on_tick must reach the end tick")
                if whole is not None:
                    same = np.array_equal(short.digests, whole.digests[whole.tick <= short.end.tick])
                    _require(same, f"{where} gave other states than the first {ticks} ticks of the whole run")


def replays_if_it_says_so(factory: Factory) -> None:
    """Where replays are declared, commands can be recorded and replayed; where determinism is too, the same run comes back."""
    with factory() as simulator:
        info = simulator.info()
        if not info.capabilities.replays:
            return
        exact = info.capabilities.deterministic
        # Without determinism a replay promises no bits, so that a short one shows as much.
        duration_s = _FEW_TICKS * info.step_s if info.capabilities.durations and not exact else None
        for scenario in info.scenarios:
            request = RunRequest(scenario, 0, duration_s=duration_s)
            log = simulator.record_commands(request)
            in_loop = run_request(simulator, request)
            _check_commands(log, in_loop, info, scenario)
            replayed = [run_request(simulator, replace(request, repeat=repeat, commands=log)) for repeat in (0, 1)]
            for replay in replayed:
                same = replay.actors == in_loop.actors
                _require(same, f"{scenario}: the replay has other actors than the run with controllers")
                same = not exact or replay.digest == in_loop.digest
                _require(same, f"{scenario}: declared deterministic, but the replay differs from the run with controllers")


def plays_again_if_it_says_so(factory: Factory) -> None:
    """Where inputs are declared, a run gives what went into it, and is played again from that: to the bit, if it is exact."""
    with factory() as simulator:
        info = simulator.info()
        if not info.capabilities.inputs:
            return
        duration_s = _FEW_TICKS * info.step_s if info.capabilities.durations else None
        for scenario in info.scenarios:
            request = RunRequest(scenario, 0, duration_s=duration_s)
            run = run_request(simulator, request)
            _require(run.inputs is not None, f"{scenario}: what went into the run was not given to the recorder")
            again = run_request(simulator, replace(request, repeat=1, inputs=run.inputs))
            _require(again.actors == run.actors, f"{scenario}: played again from its inputs, the run has other actors")
            same = not info.capabilities.deterministic or again.digest == run.digest
            _require(same, f"{scenario}: declared deterministic, but played again from its inputs the run differs")


def refuses_the_unknown(factory: Factory) -> None:
    """An unknown scenario or setting is refused by name before anything runs."""
    with factory() as simulator:
        info = simulator.info()
        for request in (
            RunRequest("no such scenario", 0),
            RunRequest(info.scenarios[0], 0, settings={"no_such_setting": 1}),
        ):
            recorder = Recorder(0, info.channels, info.step_s)
            try:
                simulator.run(request, recorder)
            except UnknownNameError:
                continue
            raise SimulatorError(f"{request} must be refused with an UnknownNameError: use interface.check_request")


def closes_twice(factory: Factory) -> None:
    """Closing is allowed twice, also before the first run."""
    simulator = factory()
    simulator.close()
    simulator.close()


CHECKS: tuple[Check, ...] = (
    describes_itself,
    records_a_whole_run,
    keeps_time,
    uses_declared_channels,
    says_if_it_resamples,
    calls_on_tick,
    names_actors_in_events,
    reports_contacts,
    repeats_itself_if_it_says_so,
    forgets_the_run_before,
    ends_at_a_duration_if_it_says_so,
    replays_if_it_says_so,
    plays_again_if_it_says_so,
    refuses_the_unknown,
    closes_twice,
)


@dataclass(frozen=True)
class CheckResult:
    """A check's name, what it demands, what was wrong (empty: nothing), and what it could not show."""

    name: str
    demand: str
    problem: str
    remark: str = ""


def check_all(factory: Factory, runs: int = RUNS) -> Iterator[CheckResult]:
    """Run every check, one after the other; ``runs`` of every scenario must be equal where determinism is declared."""
    for check in CHECKS:
        name = getattr(check, "__name__", str(check)).replace("_", " ")
        problem, remark = "", None
        try:
            remark = repeats_itself_if_it_says_so(factory, runs) if check is repeats_itself_if_it_says_so else check(factory)
        except SimulatorError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        yield CheckResult(name, (check.__doc__ or "").splitlines()[0], problem, remark or "")


class _Played(NamedTuple):
    """A run of a scenario, and how many of its states were put between two frames: the trace alone does not show that."""

    scenario: str
    repeat: Repeat
    interpolated: int


def _each_scenario(factory: Factory) -> Iterator[_Played]:
    with factory() as simulator:
        for scenario in simulator.info().scenarios:
            with watch_resampling() as seen:
                repeat = run_once(simulator, scenario)
            yield _Played(scenario, repeat, seen.count)


def _check_end(short: Repeat, ticks: int, where: str) -> None:
    """A run may end by itself before its duration, and otherwise ends with it."""
    end = short.end
    found = f"{where} ended at tick {end.tick} with the reason {end.reason!r}"
    _require(
        end.tick <= ticks and (end.reason == DURATION) == (end.tick == ticks), f"{found}, not {DURATION!r} at tick {ticks}"
    )
    _require(end.completed or end.reason != DURATION, f"{where} must count as a completed run")
    late = len(short.tick) > 0 and int(short.tick.max()) > end.tick
    _require(not late, f"{where}: states after the end at tick {end.tick}")


def _check_commands(log: CommandLog, in_loop: Repeat, info: SimulatorInfo, scenario: str) -> None:
    """A log says of every entry when, who and what."""
    _require(len(log.time_s) > 0, f"{scenario}: no command was recorded")
    lengths = {len(log.time_s), len(log.actors), len(log.values)}
    _require(len(lengths) == 1, f"{scenario}: commands need as many times as actors and values")
    whole = all(len(values) == len(log.channels) for values in log.values)
    _require(whole, f"{scenario}: a value for each channel is wanted")
    _require(list(log.time_s) == sorted(log.time_s), f"{scenario}: commands must be in order of time")
    end_s = (in_loop.end.tick + 1) * info.step_s
    within = not info.capabilities.deterministic or log.time_s[-1] < end_s
    _require(within and log.time_s[0] >= 0, f"{scenario}: commands must lie within the run")
    strangers = set(log.actors) - {actor.id for actor in in_loop.actors}
    _require(not strangers, f"{scenario}: commands of actors {sorted(strangers)}, who were never announced")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise SimulatorError(otherwise)
