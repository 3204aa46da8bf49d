"""Ticks with a synchronous traffic manager of CARLA's client, which can lose a wake-up of its own and then waits for ever.

A process ticks, this one watches: no tick for ``HUNG_S`` is a hang; that process is ended, and a new one goes on with what is
left. After a tick that took longer than ``WOKEN_S`` the server had to wake the traffic manager. SAMEPATH_BENCH_DEADLOCK_TICKS
says how many ticks, SAMEPATH_BENCH_DEADLOCK_VEHICLES (such as ``0,10``) with how many vehicles on autopilot; other than the
usual numbers have a result of their own (``deadlock-0-10``). The traffic
manager takes out vehicles that have stood for long: others are spawned in their place, or a hundred vehicles would be twenty
after some hours of driving. A million ticks with a hundred vehicles take hours. SAMEPATH_BENCH_DEADLOCK_SHARES cuts the ticks
of each number of vehicles into so many parts, and SAMEPATH_BENCH_DEADLOCK_JOBS of all parts run beside each other, each with a
client and a server of its own. SAMEPATH_BENCH_DEADLOCK_KEEP names a folder where every minute is written how far each part is.
Who stops this (SIGTERM) has the result of what was made so far, beside how much was wanted; who starts it again with the same
code goes on there, with new clients and servers; the results say how many ticks were made in one go (``ticks_in_one_go``). A
client that ends by itself, as CARLA's can when a vehicle vanishes, is no hang, and is counted apart (``ticks_until_abort``).
"""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from bench.server import serving
from bench.tools import code_measured, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.files import write_text_atomically
from samepath.core.processes import die_with_parent

TICKS = int(os.environ.get("SAMEPATH_BENCH_DEADLOCK_TICKS", "20000"))
EACH = (0, 1, 10, 100)
VEHICLES = tuple(map(int, os.environ.get("SAMEPATH_BENCH_DEADLOCK_VEHICLES", ",".join(map(str, EACH))).split(",")))
SHARES = int(os.environ.get("SAMEPATH_BENCH_DEADLOCK_SHARES", "1"))
JOBS = int(os.environ.get("SAMEPATH_BENCH_DEADLOCK_JOBS", "1"))
HUNG_S = 30.0
WOKEN_S = 2.0
LOOK_S = 0.25
COUNT_TICKS = 200  # so often a client looks whether all its vehicles are there
MADE, WOKEN, RESPAWNED, LEAST = range(4)  # what a client writes down
TOLD_EVERY_S = 60.0
_ended = threading.Event()  # somebody wants this to end: servers and clients, too


@dataclass(frozen=True)
class Soak:
    """How far it is with so many vehicles: ticks of each session in order, of which some ended in a hang or by themselves.

    ``respawned`` vehicles took the place of others; ``fewest`` were there when a client looked.
    """

    sessions: list[int] = field(default_factory=list)
    ticks_until_hang: list[int] = field(default_factory=list)
    ticks_until_abort: list[int] = field(default_factory=list)
    woken: int = 0
    respawned: int = 0
    fewest: int | None = None
    busy_s: float = 0.0

    @property
    def ticks(self) -> int:
        return sum(self.sessions)

    def after(self, made: Sequence[int], busy_s: float) -> "Soak":
        """With one session more."""
        return replace(
            self,
            sessions=[*self.sessions, made[MADE]],
            woken=self.woken + made[WOKEN],
            respawned=self.respawned + made[RESPAWNED],
            fewest=made[LEAST] if self.fewest is None else min(self.fewest, made[LEAST]),
            busy_s=self.busy_s + busy_s,
        )

    def figures(self) -> dict[str, object]:
        return {
            "ticks": self.ticks,
            "ticks_wanted": TICKS,
            "ticks_per_s": self.ticks / max(self.busy_s, 1e-9),
            "woken": self.woken,
            "ticks_until_hang": self.ticks_until_hang,
            "ticks_until_abort": self.ticks_until_abort,
            "respawned": self.respawned,
            "fewest_vehicles": self.fewest,
            "ticks_in_one_go": max(self.sessions, default=0),
            "sessions": self.sessions,
            "beside_each_other": JOBS,
        }


def together(parts: Sequence[Soak]) -> Soak:
    """All parts as one."""
    return Soak(
        [ticks for part in parts for ticks in part.sessions],
        [ticks for part in parts for ticks in part.ticks_until_hang],
        [ticks for part in parts for ticks in part.ticks_until_abort],
        sum(part.woken for part in parts),
        sum(part.respawned for part in parts),
        min((part.fewest for part in parts if part.fewest is not None), default=None),
        sum(part.busy_s for part in parts),
    )


@dataclass(frozen=True)
class Part:
    """So many ticks with so many vehicles: one of the shares of all that are wanted."""

    vehicles: int
    number: int

    @property
    def ticks(self) -> int:
        return TICKS * (self.number + 1) // SHARES - TICKS * self.number // SHARES

    def __str__(self) -> str:
        return f"{self.vehicles} vehicles" + (f", part {self.number + 1} of {SHARES}" if SHARES > 1 else "")

    def kept(self) -> Path | None:
        """Where it is written how far this is."""
        folder = os.environ.get("SAMEPATH_BENCH_DEADLOCK_KEEP")
        share = f"-{self.number + 1}-of-{SHARES}" if SHARES > 1 else ""
        return Path(folder) / f"{self.vehicles}-{TICKS}{share}-{code_measured()['digest']}.json" if folder else None


def main() -> bool:
    """Tick; return whether all ticks were made and nothing hung."""
    if importlib.util.find_spec("carla") is None:
        print("deadlock: CARLA's client is not installed; nothing was measured")
        return True
    signal.signal(signal.SIGTERM, lambda *_: _ended.set())
    parts = [Part(count, number) for count in VEHICLES for number in range(SHARES)]
    with ThreadPoolExecutor(JOBS) as pool:
        try:
            done = dict(zip(parts, pool.map(_soak, parts), strict=True))
        except BaseException:
            _ended.set()
            raise
    figures: dict[str, object] = {}
    rows, whole = [], True
    for count in VEHICLES:
        found = together([soak for part, soak in done.items() if part.vehicles == count])
        figures[str(count)] = found.figures()
        met = found.ticks == TICKS and not found.ticks_until_hang
        whole = whole and met
        shown = ", ".join(f"{ticks:,}" for ticks in found.ticks_until_hang)
        made = [f"{found.ticks:,}", f"{TICKS:,}", f"{max(found.sessions, default=0):,}"]
        rate = f"{found.ticks / max(found.busy_s, 1e-9):,.0f}"
        rows.append([str(count), *made, rate, str(found.woken), shown, verdict(met=met)])
    columns = ["vehicles", "ticks", "wanted", "in one go", "per s", "woken", "hung after", "aim: never"]
    show("ticks with a synchronous traffic manager", columns, rows)
    save(result_name(VEHICLES), figures)
    return whole


def result_name(vehicles: Sequence[int]) -> str:
    """Where the figures are kept: those of some numbers of vehicles do not take the place of those of all."""
    return "deadlock" if tuple(vehicles) == EACH else "-".join(["deadlock", *map(str, vehicles)])


def _soak(part: Part) -> Soak:
    """Make the ticks of a part, after a hang with a new client and a new server."""
    kept = part.kept()
    done = Soak(**json.loads(kept.read_text("utf-8"))) if kept is not None and kept.exists() else Soak()
    if done.ticks:
        print(f"{part}: {done.ticks:,} ticks were made before", flush=True)

    def tell(now: Soak) -> None:
        print(f"{part}: {now.ticks:,} of {part.ticks:,} ticks, {now.ticks / now.busy_s:,.0f} per s", flush=True)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(kept, json.dumps(asdict(now)))

    while done.ticks < part.ticks and not _ended.is_set():
        with serving("town", apart=False) as port:
            done = _watch(port, part, done, tell)
        if done.sessions:
            tell(done)
    return done


def _watch(port: int, part: Part, before: Soak, tell: Callable[[Soak], None]) -> Soak:
    """Let a process tick until all is done, or it hangs; gives what was there before with this session."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ticks"
        np.array([0, 0, 0, part.vehicles]).tofile(path)
        made = np.memmap(path, np.int64, "r")
        words = [str(port), str(part.vehicles), str(part.ticks - before.ticks), str(path), str(os.getpid())]
        command = [sys.executable, "-m", "bench.deadlock", *words]
        process = subprocess.Popen(command, env={**os.environ, "CARLA_CACHE_DIR": folder}, stderr=subprocess.DEVNULL)
        last = first = 0
        last_s = first_s = told_s = SYSTEM_CLOCK.monotonic_s()
        hung = False

        def now() -> Soak:
            # The ticks before the first look are taken to have been as quick as the others.
            return before.after([last, *map(int, made[1:])], (last_s - first_s) * last / max(last - first, 1))

        try:
            while process.poll() is None and not _ended.is_set():
                SYSTEM_CLOCK.sleep_s(LOOK_S)
                ticks, look_s = int(made[MADE]), SYSTEM_CLOCK.monotonic_s()
                if ticks != last:
                    if not last:
                        first, first_s = ticks, look_s
                    last, last_s = ticks, look_s
                # Before the first tick it may still be building the traffic manager's map.
                elif look_s - last_s > HUNG_S * (1 if last else 10):
                    hung = True
                    break
                if look_s - told_s > TOLD_EVERY_S and last > first:
                    tell(now())
                    told_s = look_s
        finally:
            process.kill()
            process.wait()
        last = int(made[MADE])
        if _ended.is_set() and not last:
            return before
        if process.returncode > 0 or not last:
            raise SystemExit(f"the client ended with {process.returncode} after {last} ticks")
        done = now()
        if hung:
            print(f"{part}: hung after {last:,} ticks", flush=True)
            return replace(done, ticks_until_hang=[*done.ticks_until_hang, last])
        if process.returncode < 0 and not _ended.is_set():
            print(f"{part}: the client ended with {process.returncode} after {last:,} ticks", flush=True)
            return replace(done, ticks_until_abort=[*done.ticks_until_abort, last])
        return done


def tick(port: int, vehicles: int, ticks: int, path: str, watcher: int) -> None:
    """Tick, and write down how often; ends with the process that watches."""
    die_with_parent(watcher)
    import carla

    made = np.memmap(path, np.int64, "r+")
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(60.0)
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        manager_port = free.getsockname()[1]
    manager = client.get_trafficmanager(manager_port)
    manager.set_random_device_seed(1)
    manager.set_synchronous_mode(True)
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    places = world.get_map().get_spawn_points()
    ids: list[int] = []
    tried = 0
    for number in range(1, ticks + 1):
        if number % COUNT_TICKS == 1:
            seen = world.get_snapshot()
            ids = [actor_id for actor_id in ids if seen.find(actor_id) is not None]
            if number > 1:
                made[LEAST] = min(int(made[LEAST]), len(ids))
            # Where somebody stands nobody is spawned; what is not made up for now is tried again at the next look.
            for place in (places[(tried + k) % len(places)] for k in range(len(places))):
                if len(ids) >= vehicles:
                    break
                tried += 1
                vehicle = world.try_spawn_actor(blueprint, place)
                if vehicle is not None:
                    vehicle.set_autopilot(True, manager_port)
                    ids.append(vehicle.id)
                    made[RESPAWNED] += number > 1
        start_s = SYSTEM_CLOCK.monotonic_s()
        world.tick()
        made[MADE] = number
        made[WOKEN] += SYSTEM_CLOCK.monotonic_s() - start_s > WOKEN_S
    # Ending in good order is not what is measured, and a traffic manager may take its time about it.
    os._exit(0)


if __name__ == "__main__":
    tick(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
