"""Why a script's runs part: what may be to blame, what a watched run saw, and how it is said. Pure.

A cause in the script is named by experiment alone (``investigation.py``): changing one input brings the divergence back, and
holding it removes it. What an experiment does not show is ``unknown``, with a line on what to try next.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from samepath.core.errors import printable
from samepath.sessions.compare import DifferenceKind, SessionDifference
from samepath.sessions.recording import SessionCall, SessionRecording

_REPORT_BYTES_MOST: Final = 256 << 20


class ScriptFactor(StrEnum):
    """What an experiment can hold still or vary."""

    MANAGER_MODE = "traffic manager's mode"
    MANAGER_SEED = "traffic manager's seed"
    RANDOM = "random numbers"
    CLOCK = "clock"
    HASH = "hash order"
    ADDRESSES = "memory addresses"
    ORDER = "order of threads"


@dataclass(frozen=True)
class ScriptCause:
    """A reason in the script: its name, and what to change."""

    name: str
    advice: str


CAUSES: Final[dict[ScriptFactor, ScriptCause]] = {
    ScriptFactor.RANDOM: ScriptCause(
        "random without seed",
        "seed before the first draw: random.seed(0), numpy.random.seed(0), or a generator of your own such as random.Random(0)",
    ),
    ScriptFactor.CLOCK: ScriptCause(
        "wall clock",
        "decide by simulated time, world.get_snapshot().timestamp.elapsed_seconds or a count of ticks, not by time.time()",
    ),
    ScriptFactor.HASH: ScriptCause(
        "hash order (sets and their like come out in another order in every process)",
        "give it an order before you use it: for name in sorted(names); PYTHONHASHSEED=0 hides it and does not mend it",
    ),
    ScriptFactor.ADDRESSES: ScriptCause(
        "hash order of objects (memory addresses differ in every process)",
        "give sets and dicts of objects an order before you use them: sorted(actors, key=lambda actor: actor.id)",
    ),
    ScriptFactor.MANAGER_MODE: ScriptCause(
        "unsynchronised traffic manager",
        "call traffic_manager.set_synchronous_mode(True) right after client.get_trafficmanager(), in every script that ticks",
    ),
    ScriptFactor.MANAGER_SEED: ScriptCause(
        "traffic manager without seed", "call traffic_manager.set_random_device_seed(0) before it gets vehicles"
    ),
}
ONE_THREAD: Final = (
    "make all calls that change the world from the thread that ticks: let threads and sensor callbacks put what they have "
    "into a queue, and take it out before world.tick()"
)
THREAD: Final = ScriptCause("thread", ONE_THREAD)
# What to try next where no experiment shows a cause.
SYNCHRONOUS: Final = (
    "make the world wait for the script: settings.synchronous_mode = True, settings.fixed_delta_seconds = 0.05, then "
    "world.tick(); do it before anything is spawned, and run samepath twice again"
)
ONE_CLIENT: Final = (
    "let one client make all calls that change the world, or have the others wait for its tick before they call, and run "
    "samepath twice again"
)
SYNCHRONOUS_MANAGER: Final = (
    "call traffic_manager.set_synchronous_mode(True) right after client.get_trafficmanager(), and run samepath twice again"
)


def unknown(advice: str = "look at the call that differed first and at what decides its values") -> ScriptCause:
    """Return the cause ``unknown`` with what to record or try next."""
    return ScriptCause("unknown", advice)


UNKNOWN: Final = unknown()
CAUSES[ScriptFactor.ORDER] = THREAD
BEGINNING: Final = ScriptCause(
    "the server was in another state when the session began",
    "give each run a fresh server, or load its map anew before (client.load_world, with settings reset): somebody has left "
    "settings or actors behind",
)
SIMULATOR: Final = ScriptCause(
    "the simulator itself: the same calls at the same ticks, and another outcome",
    "fix what the simulator leaves open (physics step, threads, drivers, seeds), or measure how far its runs spread with "
    "samepath study",
)


@dataclass(frozen=True)
class Place:
    """A line of code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{printable(Path(self.file).name)}:{self.line}"


@dataclass(frozen=True)
class WatchedCall:
    """A call of CARLA's Python API."""

    name: str
    actor: int | None
    thread: str
    place: Place
    time_s: float


@dataclass
class Witness:
    """What was seen inside the script's interpreter."""

    began: bool = False
    watches_carla: bool = False
    processes: set[int] = field(default_factory=set)
    draws: list[tuple[str, Place]] = field(default_factory=list)
    clocks: list[tuple[str, Place]] = field(default_factory=list)
    threads: list[tuple[str, Place]] = field(default_factory=list)
    calls: list[WatchedCall] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def calling_threads(self) -> tuple[str, ...]:
        """The threads that called CARLA, in the order of their first calls."""
        return tuple(dict.fromkeys(call.thread for call in self.calls if not call.name.startswith("Sensor.")))

    def called(self, *names: str) -> list[WatchedCall]:
        return [call for call in self.calls if call.name in names]


def read_witness(path: Path) -> Witness:
    """Read what a watched run has written; half a line at the end is one that was being written when it ended."""
    found = Witness()
    try:
        if not path.exists() or path.stat().st_size > _REPORT_BYTES_MOST:
            return found
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        found.problems.append(f"{path} could not be read: {error.strerror or error}")
        return found
    for line in lines:
        try:
            _take(found, json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _take(found: Witness, said: dict[str, Any]) -> None:
    kind = said["kind"]
    found.processes.add(int(said["pid"]))
    if kind == "begin":
        found.began = True
    elif kind == "carla":
        found.watches_carla = True
    elif kind == "problem":
        found.problems.append(str(said["words"]))
    elif kind in ("random", "clock", "thread"):
        place = Place(str(said["file"]), int(said["line"]))
        {"random": found.draws, "clock": found.clocks, "thread": found.threads}[kind].append((str(said["name"]), place))
    elif kind == "call":
        place = Place(str(said["file"]), int(said["line"]))
        actor = said["actor"] if isinstance(said["actor"], int) else None
        found.calls.append(WatchedCall(str(said["name"]), actor, str(said["thread"]), place, float(said["time_s"])))


# Which functions of CARLA's Python API send which call.
_SENDERS: Final[dict[str, tuple[str, ...]]] = {
    "tick_cue": ("World.tick", "World.apply_settings", "Client.apply_batch_sync", "Client.load_world", "Client.reload_world"),
    "apply_batch": ("Client.apply_batch", "Client.apply_batch_sync"),
    "spawn_actor": ("World.spawn_actor", "World.try_spawn_actor"),
    "spawn_actor_with_parent": ("World.spawn_actor", "World.try_spawn_actor"),
    "set_episode_settings": ("World.apply_settings",),
    "load_new_episode": ("Client.load_world", "Client.reload_world", "Client.generate_opendrive_world"),
    "apply_control_to_vehicle": ("Vehicle.apply_control",),
    "apply_ackermann_control_to_vehicle": ("Vehicle.apply_ackermann_control",),
    "apply_control_to_walker": ("Walker.apply_control",),
    "destroy_actor": ("Actor.destroy", "Sensor.destroy", "ServerSideSensor.destroy"),
    "set_weather_parameters": ("World.set_weather",),
    "set_vehicle_light_state": ("Vehicle.set_light_state",),
    "apply_physics_control": ("Vehicle.apply_physics_control",),
}
# The clock of a call's record and that of the watched function are one; between them lie the client's queue and a socket.
_SLACK_S: Final = 0.001


def senders_of(method: str) -> tuple[str, ...]:
    """The functions of the Python API that send a call; empty where that is not known."""
    if method in _SENDERS:
        return _SENDERS[method]
    plain = method.replace("_actor_", "_", 1)
    return (f"Actor.{plain}",) if plain != method else ()


def caller_of(recording: SessionRecording, number: int | None, actor: int | None, witness: Witness) -> WatchedCall | None:
    """The line that made a recorded call: the last one before it that calls the function which sends it."""
    sent = next((event for event in recording.events if isinstance(event, SessionCall) and event.number == number), None)
    if sent is None:
        return None
    before = [call for call in witness.calls if call.time_s <= sent.time_s + _SLACK_S]
    names = senders_of(sent.method)
    if names:
        before = [
            call for call in before if call.name in names and (call.actor is None or actor is None or call.actor == actor)
        ]
    return before[-1] if before else None


def same_per_thread(ours: Witness, theirs: Witness) -> bool:
    """Did every thread, taken for itself, make the same calls in both runs, as far as both go?"""
    for thread in ours.calling_threads:
        lists = [[(call.name, call.actor) for call in side.calls if call.thread == thread] for side in (ours, theirs)]
        if any(a != b for a, b in zip(*lists, strict=False)):
            return False
    return set(ours.calling_threads) == set(theirs.calling_threads)


def number(value: Any) -> str:  # noqa: ANN401 - any value of a call
    """A value as people read it: a float in full, everything else bounded."""
    if isinstance(value, float):
        return f"{value:.9g}"
    text = printable(str(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def describe(difference: SessionDifference, runs: tuple[int, int] = (1, 2)) -> str:
    """The first difference in a plain sentence."""
    who = ""
    if difference.actor is not None:
        who = f" of actor {difference.actor}" + (f" ({difference.actor_type})" if difference.actor_type else "")
    a, b = (number(value) for value in difference.values)
    first, second = (f"run {run}" for run in runs)
    when = "in asynchronous mode" if difference.tick is None else f"at tick {difference.tick}"
    frames = " and ".join("none" if frame is None else str(frame) for frame in difference.frames)
    place = f"{when} (frames {frames})"
    call = f"{difference.method}{who.replace(' of ', ' for ', 1)}"
    name = difference.field
    others = f", and of {difference.actors - 1} other actors" if difference.actors > 1 else ""
    more = f"; {len(difference.fields)} of its fields differ" if len(difference.fields) > 1 else ""
    match difference.kind, name, difference.tick:
        case DifferenceKind.BEGINNING, _, _:
            words = f"The world was another when the script came: {name} {a} in {first}, {b} in {second}."
        case DifferenceKind.CALL, "call" | "method", _:
            words = f"The calls differ {place}: {a} in {first}, {b} in {second}."
        case DifferenceKind.CALL, _, _:
            words = f"The call {call} differs {place}: {name} is {a} in {first} and {b} in {second}."
        case DifferenceKind.ARRIVAL, _, None:
            words = (
                f"The same call {difference.method} came {a} ticks after the first one in {first} and {b} in {second}; "
                f"{name}{who} was another by then."
            )
        case DifferenceKind.ARRIVAL, "order", _:
            words = f"The call {call} came in another order among those before the same tick, {place}."
        case DifferenceKind.ARRIVAL, _, _:
            words = f"The same call {call} came at tick {a} in {first} and at tick {b} in {second}."
        case DifferenceKind.ANSWER, _, _:
            words = f"The same call {call} {place} was answered otherwise: {name} is {a} in {first}, {b} in {second}."
        case DifferenceKind.SENSOR, _, _:
            words = f"The measurement of a {name} differs {place}, of equal states (digests {a} and {b})."
        case _:
            words = f"The state differs {place}: {name}{who} is {a} in {first} and {b} in {second}{more}{others}."
    return words


def places(found: Iterable[tuple[str, Place]], most: int = 3) -> str:
    """Say where something is done: drive.py:14 (random.random), ..."""
    listed = [f"{place} ({name})" for name, place in found]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
