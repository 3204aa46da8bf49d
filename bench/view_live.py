"""What it costs a server to be watched: ticks a second with the live view, a page that polls it included, and without.

Turns alternate, because the machine has other work: a turn with the view is held against the turns beside it. The view runs in
a process of its own; on a machine with a core to spare for it the server loses the sending of one more stream. Where all cores
are taken by others, ticks a second tell more about those: the processor's time that the server takes for a tick tells its cost.
"""

import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.rpc import RawRpc

TURNS: Final = 9
TICKS: Final = 400
CARS: Final = 30
POLL_S: Final = 0.066
LOSS_MOST: Final = 0.05


def _first_line(process: "subprocess.Popen[str]", start: str) -> str:
    stream = process.stderr
    if stream is None:
        raise RuntimeError("a pipe was wanted")
    return next(line for line in stream if start in line)


class Poller:
    """A page that is open: it asks for the state as often as the viewer's page does."""

    def __init__(self, url: str) -> None:
        self.answers = 0
        self._over = threading.Event()
        self._url = url
        # The first answer reads the map: what is measured is a page that is open.
        self._ask()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _ask(self) -> None:
        with urllib.request.urlopen(f"{self._url}live.json", timeout=120) as answer:
            answer.read()

    def _run(self) -> None:
        while not self._over.wait(POLL_S):
            self._ask()
            self.answers += 1

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


class Turn(NamedTuple):
    """Ticks a second by the clock, and the processor's time that the server took for one."""

    ticks_per_s: float
    cpu_ms_per_tick: float


def _turn(client: RawRpc, server: psutil.Process) -> Turn:
    begun_s, cpu_s = SYSTEM_CLOCK.monotonic_s(), _cpu_s(server)
    for _ in range(TICKS):
        client.value("tick_cue")
    return Turn(TICKS / (SYSTEM_CLOCK.monotonic_s() - begun_s), 1000 * (_cpu_s(server) - cpu_s) / TICKS)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _against_neighbours(watched: list[float], alone: list[float]) -> float:
    pairs = zip(watched, alone, alone[1:], strict=False)
    return median(with_it / ((before + after) / 2) for with_it, before, after in pairs)


def main() -> bool:
    """Measure, print, write."""
    watched: list[Turn] = []
    alone: list[Turn] = []
    answers = 0
    with TemporaryDirectory() as folder:
        serve = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--map", "town", "--data", str(Path(folder) / "d")]
        with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
            try:
                process = psutil.Process(server.pid)
                port = int(_first_line(server, "serving").split(",")[0].rsplit(":", 1)[1])
                with RawRpc("127.0.0.1", port) as client:
                    client.ask(
                        "set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05))
                    )
                    for point in client.value("get_map_info")[1][:CARS]:
                        client.ask("spawn_actor", [0, "vehicle.audi.tt", []], point)
                    _turn(client, process)
                    for turn in range(2 * TURNS + 1):
                        if turn % 2 == 0:
                            alone.append(_turn(client, process))
                            continue
                        view = [sys.executable, "-m", "samepath", "view", f"127.0.0.1:{port}", "--no-open"]
                        with subprocess.Popen(view, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as page:
                            try:
                                url = page.stdout.readline().strip() if page.stdout else ""
                                poller = Poller(url)
                                watched.append(_turn(client, process))
                                poller.stop()
                                answers += poller.answers
                            finally:
                                page.terminate()
            finally:
                server.terminate()
    rate = _against_neighbours([sample.ticks_per_s for sample in watched], [sample.ticks_per_s for sample in alone])
    cost = _against_neighbours([sample.cpu_ms_per_tick for sample in watched], [sample.cpu_ms_per_tick for sample in alone])
    met = cost <= 1 + LOSS_MOST
    rows = [
        [
            name,
            f"{median(sample.ticks_per_s for sample in turns):.0f}",
            f"{median(sample.cpu_ms_per_tick for sample in turns):.2f}",
        ]
        for name, turns in (("alone", alone), ("watched", watched))
    ]
    rows.append(["watched to alone, turn by turn", f"{rate:.3f}", f"{cost:.3f} ({verdict(met=met)})"])
    show(f"a town with {CARS} cars, {TICKS} ticks a turn, {TURNS} turns", ["", "ticks/s", "server's ms of CPU a tick"], rows)
    figures: dict[str, object] = {
        "cars": CARS, "ticks": TICKS, "alone": [sample._asdict() for sample in alone],
        "watched": [sample._asdict() for sample in watched],
        "ticks_per_s_ratio": rate, "cpu_ratio": cost, "answers_to_the_page": answers, "loss_most": LOSS_MOST,
    }  # fmt: skip
    save("view_live", figures)
    return met
