"""The link between a main server and its nodes: one lockstep tick without any work in it.

Main sends 4 KB to 1, 2, 4 and 8 node processes, each answers with an image of 180x120 (86,400 bytes), and main has all of them
in hand: through shared memory, and over the wire. Then the same with images of 1440x960 (5.5 MB).
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.tools import save, show, verdict
from samepath.cluster.link import Keys, LinkError, MainLink, NodeLink, Received, hold_memory, make_keys
from samepath.core.clock import SYSTEM_CLOCK

NODES = (1, 2, 4, 8)
STATE = bytes(range(256)) * 16
IMAGE_BYTES = {"180x120": 180 * 120 * 4, "1440x960": 1440 * 960 * 4}
TICKS = {"180x120": 400, "1440x960": 30}
ROUNDS = 5
AIM_MS = 2.0


def main() -> bool:
    """Measure; return whether eight nodes are served in time."""
    hold_memory()
    rows, figures = [], []
    for image in IMAGE_BYTES:
        for count in NODES:
            found = {way: _ticks_ms(count, image, shared_memory=way == "shared memory") for way in ("shared memory", "wire")}
            figures += [{"image": image, "nodes": count, "way": way} | times for way, times in found.items()]
            cells = [f"{times[name]:.2f}" for times in found.values() for name in ("best_ms", "median_ms", "p99_ms")]
            rows.append([image, str(count), *cells])
    columns = ["image", "nodes", *(f"{way} {name}" for way in ("shared", "wire") for name in ("best", "median", "99 %"))]
    show("one lockstep tick over the link, ms", columns, rows)
    eight = next(
        figure
        for figure in figures
        if figure["nodes"] == 8 and figure["way"] == "shared memory" and figure["image"] == "180x120"
    )
    met = float(str(eight["best_ms"])) < AIM_MS
    print(f"8 nodes, 180x120, shared memory: {eight['best_ms']:.2f} ms a tick, aim {AIM_MS:g}: {verdict(met=met)}")
    save("link", {"ticks": figures, "aim_ms": AIM_MS, "state_bytes": len(STATE), "image_bytes": IMAGE_BYTES})
    return met


def _ticks_ms(count: int, image: str, *, shared_memory: bool) -> dict[str, float]:
    """The mean of the best round; the median and the slowest hundredth of all ticks."""
    with _cluster(count, IMAGE_BYTES[image], shared_memory=shared_memory) as (link, peers):
        messages = dict.fromkeys(peers, b"tick")
        tick = partial(_tick, link, messages, IMAGE_BYTES[image])
        for _ in range(20):
            tick()
        rounds = [[tick() for _ in range(TICKS[image])] for _ in range(ROUNDS)]
        if any(link.is_local(peer) != shared_memory for peer in peers):
            raise RuntimeError("the images took another way than the one to be measured")
    every = sorted(took_s for times in rounds for took_s in times)
    best = min(statistics.fmean(times) for times in rounds)
    return {"best_ms": best * 1e3, "median_ms": statistics.median(every) * 1e3, "p99_ms": every[len(every) * 99 // 100] * 1e3}


def _tick(link: MainLink, messages: dict[bytes, bytes], image_bytes: int) -> float:
    start_s = SYSTEM_CLOCK.monotonic_s()
    if link.broadcast(messages, STATE):
        raise RuntimeError("a node was not reached")
    missing = len(messages)
    while missing:
        for event in link.poll(60.0):
            if isinstance(event, Received) and len(event.bulk[0]) == image_bytes:
                missing -= 1
    return SYSTEM_CLOCK.monotonic_s() - start_s


@contextmanager
def _cluster(count: int, image_bytes: int, *, shared_memory: bool) -> Iterator[tuple[MainLink, list[bytes]]]:
    keys, node_keys = make_keys(), make_keys()
    link = MainLink("127.0.0.1", 0, keys, lambda key: key == node_keys.public, shared_memory=shared_memory)
    environment = os.environ | {"LINK_PUBLIC": node_keys.public, "LINK_SECRET": node_keys.secret, "LINK_MAIN": keys.public}
    command = [sys.executable, "-m", "bench.link", link.endpoint, str(image_bytes)]
    nodes = [subprocess.Popen(command, env=environment) for _ in range(count)]
    try:
        peers: list[bytes] = []
        while len(peers) < count:
            peers += [event.peer for event in link.poll(60.0) if isinstance(event, Received)]
        yield link, peers
    finally:
        link.close()
        for node in nodes:
            node.wait(20)


def _node(endpoint: str, image_bytes: int) -> None:
    """A node that has its image ready."""
    link = NodeLink(endpoint, Keys(os.environ["LINK_PUBLIC"], os.environ["LINK_SECRET"]), os.environ["LINK_MAIN"])
    image = os.urandom(image_bytes)
    link.send(b"here")
    try:
        while True:
            for event in link.poll(None):
                if isinstance(event, Received) and event.bulk[0] == STATE:
                    link.send(b"drawn", (image,))
    except LinkError:
        link.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _node(sys.argv[1], int(sys.argv[2]))
    else:
        sys.exit(0 if main() else 1)
