"""What ``samepath proxy`` costs a tick: CARLA's own client on one server, now directly, now through the proxy, in turns.

Each measurement is a client process of its own; the two ways alternate, so that what else the machine does falls on both. The
ratio is what holds; the times are of this machine. Recording a session takes disk, too: bytes per tick are told.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.server import _fill, _synchronous, serving
from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK

VEHICLES = (0, 10, 100)
TICKS = 300
ROUNDS = 5
# A tick of a real simulator with a few vehicles takes 10 ms and more: this is what the proxy may add to it.
ADDED_MS_AIM = 2.0


def main() -> bool:
    """Measure; return whether the aim was met."""
    os.environ.setdefault("CARLA_CACHE_DIR", tempfile.mkdtemp())
    try:
        import carla
    except ImportError:
        print("proxy: CARLA's client is not installed; nothing was measured")
        return True
    figures: dict[str, Any] = {}
    rows = []
    with serving(apart=False) as port, tempfile.TemporaryDirectory() as folder:
        client = carla.Client("127.0.0.1", port)
        client.set_timeout(60.0)
        _synchronous(client.get_world())
        for count in VEHICLES:
            _fill(carla, client, count, driving=True)
            found = _measured(port, Path(folder) / f"{count}.samepath")
            figures[str(count)] = found
            ways = [f"{found[way]:.3f}" for way in ("direct_ms", "proxied_ms", "added_ms")]
            met = verdict(met=found["added_ms"] <= ADDED_MS_AIM)
            rows.append([f"{count} vehicles", *ways, f"{found['ratio']:.2f}", f"{found['bytes_per_tick']:,.0f}", met])
    columns = ["a tick of 0.05 s", "direct, ms", "through the proxy, ms", "added, ms", "ratio", "bytes recorded", ""]
    show(f"samepath proxy, best of {ROUNDS} rounds of {TICKS} ticks in turns; aim: at most {ADDED_MS_AIM:g} ms", columns, rows)
    save("proxy", figures)
    return all(found["added_ms"] <= ADDED_MS_AIM for found in figures.values())


def _measured(server_port: int, recording: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "samepath", "proxy", "--server", f"127.0.0.1:{server_port}", "--port", "0"]
    proxy = subprocess.Popen([*command, "--out", str(recording)], stderr=subprocess.PIPE, text=True)
    try:
        line = proxy.stderr.readline() if proxy.stderr else ""
        port = int(line.split("127.0.0.1:")[1].split()[0])
        times: dict[int, list[float]] = {server_port: [], port: []}
        for _ in range(ROUNDS):
            for way, found in times.items():
                found.append(_client(way))
    finally:
        proxy.terminate()
        proxy.wait(20)
        if proxy.stderr:
            proxy.stderr.close()
    direct_ms, proxied_ms = (1000 * min(found) / TICKS for found in times.values())
    return {
        "direct_ms": direct_ms,
        "proxied_ms": proxied_ms,
        "added_ms": proxied_ms - direct_ms,
        "ratio": proxied_ms / direct_ms,
        "bytes_per_tick": recording.stat().st_size / (ROUNDS * TICKS),
    }


def _client(port: int) -> float:
    """Seconds that the ticks took a client of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.proxy", str(port)], capture_output=True, text=True, check=True, timeout=600
    )
    return float(done.stdout.split()[-1])


def _tick(port: int) -> None:
    import carla

    client = carla.Client("127.0.0.1", port)
    client.set_timeout(60.0)
    world = client.get_world()
    for _ in range(20):
        world.tick()
    start_s = SYSTEM_CLOCK.monotonic_s()
    for _ in range(TICKS):
        world.tick()
    print(SYSTEM_CLOCK.monotonic_s() - start_s)


if __name__ == "__main__":
    _tick(int(sys.argv[1]))
