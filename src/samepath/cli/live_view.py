"""A running world in the viewer: what ``samepath view HOST:PORT``, ``serve --view`` and ``cluster start --view`` show.

The view is one more client of the server, in a process of its own and with lower priority. It looks, and nothing else, unless
it was given a token: then whoever knows that may pause, step and slow down a world that ticks by itself.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SamepathError, SimulatorError, printable
from samepath.core.processes import die_with, shutdown_signals
from samepath.core.web import token_in

if TYPE_CHECKING:
    from samepath.engines.samepath.looking import MapPictures, PosedActor
    from samepath.instrument.viewer.page import ViewServer, ViewSource
    from samepath.instrument.viewer.scene import Ground
    from samepath.sessions.observer import SeenActor, SeenClients, SeenWorld

ViewToken = Annotated[
    Path | None,
    typer.Option(
        "--view-token",
        metavar="FILE",
        help="Let the page pause, step and slow down the world. FILE holds the token for it, and is made if not there.",
    ),
]
# How old what the page gets may be: clients come and go slowly, and a sensor's picture takes the server's time.
_CLIENTS_S: Final = 1.0
_SENSOR_S: Final = 0.5
# Of so many sensors pictures are kept.
_SENSORS_MOST: Final = 64
_STEPS_MOST: Final = 1000


class LiveView:
    """Watches a server and serves the page of what it sees, on loopback. ``token``: what to know to steer; none: nobody can."""

    def __init__(self, host: str, port: int, token: str = "") -> None:
        from samepath.sessions.observer import WorldObserver

        self._observer: WorldObserver = WorldObserver(host, port)
        self._token = token
        self._lock = threading.Lock()
        self._map: tuple[int, str, str, Ground | None] | None = None
        self._clients: tuple[float, SeenClients | None] = (-1.0, None)
        self._seen: dict[int, tuple[float, bytes]] = {}
        self._pictures: tuple[int, MapPictures] | None = None
        self._shapes: dict[int, dict[str, Any]] = {}

    def serve(self, port: int = 0) -> "ViewServer":
        """Return a server of the page, not started."""
        from samepath.instrument.viewer.page import ViewServer

        return ViewServer(self._source(), port, lambda words: print(f"samepath view: {printable(words)}", file=sys.stderr))

    def url(self, server: "ViewServer") -> str:
        """Where the page is, for who may steer: the token is behind the #, which browsers do not send anywhere."""
        return f"{server.url}#token={self._token}" if self._token else server.url

    def close(self) -> None:
        """Watch no more."""
        self._observer.close()

    def _source(self) -> "ViewSource":
        from samepath.instrument.viewer.page import ViewSource, ground_block

        def ground(number: int) -> bytes:
            found = self._ground()[1]
            if number or found is None:
                raise KeyError(number)
            return ground_block(found)

        return ViewSource(
            self._page,
            _no_cell,
            ground,
            picture=self._picture,
            live=self._state,
            sensor=self._sensor,
            steer=self._steer if self._token else None,
            token=self._token,
        )

    def _page(self) -> str:
        from samepath import __version__
        from samepath.engines.samepath.looking import MOUNTS
        from samepath.instrument.viewer.page import IndexRow, index_of, served_page

        name, ground = self._ground()
        row = IndexRow(name, 1, 1, None, 0.0, None if ground is None else 0)
        index = index_of(f"samepath serve: {name}", __version__, [row], [name], () if ground is None else MOUNTS)
        return served_page({**index, "live": True, "steer": bool(self._token)})

    def _ground(self) -> "tuple[str, Ground | None]":
        """The map, read once for an episode; one that we cannot read is a plain sheet."""
        from samepath.engines.samepath.looking import surfaces_of_text
        from samepath.instrument.viewer.scene import Ground, Surface

        with self._lock:
            world = self._observer.world()
            episode = -1 if world is None else world.episode
            if self._map is None or self._map[0] != episode:
                name, text = self._observer.map_name(), self._observer.map_text()
                try:
                    found = surfaces_of_text(text, name)
                    ground = Ground(
                        name, tuple(Surface(surface.label, surface.vertices, surface.triangles) for surface in found)
                    )
                except SamepathError:
                    ground = None
                self._map = (episode, name, text, ground)
            return self._map[1], self._map[3]

    def _who(self) -> "SeenClients | None":
        with self._lock:
            now_s = SYSTEM_CLOCK.monotonic_s()
            if now_s - self._clients[0] > _CLIENTS_S:
                self._clients = (now_s, self._observer.clients())
            return self._clients[1]

    def _state(self) -> bytes:
        name, _ = self._ground()
        who = self._who()
        with self._lock:
            world = self._observer.world()
        told: dict[str, Any] = {
            "map": name, "address": self._observer.address, "episode": -1, "frame": -1, "time_s": 0.0, "ticks_per_s": 0.0,
            "actors": [], "left_out": 0, "lights": [], "sensors": [], "clients": None if who is None else list(who.names),
            "synchronous": None if who is None else who.synchronous, "pace": None if who is None else who.pace,
        }  # fmt: skip
        if world is not None:
            told |= {
                "episode": world.episode, "frame": world.frame, "time_s": world.time_s, "ticks_per_s": world.ticks_per_s,
                "left_out": world.left_out,
                "actors": [
                    {"id": pose.actor.id, "type": pose.actor.type, "role": pose.actor.role, "shape": self._shape(pose.actor),
                     "x": pose.x_m, "y": pose.y_m, "z": pose.z_m, "yaw": pose.yaw_deg, "speed": pose.speed_mps}
                    for pose in world.poses
                ],
                "lights": [[light.id, light.x_m, light.y_m, light.z_m, light.shows] for light in world.lights],
                "sensors": [
                    {"id": sensor.id, "type": sensor.type, "parent": sensor.parent,
                     "seen": _is_seen(sensor.type, sensor.stream, who)}
                    for sensor in world.sensors
                ],
            }  # fmt: skip
        return json.dumps(told, allow_nan=False).encode()

    def _shape(self, actor: "SeenActor") -> dict[str, Any]:
        found = self._shapes.get(actor.id)
        if found is None:
            if len(self._shapes) > _SENSORS_MOST * 64:
                self._shapes.clear()
            found = self._shapes[actor.id] = _shape(actor)
        return found

    def _sensor(self, number: int) -> bytes:
        """What a client's camera sees, small; asked again at once, the same once more."""
        from samepath.cluster.monitor.thumbnails import thumbnail_png

        now_s = SYSTEM_CLOCK.monotonic_s()
        kept = self._seen.get(number)
        if kept is not None and now_s - kept[0] < _SENSOR_S:
            return kept[1]
        with self._lock:
            world = self._observer.world()
        sensor = next((sensor for sensor in (() if world is None else world.sensors) if sensor.id == number), None)
        if sensor is None:
            raise KeyError(number)
        if not _is_seen(sensor.type, sensor.stream, self._who()):
            raise InputError(f"{sensor.type} {number}: a camera that a client listens to was wanted")
        png = thumbnail_png(sensor.type, self._observer.measurement(sensor))
        if png is None:
            raise SimulatorError(f"{sensor.type} {number} sent something that is no picture")
        if len(self._seen) >= _SENSORS_MOST:
            self._seen.clear()
        self._seen[number] = (now_s, png)
        return png

    def _picture(self, fields: Mapping[str, str]) -> bytes:
        """What a camera of the page's own sees: drawn here, of the state that is known, and never by the server."""
        from samepath.engines.samepath.looking import MapPictures, mounted
        from samepath.instrument.viewer.page import number_in
        from samepath.instrument.viewing import free_camera

        self._ground()
        with self._lock:
            world = self._observer.world()
            if world is None or self._map is None or self._map[3] is None:
                raise InputError("a map that samepath can read was wanted to draw a picture on")
            if self._pictures is None or self._pictures[0] != self._map[0]:
                self._pictures = (self._map[0], MapPictures.of_text(self._map[2], self._map[1]))
            pictures = self._pictures[1]
        there = _posed(world)
        without: tuple[int, ...] = ()
        if "from" in fields:
            actor = int(number_in(fields, "actor", 0, 2**32))
            pose = next((posed.pose for posed in there if posed.id == actor), None)
            if pose is None:
                raise InputError(f"actor {actor} is not there any more")
            camera = mounted(pose, fields["from"])
            without = (actor,) if fields["from"] == "ahead" else ()
        else:
            camera = free_camera(fields)
        # Lights are the map's, in its order, which is that of their numbers.
        lights = [light.shows if 0 <= light.shows <= 4 else 4 for light in sorted(world.lights, key=lambda light: light.id)]
        return pictures.jpeg(there, camera, lights, without)

    def _steer(self, fields: Mapping[str, str]) -> str:
        from samepath.instrument.viewer.page import number_in

        pace = number_in(fields, "pace", 0.0, 1.0)
        steps = int(number_in(fields, "steps", 0, _STEPS_MOST, 0.0))
        self._observer.set_pace(pace, steps)
        with self._lock:
            self._clients = (-1.0, None)  # it has changed
        return "it stands" if not pace else f"it goes on at {pace:g} of its pace"


def _no_cell(number: int) -> bytes:
    raise KeyError(number)


def _is_seen(kind: str, stream: int, who: "SeenClients | None") -> bool:
    """Is there a picture to show? Of a camera that nobody listens to the server draws none, and it is not made to."""
    return kind.startswith("sensor.camera.") and not kind.endswith(".dvs") and (who is None or stream in who.heard)


def _posed(world: "SeenWorld") -> "list[PosedActor]":
    from samepath.core.states import Pose
    from samepath.engines.samepath.looking import PosedActor

    return [
        PosedActor(
            pose.actor.id, pose.actor.type, Pose(pose.x_m, pose.y_m, pose.z_m, pose.roll_deg, pose.pitch_deg, pose.yaw_deg)
        )
        for pose in world.poses
    ]


def _shape(actor: "SeenActor") -> dict[str, Any]:
    """By its type; where the server tells a size, with that."""
    from dataclasses import asdict

    from samepath.instrument.viewer.scene import shape_of

    shape = asdict(shape_of(actor.type))
    if min(actor.length_m, actor.width_m, actor.height_m) > 0.01:
        shape |= {"length_m": actor.length_m, "width_m": actor.width_m, "height_m": actor.height_m}
        shape["below_m"] = actor.height_m / 2 if shape["kind"] == "walker" else 0.0
    return shape


def start_beside(host: str, port: int, page_port: int, token: Path | None = None) -> "subprocess.Popen[bytes]":
    """Start the view of a server in a process of its own, which ends with this one: drawing must not take time from ticks."""
    command = [sys.executable, "-m", "samepath.cli.live_view", host, str(port), str(page_port), str(os.getpid())]
    if token is not None:
        token_in(token)  # what is wrong with it is said now, and by this process
        command.append(str(token))
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - our own command


def _beside(arguments: list[str]) -> None:
    host, port, page_port, parent = arguments[0], *map(int, arguments[1:4])
    die_with(parent)
    _give_way()
    try:
        live = LiveView(host, port, token_in(Path(arguments[4])) if len(arguments) > 4 else "")
        server = live.serve(page_port)
    except SamepathError as error:
        sys.stderr.write(f"samepath: --view: {error}\n")
        return
    server.start()
    with shutdown_signals() as end:
        sys.stderr.write(f"view: {live.url(server)}\n")
        server.wait(end)


def _give_way() -> None:
    """Whoever is watched comes first, if it is on this machine."""
    with contextlib.suppress(OSError):
        os.nice(10)


def watch(address: str, port: int, token: Path | None, *, show: bool) -> None:
    """Show a running server until the user ends it."""
    from samepath.sessions.observer import address_of

    _give_way()
    live = LiveView(*address_of(address), "" if token is None else token_in(token))
    server = live.serve(port)
    server.start()
    url = live.url(server)
    try:
        with shutdown_signals() as end:
            typer.echo(url)
            typer.echo(f"watching {address}, on this machine alone, until Ctrl-C", err=True)
            if show:
                import webbrowser

                webbrowser.open(url)
            server.wait(end)
    finally:
        server.stop()
        live.close()


if __name__ == "__main__":
    _beside(sys.argv[1:])
