"""A running world in the viewer: what ``samepath view HOST:PORT`` and ``samepath serve --view`` show."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import typer

from samepath.core.errors import SamepathError
from samepath.core.processes import die_with, shutdown_signals

if TYPE_CHECKING:
    from samepath.instrument.viewer.scene import Ground
    from samepath.instrument.viewer.server import ViewServer, ViewSource
    from samepath.sessions.observer import SeenActor


class LiveView:
    """Watches a server and serves the page of what it sees, on loopback; it only ever listens."""

    def __init__(self, host: str, port: int) -> None:
        from samepath.sessions.observer import WorldObserver

        self._observer: WorldObserver = WorldObserver(host, port)
        self._lock = threading.Lock()
        self._map: tuple[int, str, Ground | None] | None = None

    def serve(self, port: int = 0) -> "ViewServer":
        """Return a server of the page, not started."""
        from samepath.instrument.viewer.server import ViewServer

        return ViewServer(self._source(), port)

    def close(self) -> None:
        """Watch no more."""
        self._observer.close()

    def _source(self) -> "ViewSource":
        from samepath.instrument.viewer.packing import ground_block
        from samepath.instrument.viewer.server import ViewSource

        def ground(number: int) -> bytes:
            found = self._ground()[1]
            if number or found is None:
                raise KeyError(number)
            return ground_block(found)

        return ViewSource(self._page, _no_cell, ground, self._state)

    def _page(self) -> str:
        from samepath import __version__
        from samepath.instrument.viewer.packing import IndexRow, index_of
        from samepath.instrument.viewer.page import served_page

        name, ground = self._ground()
        row = IndexRow(name, 1, 1, None, 0.0, None if ground is None else 0)
        return served_page({**index_of(f"samepath serve: {name}", __version__, [row], [name]), "live": True})

    def _ground(self) -> "tuple[str, Ground | None]":
        """The map, read once for an episode; one that we cannot read is a plain sheet."""
        from samepath.engines.samepath.looking import surfaces_of_text
        from samepath.instrument.viewer.scene import Ground, Surface

        with self._lock:
            world = self._observer.world()
            episode = -1 if world is None else world.episode
            if self._map is None or self._map[0] != episode:
                name = self._observer.map_name()
                try:
                    found = surfaces_of_text(self._observer.map_text(), name)
                    ground = Ground(name, tuple(Surface(one.label, one.vertices, one.triangles) for one in found))
                except SamepathError:
                    ground = None
                self._map = (episode, name, ground)
            return self._map[1], self._map[2]

    def _state(self) -> bytes:
        name, _ = self._ground()
        with self._lock:
            world = self._observer.world()
        empty: dict[str, Any] = {"episode": -1, "frame": -1, "time_s": 0.0, "ticks_per_s": 0.0, "actors": [], "left_out": 0}
        told = {"map": name, "address": self._observer.address, **empty}
        if world is not None:
            told |= {
                "episode": world.episode, "frame": world.frame, "time_s": world.time_s, "ticks_per_s": world.ticks_per_s,
                "left_out": world.left_out,
                "actors": [
                    {"id": one.actor.id, "type": one.actor.type, "shape": _shape(one.actor), "x": one.x_m, "y": one.y_m,
                     "z": one.z_m, "yaw": one.yaw_deg, "speed": one.speed_mps}
                    for one in world.poses
                ],
            }  # fmt: skip
        return json.dumps(told, allow_nan=False).encode()


def _no_cell(number: int) -> bytes:
    raise KeyError(number)


def _shape(actor: "SeenActor") -> dict[str, Any]:
    """By its type; where the server tells a size, with that."""
    from dataclasses import asdict

    from samepath.instrument.viewer.scene import shape_of

    shape = asdict(shape_of(actor.type))
    if min(actor.length_m, actor.width_m, actor.height_m) > 0.01:
        shape |= {"length_m": actor.length_m, "width_m": actor.width_m, "height_m": actor.height_m}
        shape["below_m"] = actor.height_m / 2 if shape["kind"] == "walker" else 0.0
    return shape


def start_beside(host: str, port: int, page_port: int) -> "subprocess.Popen[bytes]":
    """Start the view of a server in a process of its own, which ends with this one: drawing must not take time from ticks."""
    command = [sys.executable, "-m", "samepath.cli.live_view", host, str(port), str(page_port), str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - our own command


def _beside(arguments: list[str]) -> None:
    host, port, page_port, parent = arguments[0], *map(int, arguments[1:4])
    die_with(parent)
    with contextlib.suppress(OSError):
        os.nice(5)  # whoever is watched comes first
    try:
        live = LiveView(host, port)
        server = live.serve(page_port)
    except SamepathError as error:
        sys.stderr.write(f"samepath: --view: {error}\n")
        return
    server.start()
    with shutdown_signals() as end:
        sys.stderr.write(f"view: {server.url}\n")
        server.wait(end)


def watch(address: str, port: int, *, show: bool) -> None:
    """Show a running server until the user ends it."""
    from samepath.sessions.observer import address_of

    live = LiveView(*address_of(address))
    server = live.serve(port)
    server.start()
    try:
        with shutdown_signals() as end:
            typer.echo(server.url)
            typer.echo(f"watching {address}, on this machine alone, until Ctrl-C", err=True)
            if show:
                import webbrowser

                webbrowser.open(server.url)
            server.wait(end)
    finally:
        server.stop()
        live.close()


if __name__ == "__main__":
    _beside(sys.argv[1:])
