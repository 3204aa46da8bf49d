"""``samepath serve``: CARLA's own client connects to our world."""

import asyncio
import ipaddress
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samepath.base.errors import InputError

if TYPE_CHECKING:
    from samepath.sim.server.server import ServerSettings


Host = Annotated[str, typer.Option("--host", help="Address to listen on; anything but loopback lets others in.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65534, help="RPC port; streams use the next one. 0: any two.")]
Map = Annotated[str, typer.Option("--map", help="The map to begin with.")]
Alias = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME=MAP", help="Serve a map of ours under another name, such as Town03=town."),
]
Data = Annotated[Path, typer.Option("--data", help="The only folder clients can write recordings to and read them from.")]
Debug = Annotated[bool, typer.Option("--draw-debug", help="Draw clients' debug shapes into the pictures of colour cameras.")]
DATA_FOLDER = Path("serve-data")


def serve(
    host: Host = "127.0.0.1",
    port: Port = 2000,
    map_name: Map = "t-junction",
    alias: Alias = None,
    data: Data = DATA_FOLDER,
    draw_debug: Debug = False,
) -> None:
    """Serve a world that repeats itself to CARLA 0.9.16's Python client. Ctrl-C ends it."""
    from samepath.sim.server.server import ServerSettings

    aliases = _aliases(alias or [])
    settings = ServerSettings(host=host, port=port, map_name=map_name, aliases=aliases, data_folder=data, draw_debug=draw_debug)
    asyncio.run(_serve(settings))


def _aliases(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, target = one.partition("=")
        if not (name and equals and target):
            raise InputError(f"--alias: NAME=MAP was wanted, such as Town03=town, but {one!r} came")
        if name in found:
            raise InputError(f"--alias: {name} was given twice")
        found[name] = target
    return found


async def _serve(settings: "ServerSettings") -> None:
    from samepath.sim.server.server import Server

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, over.set)
    server = Server(settings, _log)
    await server.start()
    _log(f"serving map {settings.map_name} on {settings.host}:{server.port}, streams on {server.stream_port}")
    if not _is_loopback(settings.host):
        _log(
            f"{settings.host} is not loopback: anybody who reaches it can drive this world, fill its data folder "
            "and use its processor; there is no password, so keep it behind a firewall"
        )
    server.compile_early()
    await over.wait()
    _log("stopping")
    await server.stop()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _log(line: str) -> None:
    # Names in it may come from clients: nothing that moves a terminal's cursor.
    plain = "".join(letter if letter.isprintable() else "?" for letter in line)
    print(f"samepath serve: {plain}", file=sys.stderr, flush=True)
