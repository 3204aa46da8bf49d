"""Is it worth while to send a node only what its sensors can see? Measured with 300 actors in ``town``.

A node is sent two things a tick: the state for its clients (CARLA's snapshot has every actor, so a node with a client needs it
whole) and the view that its sensors are drawn from. Only the view could be cut. What that would save is the bytes of the actors
that no camera of the node sees, and the time to read them; what it would cost is to find out, for every node, who is seen, and
to write a view for each node where now one is written for all. Beside it: the same bytes compressed, for all alike.

State and view are those of a real episode: 250 vehicles under way and 50 walkers.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from bench.tools import best_s, save, show
from samepath.cluster.identity import tick_digest, understood_digest
from samepath.cluster.link.compression import LZ4, ZSTANDARD, packed
from samepath.core.states import Pose
from samepath.core.streams import stream
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.maps import load_map
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.maps import MapLibrary
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, RenderResult, SceneView
from tests.support.serving import LIMITS, Box, call, described

ACTORS = 300
NODES = 8
CAMERAS = 5  # of each node
# What a camera of 90 degrees can see at most: ahead, up to here, and whoever stands so close that a shadow may fall into view.
REACH_M = 150.0
CLOSE_M = 20.0


class Watching(LocalRenderer):
    """Keeps the last view, as a node is sent it."""

    wants_every_tick = True
    view: SceneView | None = None

    def render(self, view: SceneView, requests: Sequence[RenderRequest], *, timed: bool = False) -> Sequence[RenderResult]:
        """Nothing is due here."""
        self.view = view
        return ()


def scene() -> tuple[bytes, SceneView]:
    """The state for clients and the view of a tick of a busy town."""
    box, renderer = Box(), Watching()
    context = EpisodeContext(
        MapLibrary({}, lambda _: None, LIMITS), box, Path("never-made"), 2001, LIMITS, lambda _: None, renderer=renderer
    )
    found = Episode(context, "town")
    found.settings = found.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
    chance = stream(7, "bench interest")
    places = load_map("town").spawn_points
    actors: list[int] = []
    while len(actors) < ACTORS:
        x, y, z, yaw = places[int(chance.integers(len(places)))]
        kind = "walker.pedestrian.0001" if len(actors) % 6 == 0 else "vehicle.tesla.model3"
        along, aside = float(chance.normal(0.0, 15.0)), float(chance.normal(0.0, 1.0))
        ahead, left = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        where = [[x + along * ahead - aside * left, y + along * left + aside * ahead, z + 0.3], [0.0, yaw, 0.0]]
        with suppress(CallError):  # somebody stands there already
            actors.append(call(found, "spawn_actor", described(kind), where).id)
    for number in range(20):
        for actor in actors if number == 0 else ():
            with suppress(CallError):  # walkers
                call(found, "apply_control_to_vehicle", actor, [0.7, 0.0, 0.0, False, False, False, 0])
        call(found, "tick_cue")
    if renderer.view is None:
        raise RuntimeError("no view was made")
    return box.of(WORLD_STREAM)[-1], renderer.view


def seen_by(view: SceneView, cameras: list[Pose]) -> list[int]:
    """The rows of actors that at least one of these cameras may see; generous, as a wrong guess would be a wrong picture."""
    rows = []
    for row, look in enumerate(view.looks):
        for camera in cameras:
            dx, dy = look.pose.x_m - camera.x_m, look.pose.y_m - camera.y_m
            far = math.hypot(dx, dy)
            bearing = math.degrees(math.atan2(dy, dx)) - camera.yaw_deg
            if far < CLOSE_M or (far < REACH_M and abs((bearing + 180.0) % 360.0 - 180.0) < 60.0):
                rows.append(row)
                break
    return rows


def cut(view: SceneView, rows: list[int]) -> SceneView:
    """The view of these actors alone."""
    ids = {view.looks[row].id for row in rows}
    past = None if view.past is None else tuple(entry for entry in view.past if entry[0] in ids)
    return SceneView(
        view.episode, view.frame, view.tick, tuple(view.looks[row] for row in rows),
        tuple(view.velocities[row] for row in rows), view.weather, past=past,
    )  # fmt: skip


def main() -> bool:
    """Measure; return whether the bytes of a whole view came back as they were."""
    state, view = scene()
    data = view.pack()
    cars = [look.pose for look in view.looks if look.type.startswith("vehicle")]
    shares = [cars[node * CAMERAS : (node + 1) * CAMERAS] for node in range(NODES)]
    rows = [seen_by(view, cameras) for cameras in shares]
    parts = [cut(view, seen).pack() for seen in rows]
    us = {
        "write the view once": 1e6 * best_s(view.pack),
        "digest of state and view": 1e6 * best_s(partial(tick_digest, state, data)),
        "a node reads it, writes it again, digest": 1e6 * best_s(lambda: understood_digest(state, SceneView.unpack(data))),
        "find who is seen, all nodes (Python)": 1e6 * best_s(lambda: [seen_by(view, cameras) for cameras in shares], 20),
        "write a view for each node": 1e6 * best_s(lambda: [cut(view, seen).pack() for seen in rows], 20),
        "a node reads its part, writes it again, digest": 1e6
        * best_s(lambda: understood_digest(state, SceneView.unpack(parts[0]))),
        "lz4 of state and view, once for all": 1e6 * best_s(partial(packed, state + data, LZ4)),
        "zstd 1 of state and view, once for all": 1e6 * best_s(partial(packed, state + data, ZSTANDARD)),
    }
    whole = len(state) + len(data)
    sizes = {
        "state for clients": len(state),
        "view": len(data),
        "view of what a node's cameras see, mean": sum(map(len, parts)) / NODES,
        "actors in it, mean": sum(map(len, rows)) / NODES,
        "state and view, lz4": len(packed(state + data, LZ4).data),
        "state and view, zstd 1": len(packed(state + data, ZSTANDARD).data),
    }
    show(f"{ACTORS} actors, {NODES} nodes with {CAMERAS} cameras each", ["bytes a tick for a node", ""], [
        [name, f"{size:,.0f}"] for name, size in sizes.items()
    ])  # fmt: skip
    show("time a tick", ["what", "us"], [[name, f"{took_us:.0f}"] for name, took_us in us.items()])
    saved = len(data) - sizes["view of what a node's cameras see, mean"]
    print(f"cut to what is seen, a node is sent {100 * saved / whole:.0f} % less")
    save("interest", {"actors": ACTORS, "nodes": NODES, "cameras": CAMERAS, "bytes": sizes, "us": us})
    return SceneView.unpack(data).pack() == data
