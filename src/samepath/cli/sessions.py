"""CARLA scripts, unchanged: ``samepath twice`` runs one n times and says why it parts; ``samepath proxy`` only records."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samepath.cli.common import Json
from samepath.core.errors import InputError, printable
from samepath.core.network import is_loopback
from samepath.core.processes import ShutdownSignals, shutdown_signals
from samepath.core.service import LineLimiter

if TYPE_CHECKING:
    from samepath.sessions.proxy import ProxySettings

Command = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND", help="The script as you run it: python my_script.py ARGS.")
]
Runs = Annotated[int, typer.Option("-n", "--runs", min=2, max=1000, help="How often to run it.")]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="HOST:PORT", help="A CARLA server that runs already; its map is loaded anew before each run."
    ),
]
Map = Annotated[str, typer.Option("--map", metavar="NAME|FILE", help="The map that the fresh servers begin with.")]
Maps = Annotated[
    list[Path] | None,
    typer.Option("--maps", metavar="FOLDER", help="OpenDRIVE files that the fresh servers offer, each as NAME and NAME_Opt."),
]
Protocol = Annotated[
    str | None,
    typer.Option("--protocol", metavar="VERSION", help="The version of CARLA's client that they serve. Default: 0.9.16."),
]
Port = Annotated[int | None, typer.Option("--port", min=0, max=65534, help="Where the script finds the server. 0: any port.")]
Timeout = Annotated[float, typer.Option("--timeout", min=1.0, max=604800.0, help="Seconds after which a script is stopped.")]
Keep = Annotated[Path | None, typer.Option("--keep", help="An empty folder for recordings and what the script printed.")]
CpuLoad = Annotated[float, typer.Option("--cpu-load", min=0.0, max=1.0, help="Hold the machine at this share of its CPU time.")]
MemoryLoad = Annotated[float, typer.Option("--memory-load", min=0.0, max=1.0, help="The same for its memory bandwidth.")]
GpuLoad = Annotated[float, typer.Option("--gpu-load", min=0.0, max=1.0, help="The same for its GPU.")]
FromSource = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME",
        help="Make the fresh servers non-deterministic on purpose, such as unseeded-random; for trying out.",
    ),
]
Cause = Annotated[
    bool, typer.Option("--cause/--no-cause", help="Run the script some 20 times more to find out why it diverges.")
]
Tries = Annotated[
    int, typer.Option("--tries", min=1, max=1000, help="Other values of each input to try; a rare cause needs more.")
]
Recorded = Annotated[
    list[Path] | None, typer.Option("--recorded", metavar="FILE", help="Compare recordings instead of running; give it twice.")
]


def twice(
    command: Command = None,
    runs: Runs = 2,
    server: Server = None,
    map_name: Map = "t-junction",
    maps: Maps = None,
    protocol: Protocol = None,
    port: Port = None,
    timeout: Timeout = 600.0,
    keep: Keep = None,
    cpu_load: CpuLoad = 0.0,
    memory_load: MemoryLoad = 0.0,
    gpu_load: GpuLoad = 0.0,
    source: FromSource = None,
    cause: Cause = True,
    tries: Tries = 3,
    recorded: Recorded = None,
    json: Json = False,
) -> None:
    """Run a CARLA script several times, unchanged, each time against a fresh server. Exit 0: the same, 1: not, 2: bad input."""
    from samepath.sessions import twice as sessions

    if recorded:
        if command:
            raise InputError("twice: either recordings to compare or a script to run was wanted, but both came")
        report = sessions.compare_recorded(*recorded)
    else:
        loads = {"cpu_load": cpu_load, "memory_load": memory_load, "gpu_load": gpu_load}
        report = sessions.twice(
            command or [],
            runs,
            server=server,
            map_name=map_name,
            port=port,
            timeout_s=timeout,
            keep=keep,
            loads={name: level for name, level in loads.items() if level > 0} or None,
            sources=source or (),
            maps=maps or (),
            protocol=protocol,
            investigate=cause,
            tries=tries,
            log=_log,
        )
    typer.echo(report.to_json() if json else report.words())
    raise typer.Exit(0 if report.same else 1)


def _log(line: str) -> None:
    plain = printable(line)
    print(f"samepath twice: {plain}", file=sys.stderr, flush=True)


ServerBehind = Annotated[
    str, typer.Option("--server", metavar="HOST:PORT", help="The CARLA server, or samepath serve, behind it.")
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; anything but loopback lets others in.")]
ProxyPort = Annotated[
    int, typer.Option("--port", min=0, max=65534, help="Port for clients; streams use the next one. 0: any two.")
]
Out = Annotated[Path, typer.Option("--out", help="The recording to write; a file that is there is never overwritten.")]
OUT_FILE = Path("session.samepath")


def proxy(server: ServerBehind, host: Host = "127.0.0.1", port: ProxyPort = 2000, out: Out = OUT_FILE) -> None:
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
    passing = SessionProxy(settings, out, _log_proxy)
    await passing.start()
    _log_proxy(
        f"clients connect to {settings.host}:{passing.port} (streams {passing.stream_port}) and reach "
        f"{settings.server_host}:{settings.server_port}; recording to {out}"
    )
    if not is_loopback(settings.host):
        _log_proxy(f"{settings.host} is not loopback: anybody who reaches it reaches that server; keep it behind a firewall")
    await over.wait()
    await passing.stop("the proxy was stopped")
    _log_proxy(
        f"{passing.calls} calls and {passing.states} states of {passing.connections} connections in {out} "
        f"({passing.writer.size_bytes / (1 << 20):.1f} MiB); bytes changed in tokens: {passing.rewritten_bytes}"
    )


def _write(line: str) -> None:
    plain = printable(line)
    print(f"samepath proxy: {plain}", file=sys.stderr, flush=True)


_log_proxy = LineLimiter(_write)
