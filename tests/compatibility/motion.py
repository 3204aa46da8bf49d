"""Check recorded positions against recorded velocities: a witness that needs no second run.

Three equal runs can be equally wrong: positions that belong to another actor repeat to the bit. A body moves by its velocity
times the step, so between two states a position that jumps without one is wrong, unless the client set it. New actors must
stand where the client spawned them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samepath.sessions.methods import spawned_in
from samepath.sessions.recording import SessionAnswer, SessionCall, SessionRows, SessionState, read_session
from samepath.sessions.timeline import content
from samepath.simulator.carla.streams import ACTOR_STATE

JUMP_M = 0.3
"""Collisions and curbs change a velocity within a tick; a wrong row is metres away."""
SETTLE_M = 1.5
"""A spawned body drops onto the road in its first tick."""
_SETTERS = frozenset({"set_actor_transform", "set_actor_location", "set_walker_state", "spawn_actor", "load_new_episode"})
_SETTER_COMMANDS = frozenset({6, 7})  # ApplyTransform and ApplyWalkerState in a batch


@dataclass(frozen=True)
class MotionCheck:
    """How many steps of actors were checked, and those that were wrong: (frame, actor, metres)."""

    steps: int
    spawns: int
    jumps: tuple[tuple[int, int, float], ...]
    misplaced: tuple[tuple[int, int, float], ...]

    @property
    def is_right(self) -> bool:
        return not self.jumps and not self.misplaced


def check_motion(path: Path) -> MotionCheck:
    """Check all steps of all moving actors in a session recording."""
    walk = _Walk()
    for event in read_session(path).events:
        if isinstance(event, SessionCall):
            walk.call(event)
        elif isinstance(event, SessionAnswer):
            walk.answer(event)
        elif isinstance(event, SessionState):
            walk.state(event)
    return MotionCheck(walk.steps, walk.spawns, tuple(walk.jumps), tuple(walk.misplaced))


class _Walk:
    """Goes through a recording once. ``placed`` are the actors that calls have put somewhere since the last state."""

    def __init__(self) -> None:
        self.steps = self.spawns = 0
        self.jumps: list[tuple[int, int, float]] = []
        self.misplaced: list[tuple[int, int, float]] = []
        self._table = SessionRows()
        self._calls: dict[int, SessionCall] = {}
        self._moving: set[int] = set()
        self._placed: set[int] = set()
        self._all_placed = False
        self._new: dict[int, tuple[float, float]] = {}
        self._last: tuple[int, dict[int, np.void]] | None = None

    def call(self, call: SessionCall) -> None:
        self._calls[call.number] = call
        self._all_placed |= call.method in ("load_new_episode", "replay_file")
        self._placed.update(_placed_by(call))

    def answer(self, answer: SessionAnswer) -> None:
        call = self._calls.pop(answer.number, None)
        if call is None:
            return
        for actor, kind, place in _spawned_by(call, answer):
            if kind.startswith(("vehicle.", "walker.")):
                self._moving.add(actor)
                if place is not None:
                    self._new[actor] = place

    def state(self, state: SessionState) -> None:
        rows = np.ascontiguousarray(self._table.apply(state)).view(ACTOR_STATE).reshape(-1)
        now = {int(row["id"]): row for row in rows if int(row["id"]) in self._moving}
        for actor in sorted(self._new.keys() & now.keys()):
            place = np.array(self._new.pop(actor))
            if actor not in self._placed:
                self.spawns += 1
                away = float(np.hypot(*(now[actor]["motion"][:2] - place)))
                if away > SETTLE_M:
                    self.misplaced.append((state.frame, actor, round(away, 2)))
        if self._last is not None and state.frame == self._last[0] + 1 and not self._all_placed:
            for actor in sorted(now.keys() & self._last[1].keys() - self._placed):
                self.steps += 1
                away = _unexplained_m(self._last[1][actor], now[actor], state.delta_s)
                if away > JUMP_M:
                    self.jumps.append((state.frame, actor, round(away, 2)))
        self._last, self._all_placed = (state.frame, now), False
        self._placed.clear()


def _unexplained_m(before: np.void, now: np.void, step_s: float) -> float:
    """The distance from the new position to the nearest one that a velocity between the old and the new one leads to."""
    moved = (now["motion"][:3] - before["motion"][:3]).astype(float)
    first, last = (row["motion"][6:9].astype(float) * step_s for row in (before, now))
    along = last - first
    length = float(along @ along)
    share = min(1.0, max(0.0, float((moved - first) @ along) / length)) if length else 0.0
    return float(np.linalg.norm(moved - first - share * along))


def _placed_by(call: SessionCall) -> Iterator[int]:
    """The actors that a call puts somewhere."""
    values = content(call.arguments)
    arguments: list[Any] = values[1:] if isinstance(values, list) else []
    if call.method in _SETTERS and arguments and isinstance(arguments[0], int):
        yield arguments[0]
    if call.method == "apply_batch" and arguments and isinstance(arguments[0], list):
        for command in arguments[0]:
            match command:
                case [int() as kind, [int() as actor, *_]] if kind in _SETTER_COMMANDS:
                    yield actor
                case [[int() as kind, [int() as actor, *_]], *_] if kind in _SETTER_COMMANDS:
                    yield actor


def _spawned_by(call: SessionCall, answer: SessionAnswer) -> Iterator[tuple[int, str, tuple[float, float] | None]]:
    """The actors that a call spawned: number, type, and where, if they have no parent."""
    values, result = content(call.arguments), content(answer.result)
    arguments: list[Any] = values[1:] if isinstance(values, list) else []
    if result is None:
        return
    for actor, kind in spawned_in(call.method, arguments, result):
        place = None
        match call.method, arguments:
            case "spawn_actor", [_, [[x, y, *_], *_]]:
                place = (x, y)
        yield actor, kind, place


def motion_words(sessions: Sequence[Path]) -> str:
    """What the check of all runs came to, on one line."""
    checks = [check_motion(path) for path in sessions if path.exists()]
    steps, spawns = sum(check.steps for check in checks), sum(check.spawns for check in checks)
    wrong = [(f"jump of {away} m", frame, actor) for check in checks for frame, actor, away in check.jumps]
    wrong += [(f"spawned {away} m away", frame, actor) for check in checks for frame, actor, away in check.misplaced]
    words = f"{steps} steps and {spawns} spawns checked"
    if not wrong:
        return f"{words}: right"
    what, frame, actor = wrong[0]
    return f"{words}: {len(wrong)} wrong, first: frame {frame}, actor {actor}: {what}"
