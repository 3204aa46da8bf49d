"""``samepath proxy``: between any CARLA client and any CARLA server, recording what passes."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samepath.core.errors import printable
from samepath.core.log_lines import LineLimiter
from samepath.core.network import is_loopback
from samepath.core.processes import ShutdownSignals, shutdown_signals

if TYPE_CHECKING:
    from samepath.sessions.proxy import ProxySettings

Server = Annotated[str, typer.Option("--server", metavar="HOST:PORT", help="The CARLA server, or samepath serve, behind it.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; anything but loopback lets others in.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65534, help="Port for clients; streams use the next one. 0: any two.")]
Out = Annotated[Path, typer.Option("--out", help="The recording to write; a file that is there is never overwritten.")]
OUT_FILE = Path("session.samepath")


def proxy(server: Server, host: Host = "127.0.0.1", port: Port = 2000, out: Out = OUT_FILE) -> None:
    """Pass everything on between CARLA clients and a server, and record every call and every state. Ctrl-C ends it.

    Compare two recordings with: samepath twice --recorded ONE --recorded OTHER
    """
    from samepath.sessions.proxy import ProxySettings, read_address

    server_host, server_port = read_address(server)
    settings = ProxySettings(server_host, server_port, host, port)
    with shutdown_signals() as end:
        asyncio.run(_pass_on(settings, out, end))


async def _pass_on(settings: "ProxySettings", out: Path, end: ShutdownSignals) -> None:
    from samepath.sessions.proxy import SessionProxy

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    end.call_on_first(lambda: loop.call_soon_threadsafe(over.set))
    passing = SessionProxy(settings, out, _log)
    await passing.start()
    _log(
        f"clients connect to {settings.host}:{passing.port} (streams {passing.stream_port}) and reach "
        f"{settings.server_host}:{settings.server_port}; recording to {out}"
    )
    if not is_loopback(settings.host):
        _log(f"{settings.host} is not loopback: anybody who reaches it reaches that server; keep it behind a firewall")
    await over.wait()
    await passing.stop("the proxy was stopped")
    _log(
        f"{passing.calls} calls and {passing.states} states of {passing.connections} connections in {out} "
        f"({passing.writer.size_bytes / (1 << 20):.1f} MiB); bytes changed in tokens: {passing.rewritten_bytes}"
    )


def _write(line: str) -> None:
    plain = printable(line)
    print(f"samepath proxy: {plain}", file=sys.stderr, flush=True)


_log = LineLimiter(_write)
