"""kill -9 at random moments: ``samepath serve --journal`` is killed again and again while a client calls, and resumed.

The client does not wait for its answers, so most kills come while calls are being made. Every fifth kill comes at any moment,
also while the server starts or resumes. After each kill the journal must hold every call that was answered, each call once,
and every tick with the digest that the same calls have in an undisturbed world. After each round of kills the whole world
is compared. Each server is a fork of one process that has imported everything: a kill then takes a second, not three.

Takes about four minutes for 200 kills; SAMEPATH_BENCH_SERVE_KILLS says how many there are.
"""

import contextlib
import os
import select
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.simulator.server.journal_files import JournalRecord, RecordKind, numbers_of, part_path, read_part
from tests.support.journal_scenario import Desk, resumed
from tests.support.serve_processes import ServePool, ServeProcess, serve_pool
from tests.support.serving import described

KILLS = int(os.environ.get("SAMEPATH_BENCH_SERVE_KILLS", "200"))
LONGEST_S = 0.4  # from the first call to a kill
START_S = 1.0  # of a kill at any moment, from the start of the process
KILLS_PER_ROUND = 25
WINDOW = 16  # calls that are sent ahead of their answers
_EARLY = 5  # one kill in five comes at any moment
_CARS = ("vehicle.audi.tt", "vehicle.tesla.model3", "vehicle.yamaha.yzf")
_SYNCHRONOUS = [True, False, [True, 0.05], True, 0.01, 10, 0.0, False, 0.0, 0.0, True]


@dataclass(frozen=True)
class ServeKillFigures:
    """What came of servers that were killed."""

    rounds: int = 0
    kills: int = 0
    kills_at_any_moment: int = 0
    calls_answered: int = 0
    calls_kept: int = 0
    calls_lost: int = 0
    calls_made_twice: int = 0
    ticks_compared: int = 0
    ticks_different: int = 0
    worlds_different: int = 0

    @property
    def is_clean(self) -> bool:
        """Return True if no kill left a trace."""
        wrong = self.calls_lost + self.calls_made_twice + self.ticks_different + self.worlds_different
        return wrong == 0 and self.calls_answered > 0 and self.ticks_compared > 0

    def __add__(self, other: "ServeKillFigures") -> "ServeKillFigures":
        return ServeKillFigures(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


class Reference:
    """The undisturbed world. It makes the calls of :func:`_calls` when they are asked for, in their order."""

    def __init__(self) -> None:
        self._desk = Desk(map_name="t-junction")
        self._coming = _calls(self._desk)
        self.calls: list[tuple[Any, ...]] = []
        self.after = [self._desk.episode.world.digest]  # each call

    def call(self, number: int) -> tuple[Any, ...]:
        """Return the call of a number; the first is 1."""
        while len(self.calls) < number:
            name, *arguments = call = next(self._coming)
            self._desk.send(name, *arguments)
            self.calls.append(call)
            self.after.append(self._desk.episode.world.digest)
        return self.calls[number - 1]


def _calls(desk: Desk) -> Iterator[tuple[Any, ...]]:
    """Yield calls for ever: cars that drive, props that come and go, weather, ticks."""
    spots = desk.ask("get_map_info")[1]
    yield "set_episode_settings", _SYNCHRONOUS
    first = desk.episode.next_actor_id
    for number, name in enumerate(_CARS):
        yield "spawn_actor", described(name), spots[number]
    prop = first + len(_CARS)
    number = 0
    while True:
        number += 1
        chance = stream(7, "serve kills", number)
        throttle, steer, x, y = chance.uniform(0.0, 0.6), chance.uniform(-0.3, 0.3), *chance.uniform(-40.0, 40.0, 2)
        for car in range(len(_CARS)):
            yield "apply_control_to_vehicle", first + car, [float(throttle), float(steer), 0.0, False, False, False, 0]
        if number % 7 == 3:
            yield "spawn_actor", described("static.prop.trafficcone01"), [[float(x), float(y), 30.0], [0.0, 0.0, 0.0]]
        if number % 7 == 5:
            yield "destroy_actor", prop
            prop += 1
        if number % 11 == 5:
            yield "set_weather_parameters", [float(number % 100)] * 14
        yield ("tick_cue",)


def run(folder: Path, kills: int, *, seed: int = 1, kills_per_round: int = KILLS_PER_ROUND) -> ServeKillFigures:
    """Kill servers, ``kills`` of them."""
    chance, reference, figures = stream(seed, "bench", "serve kills"), Reference(), ServeKillFigures()
    with serve_pool() as pool:
        while figures.kills < kills:
            place = folder / f"round-{figures.rounds}"
            place.mkdir()
            figures += _round(pool, place, reference, min(kills_per_round, kills - figures.kills), chance)
            print(f"{figures.kills} kills: {asdict(figures)}", file=sys.stderr, flush=True)
    return figures


def _round(pool: ServePool, folder: Path, reference: Reference, kills: int, chance: np.random.Generator) -> ServeKillFigures:
    """Kill one server after the other, each of which resumes what the one before it left."""
    figures, made = ServeKillFigures(rounds=1), 0
    for number in range(kills):
        early, answered = number % _EARLY == _EARLY - 1, made
        resume = ["--resume"] if any(_parts(folder)) else []
        with pool.serve(folder, "--journal", "journal", "--data", "data", *resume) as server:
            if early:
                SYSTEM_CLOCK.sleep_s(float(chance.uniform(0.0, START_S)))
            else:
                answered = _call(server.ready(), reference, made, float(chance.uniform(0.0, LONGEST_S)))
            server.signal(signal.SIGKILL)
        kept, more = _look(folder, reference, made, answered)
        figures += more + ServeKillFigures(kills=1, kills_at_any_moment=int(early))
        made = max(made, kept)
    after = Desk(resumed(folder / "journal"), map_name="t-junction", data=folder / "data")
    same = after.episode.world.digest == reference.after[made]
    after.close()
    return figures + ServeKillFigures(worlds_different=int(not same), calls_kept=made)


def _call(server: ServeProcess, reference: Reference, made: int, for_s: float) -> int:
    """Make the calls that were not made, as fast as the server takes them; returns the last one that was answered."""
    answered = sent = made
    with server.client() as client:
        start_s = SYSTEM_CLOCK.monotonic_s()
        while (left_s := start_s + for_s - SYSTEM_CLOCK.monotonic_s()) > 0.0:
            while sent - answered < WINDOW:
                sent += 1
                name, *arguments = reference.call(sent)
                client.socket.sendall(msgpack.packb([0, sent, name, [[False], *arguments]]))
            if select.select([client.socket], [], [], left_s)[0]:
                answered = int(client.receive()[0])
        server.signal(signal.SIGKILL)  # while the client is still connected
    return answered


def _parts(folder: Path) -> list[list[JournalRecord]]:
    journal = folder / "journal"
    if not journal.is_dir():
        return []
    return [list(read_part(part_path(journal, number)).records) for number in numbers_of(journal)[0]]


def _look(folder: Path, reference: Reference, made: int, answered: int) -> tuple[int, ServeKillFigures]:
    """Compare the journal with the undisturbed world; returns the last call in it."""
    records = [record for part in _parts(folder) for record in part]
    calls = [_number(record) for record in records if record.kind is RecordKind.CALL]
    # Before a client asks for synchronous mode the world ticks by itself: those ticks belong to no call.
    ticks = [
        (_number(call), bytes(record.fields[1]).hex())
        for call, record in pairwise(records)
        if call.kind is RecordKind.CALL and record.kind is RecordKind.TICK
    ]
    last = max([made, *calls])
    reference.call(last)
    return last, ServeKillFigures(
        calls_answered=max(answered - made, 0),
        calls_lost=max(answered - last, 0),
        calls_made_twice=len(calls) - len(set(calls)),
        ticks_compared=len(ticks),
        ticks_different=sum(reference.after[number] != digest for number, digest in ticks),
    )


def _number(record: JournalRecord) -> int:
    number: int = msgpack.unpackb(record.fields[1])[1]
    return number


def main() -> bool:
    """Kill, resume, compare."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as closing:
        closing.callback(Desk.open.clear)
        figures = run(Path(name), KILLS)
    row = [str(value) for value in asdict(figures).values()]
    columns = [name.replace("_", " ") for name in asdict(figures)]
    show("kill -9 of samepath serve", [*columns, "verdict"], [[*row, verdict(met=figures.is_clean)]])
    save("serve_kills", asdict(figures))
    return figures.is_clean
