"""Several hosts: how long a step takes against delay and bandwidth of the links, with frames compressed and not.

Hosts are network namespaces on this machine (``tests/support/namespaces.py``; needs root). A main server, three nodes with a
host each, six cameras of 720 x 480 in lockstep. The client is on the first node's host and listens there: what the others draw
goes over their links to the main server, and over the first node's to the client. The bytes on the links are the kernel's own
counts; the bytes of all frames are compared by digest over all rows: links change time, nothing else.

All hosts share the cores of this machine, and where the kernel has no ``netem`` the relay takes a part of one. So the first
row, links as fast as the machine, is what everything else is to be held against.
"""

import hashlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.tools import save, show
from samepath.core.clock import SYSTEM_CLOCK
from tests.support import namespaces
from tests.support.hosted import HostedCluster
from tests.support.namespaces import CELL_5G, LAN, WIFI, WIRE, Hosts, LinkProfile
from tests.support.scenes import listen, spawn, spawn_cars, stream_of, synchronous, transform
from tests.support.serving import RawClient

DELAYS_MS = (0.0, 0.5, 2.0, 10.0, 30.0)
RATES_MBIT = (1000.0, 200.0, 50.0)
NODES = 3
CARS = 6
SIZE = {"image_size_x": "720", "image_size_y": "480"}
WARM_TICKS = 12
TICKS = 30


def profiles() -> list[LinkProfile]:
    """All kinds of links that are measured."""
    by_delay = [LinkProfile(f"{delay:g} ms", delay_ms=delay) for delay in DELAYS_MS[1:]]
    by_rate = [LinkProfile(f"{rate:g} Mbit/s", rate, rate, 0.1) for rate in RATES_MBIT[1:]]
    named = [replace(CELL_5G, name="5G-like"), replace(WIFI, name="WiFi-like")]
    return [WIRE, *by_delay, replace(LAN, name="1000 Mbit/s"), *by_rate, *named]


def measure(cluster: HostedCluster, profile: LinkProfile) -> dict[str, Any]:
    """A fresh world over links of this kind."""
    hosts = cluster.hosts
    first = cluster.doors(hosts.nodes[0])

    def play() -> dict[str, Any]:
        with RawClient(first, timeout_s=300.0) as client:
            client.ask("load_new_episode", "town", True, 0xFFFF)
            synchronous(client)
            cars = spawn_cars(client, CARS)
            listeners = []
            for car in cars:
                record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **SIZE)
                listeners.append(listen(first, stream_of(record)))
            for listener in listeners:
                listener.socket.settimeout(300.0)
            digest, ticks_s, frames_s, before, frame_bytes = hashlib.blake2b(digest_size=16), [], [], None, 0
            for tick in range(WARM_TICKS + TICKS):
                if tick == WARM_TICKS:
                    before = [host.traffic_bytes() for host in hosts.nodes]
                start_s = SYSTEM_CLOCK.monotonic_s()
                client.value("tick_cue")
                ticked_s = SYSTEM_CLOCK.monotonic_s()
                messages = [listener.message() for listener in listeners]
                came_s = SYSTEM_CLOCK.monotonic_s()
                for message in messages:
                    digest.update(message[48:])
                if tick >= WARM_TICKS:
                    ticks_s.append(ticked_s - start_s)
                    frames_s.append(came_s - start_s)
                    frame_bytes += sum(map(len, messages))
            after = [host.traffic_bytes() for host in hosts.nodes]
            for listener in listeners:
                listener.socket.close()
        sent, got = (sum(end[k] - begin[k] for begin, end in zip(before or [], after, strict=True)) for k in (0, 1))
        return {
            "step_ms_median": 1e3 * median(ticks_s),
            "frames_ms_median": 1e3 * median(frames_s),
            "step_ms": [1e3 * tick_s for tick_s in ticks_s],
            "frames_ms": [1e3 * frame_s for frame_s in frames_s],
            "node_sent_bytes_per_tick": sent / TICKS,
            "node_received_bytes_per_tick": got / TICKS,
            "frame_bytes_per_tick": frame_bytes / TICKS,
            "digest": digest.hexdigest(),
        }

    hosts.shape(profile)
    return dict(hosts.nodes[0].call(play))


def main() -> bool:
    """Measure all kinds of links; return whether the bytes were the same over all of them."""
    reason = namespaces.reason_not_to()
    if reason:
        sys.stderr.write(f"hosts cannot be measured here: {reason}\n")
        return False
    raw: list[dict[str, Any]] = []
    rows: list[list[str]] = []
    switch = ""
    for mode in ("off", "auto"):
        with (
            Hosts(NODES, WIRE, relay=None if namespaces.has_netem() else True) as hosts,
            tempfile.TemporaryDirectory() as folder,
            HostedCluster(
                hosts, Path(folder), map_name="town", start=["--compress", mode], each=[["--compress", mode]] * NODES
            ) as cluster,
        ):
            switch = hosts.switch
            for profile in profiles():
                found = measure(cluster, profile)
                raw.append({"link": profile.name, "compress": mode, **found})
                rows.append(
                    [
                        profile.name, mode, f"{found['step_ms_median']:.1f}", f"{found['frames_ms_median']:.1f}",
                        f"{found['node_sent_bytes_per_tick'] / 1e6:.2f}", f"{found['node_received_bytes_per_tick'] / 1e6:.2f}",
                        f"{found['frame_bytes_per_tick'] / 1e6:.2f}",
                    ]
                )  # fmt: skip
                sys.stderr.write(f"{profile.name}, {mode}: {found['step_ms_median']:.1f} ms\n")
            status = cluster.status()
            raw[-1]["reissued"], raw[-1]["desynchronised"] = status["reissued"], status["desynchronised"]
    order = {profile.name: number for number, profile in enumerate(profiles())}
    rows.sort(key=lambda row: (order[row[0]], row[1]))
    title = f"{NODES} nodes on hosts of their own, {CARS} cameras of 720 x 480, client at the first; switch: {switch}"
    columns = ["links of nodes", "compress", "step, ms", "to the last frame", "MB sent", "MB received", "MB of frames, a tick"]
    show(title, columns, rows)
    digests = {found["digest"] for found in raw}
    print(f"the same bytes over all links, compressed and not: {'yes' if len(digests) == 1 else 'NO'}")
    save("hosts", {"switch": switch, "nodes": NODES, "cars": CARS, "size": "720x480", "ticks": TICKS, "rows": raw})
    return len(digests) == 1
