"""``samepath cluster``: one world, many rendering nodes. The verbs in the order of work, then how a status is shown."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from samepath.cli.common import Json, stdout_console
from samepath.cli.live_view import ViewToken, start_beside
from samepath.cli.serve import (
    DATA_FOLDER,
    MAP_MIB,
    MAP_SECONDS,
    Alias,
    Data,
    Debug,
    Host,
    JournalDurable,
    Map,
    MapMemory,
    Maps,
    MapSeconds,
    Protocol,
    Restart,
    TimeScale,
    TrafficOption,
    View,
    ViewPort,
    WeatherFelt,
    journal_config,
    read_aliases,
    read_maps,
    run_supervised,
)
from samepath.cli.serve import Port as ServePort
from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, printable
from samepath.core.network import is_loopback
from samepath.core.service import LineLimiter
from samepath.core.units import format_duration

if TYPE_CHECKING:
    from samepath.cluster.monitor.client import MonitorAddress
    from samepath.cluster.monitor.status import ClusterStatus, NodeStatus
    from samepath.cluster.running import ClusterPlan

RUN = Path("cluster-run")
STYLES = {"working": "green", "joining": "blue", "draining": "yellow", "fenced": "bold red", "gone": "dim"}
_EVERY_S = 1.0
_PROBLEMS = 5
_WIDE_COLUMNS = 110

Nodes = Annotated[
    int | None,
    typer.Option("--nodes", min=0, max=1024, help="How many nodes; 0: none, start them by hand. [default: one per core]"),
]
Scale = Annotated[
    str | None,
    typer.Option(
        "--scale", metavar="LEAST..MOST", help="Add nodes when steps take longer than --target-step-ms, let them go when not."
    ),
]
TargetStep = Annotated[float, typer.Option("--target-step-ms", help="How long a step may take, for --scale.")]
PlacementOption = Annotated[
    Literal["ray", "processes"],
    typer.Option("--placement", help="Who starts nodes and keeps them going: Ray, or plain processes of this one."),
]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Place nodes on an existing Ray cluster: auto or HOST:PORT of its head."),
]
Port = Annotated[
    int,
    typer.Option(
        "--port", min=0, max=63400, help="RPC port; streams use the next one, node k those 2 k above. 0: any for everyone."
    ),
]
LinkHost = Annotated[
    str, typer.Option("--link-host", help="Address at which nodes find the main server; others than loopback need this.")
]
LinkPort = Annotated[int, typer.Option("--link-port", min=0, max=65535, help="Its port. 0: any.")]
NodeHost = Annotated[str, typer.Option("--node-host", help="Address on which nodes listen for clients.")]
NodePort = Annotated[
    int | None,
    typer.Option(
        "--node-port", min=0, max=65534, help="RPC port of every node, where hosts have one each. [default: 2 k above --port]"
    ),
]
Threads = Annotated[
    int, typer.Option("--threads", min=0, max=256, help="Threads that each node draws with. 0: one for each core it may use.")
]
Compress = Annotated[
    Literal["auto", "on", "off"],
    typer.Option("--compress", help="Frames to and from other hosts without loss made smaller: where it saves time, or not."),
]
RendererOption = Annotated[
    str,
    typer.Option("--renderer", help="Who draws: software, cuda (an NVIDIA card, the same bytes), or auto (cuda where it can)."),
]
Cores = Annotated[str, typer.Option("--cores", help="Cores that the node may use: 0,2-3. [default: all]", show_default=False)]
CoreSets = Annotated[
    str,
    typer.Option("--cores", help="Cores of one node after the other, in turn: '0;1;2-3'. [default: all]", show_default=False),
]
Policy = Annotated[
    Literal["measured", "round-robin"],
    typer.Option("--balance", help="How sensors are shared out: by measured cost, or in turn."),
]
NodeTimeout = Annotated[
    float,
    typer.Option(
        "--node-timeout", metavar="SECONDS", help="How long a node that owes a frame may be silent before it is taken out."
    ),
]
SharedMemory = Annotated[
    bool, typer.Option("--shared-memory/--no-shared-memory", help="Pass pictures through memory between processes of one host.")
]
KeysOption = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        help="Folder of keys, for nodes started by hand; what is missing is made. Without it keys are new for each run.",
    ),
]
Run = Annotated[Path, typer.Option("--run", help="Folder in which the cluster can be found while it runs.")]
PageHost = Annotated[str, typer.Option("--page-host", help="Address of the live page.")]
PagePort = Annotated[int, typer.Option("--page-port", min=0, max=65535, help="Port of the live page. 0: any.")]
Journal = Annotated[
    Path | None, typer.Option("--journal", help="Keep a journal here, to go on with samepath cluster resume after a crash.")
]
JournalFolder = Annotated[
    Path, typer.Argument(metavar="JOURNAL", help="The folder that was given as --journal.", show_default=False)
]
ResumedNodes = Annotated[
    int | None, typer.Option("--nodes", min=0, max=1024, help="How many nodes now. [default: as before]", show_default=False)
]
ResumedPlacement = Annotated[
    Literal["ray", "processes"] | None,
    typer.Option("--placement", help="Who starts nodes now. [default: as before]", show_default=False),
]
RunFolder = Annotated[
    Path | None, typer.Option("--run", help="The run folder of the cluster. [default: cluster-run]", show_default=False)
]
Url = Annotated[
    str | None, typer.Option("--url", help="Where its live page is, instead of its run folder: http://127.0.0.1:8200.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Ask again every second until Ctrl-C.")]
Count = Annotated[int, typer.Argument(metavar="NODES", min=1, max=1024, help="How many there are to be.", show_default=False)]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node's name, such as node-2.", show_default=False)]
MainOption = Annotated[
    str, typer.Option("--main", metavar="HOST:PORT", help="Where the main server's link listens.", show_default=False)
]
NodeKeysOption = Annotated[
    Path,
    typer.Option("--keys", help="Folder with main.public, node.public and node.secret, as the main server's --keys has them."),
]
Name = Annotated[str, typer.Option("--name", help="Its name, other than any node's that is there, such as node-7.")]
Handicap = Annotated[float, typer.Option("--handicap", min=1.0, help="Draw slower by this factor, for experiments.")]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _cluster() -> None:
    """Spread the sensors of one world over rendering nodes."""


@app.command("start")
def start(
    nodes: Nodes = None,
    placement: PlacementOption = "ray",
    ray: Ray = None,
    host: Host = "127.0.0.1",
    port: Port = 2000,
    map_name: Map = "t-junction",
    maps: Maps = None,
    alias: Alias = None,
    data: Data = DATA_FOLDER,
    draw_debug: Debug = False,
    link_host: LinkHost = "127.0.0.1",
    link_port: LinkPort = 2900,
    node_host: NodeHost = "127.0.0.1",
    node_port: NodePort = None,
    threads: Threads = 1,
    balance: Policy = "measured",
    shared_memory: SharedMemory = True,
    keys: KeysOption = None,
    run: Run = RUN,
    page_host: PageHost = "127.0.0.1",
    page_port: PagePort = 8200,
    journal: Journal = None,
    journal_durable: JournalDurable = False,
    map_seconds: MapSeconds = MAP_SECONDS,
    map_mib: MapMemory = MAP_MIB,
    restart: Restart = False,
    scale: Scale = None,
    target_step_ms: TargetStep = 20.0,
    compress: Compress = "auto",
    node_timeout: NodeTimeout = 2.0,
    cores_of_nodes: CoreSets = "",
    renderer: RendererOption = "software",
    traffic: TrafficOption = None,
    protocol: Protocol = "0.9.16",
    weather_felt: WeatherFelt = False,
    time_scale: TimeScale = 1.0,
    view: View = False,
    view_port: ViewPort = 0,
    view_token: ViewToken = None,
) -> None:
    """Serve one world whose sensors are drawn by many nodes; clients connect to any. Ctrl-C ends it, a second one at once."""
    if view_token is not None and not view:
        raise InputError("--view-token: a page to be steered from was wanted, but none is served: give --view")
    from samepath.cluster.autoscale import read_scale
    from samepath.cluster.placement.records import read_core_sets
    from samepath.cluster.running import STALL_S, ClusterPlan, cores
    from samepath.cluster.settings import MainSettings, Timeouts
    from samepath.simulator.carla.limits import ServerLimits
    from samepath.simulator.server.server import ServerSettings
    from samepath.simulator.traffic.traffic import TrafficSettings

    if restart:
        if journal is None or not port:
            what = "a journal to go on from (--journal FOLDER)" if journal is None else "a port that stays the same (--port)"
            raise InputError(f"--restart: {what} was wanted, but none came")
        given = [argument for argument in sys.argv[1:] if argument != "--restart"]
        again = ["cluster", "resume", str(journal), "--run", str(run)]
        raise typer.Exit(run_supervised(given, again, journal, STALL_S, logger("samepath cluster")))
    map_name, map_files = read_maps(map_name, maps or [])
    wanted = None if traffic is None else TrafficSettings.read(traffic)
    server = ServerSettings(
        host=host,
        port=port,
        map_name=map_name,
        aliases=read_aliases(alias or []),
        map_files=map_files,
        data_folder=data,
        limits=ServerLimits(map_s=map_seconds, map_bytes=map_mib << 20),
        draw_debug=draw_debug,
        traffic=wanted,
        protocol=protocol,
        weather_felt=weather_felt,
        time_scale=time_scale,
    )
    main = MainSettings(
        server=server,
        link_host=link_host,
        link_port=link_port,
        shared_memory=shared_memory,
        compress=compress,
        policy=balance,
        timeouts=Timeouts.with_patience(node_timeout),
        run_folder=run,
        page_host=page_host,
        page_port=page_port,
    )
    rule = None if scale is None else read_scale(scale, target_step_ms)
    plan = ClusterPlan(
        main=main,
        nodes=nodes if nodes is not None else cores() if rule is None else rule.nodes_least,
        placement=placement,
        ray=ray,
        node_host=node_host,
        node_port=node_port,
        threads=threads,
        keys=keys,
        scale=rule,
        core_sets=read_core_sets(cores_of_nodes),
        renderer=renderer,
    )
    kept = journal_config(journal, durable=journal_durable)
    begin(plan if kept is None else plan.keeping(kept), view_port if view else None, view_token)


@app.command("status")
def status(run: RunFolder = None, url: Url = None, as_json: Json = False, watch: Watch = False) -> None:
    """Say how a running cluster stands: nodes, load, frames a second, lateness, desynchronisation."""
    from samepath.cluster.monitor.client import read_status

    address = _address(run, url)
    # Before anything is shown or watched: where nobody answers at all, that is an error and not a wait.
    found = read_status(address)
    console = stdout_console()
    if not watch:
        if as_json:
            typer.echo(_json(found))
        else:
            console.print(view(found, address.url, wide=console.width >= _WIDE_COLUMNS))
        return
    try:
        if as_json:
            _repeat(address, found, lambda found: typer.echo(_json(found)), lambda words: typer.echo(words, err=True))
        elif console.is_terminal:
            _watch_live(console, address, found)
        else:
            _repeat(address, found, lambda found: typer.echo(line(found)), typer.echo)
    except KeyboardInterrupt:
        pass


@app.command("scale")
def scale(nodes: Count, run: RunFolder = None) -> None:
    """Have so many nodes: new ones are started, the last ones drained. No frame is lost."""
    from samepath.cluster.monitor.client import scale as ask

    typer.echo(ask(running(run), nodes))


@app.command("drain")
def drain(node: NodeName, run: RunFolder = None) -> None:
    """Give a node nothing more; it goes when it owes no frame and its clients have left."""
    from samepath.cluster.monitor.client import drain as ask

    typer.echo(ask(running(run), node))


@app.command("stop")
def stop(run: RunFolder = None) -> None:
    """End a cluster: its nodes, what placed them, and the main server."""
    from samepath.cluster.monitor.client import stop as ask

    typer.echo(ask(running(run)))


@app.command("node")
def node(
    main: MainOption,
    keys: NodeKeysOption,
    name: Name,
    host: Host = "127.0.0.1",
    port: ServePort = 0,
    threads: Threads = 1,
    handicap: Handicap = 1.0,
    shared_memory: SharedMemory = True,
    compress: Compress = "auto",
    cores: Cores = "",
    renderer: RendererOption = "software",
) -> None:
    """Draw for a main server until it says that it is over. Exit 0: told to go; 1: main server lost; 2: refused."""
    from samepath.cluster.link.keys import read_keys, read_public
    from samepath.cluster.node import NodeSettings, run_node
    from samepath.cluster.placement.records import read_cores
    from samepath.cluster.running import MAIN_KEYS, NODE_KEYS
    from samepath.simulator.sensors.renderer import check_same_bytes

    ordinal = re.search(r"[0-9]{1,6}$", name)
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise InputError(f"--name: 1 to 64 letters, digits, dots, - and _ were wanted, but {name!r} came")
    own = read_keys(keys, NODE_KEYS)
    settings = NodeSettings(
        name=name,
        ordinal=int(ordinal[0]) if ordinal else 0,
        main_endpoint=_endpoint(main),
        main_public=read_public(keys, MAIN_KEYS),
        public=own.public,
        secret=own.secret,
        host=host,
        port=port,
        threads=threads,
        handicap=handicap,
        shared_memory=shared_memory,
        compress=compress,
        cores=read_cores(cores) if cores else (),
        renderer=check_same_bytes(renderer),
    )
    raise typer.Exit(run_node(settings, logger(f"samepath cluster node {name}")))


@app.command("resume")
def resume(journal: JournalFolder, nodes: ResumedNodes = None, placement: ResumedPlacement = None, run: Run = RUN) -> None:
    """Go on from the last snapshot and what the journal has since, with nodes, ports and settings as before."""
    from samepath.cluster.running import resumed_plan

    plan = resumed_plan(journal, run)
    if nodes is not None:
        plan = replace(plan, nodes=nodes)
    if placement is not None:
        plan = replace(plan, placement=placement, ray=plan.ray if placement == "ray" else None)
    begin(plan)


def begin(plan: "ClusterPlan", view_port: int | None = None, view_token: Path | None = None) -> None:
    """Run a cluster, with its log on stderr, and beside it a view of its world if there is to be one."""
    from samepath.cluster.running import run_cluster

    log = logger("samepath cluster")
    for line in warnings(plan):
        log(line)
    run_cluster(plan, log, None if view_port is None else lambda host, port: start_beside(host, port, view_port, view_token))


def warnings(plan: "ClusterPlan") -> list[str]:
    """Say what others can reach, and what they can do there."""
    clients = "anybody who reaches it can drive this world; there is no password, so keep it behind a firewall"
    open_to = {
        "--host": (plan.main.server.host, clients),
        "--node-host": (plan.node_host, clients),
        "--page-host": (plan.main.page_host, "anybody who reaches it sees this world and how the cluster stands"),
    }
    return [f"{option} {host} is not loopback: {what}" for option, (host, what) in open_to.items() if not is_loopback(host)]


def _endpoint(main: str) -> str:
    host, _, port = main.removeprefix("tcp://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"--main: HOST:PORT was wanted, as the main server printed it, but {main!r} came")
    return f"tcp://{host}:{port}"


def logger(name: str) -> Callable[[str], None]:
    """Return a log that writes on stderr; names in its lines may come from clients, so nothing moves a terminal's cursor."""

    def log(line: str) -> None:
        plain = printable(line)
        sys.stderr.write(f"{name}: {plain}\n")
        sys.stderr.flush()

    return LineLimiter(log)


def running(folder: Path | None) -> "MonitorAddress":
    """Find the cluster that runs in a folder."""
    from samepath.cluster.monitor.client import RUN_FOLDER, find_cluster

    return find_cluster(folder or RUN_FOLDER)


def _address(run: Path | None, url: str | None) -> "MonitorAddress":
    from samepath.cluster.monitor.client import MonitorAddress

    if run is not None and url is not None:
        raise InputError(f"--run or --url was wanted, but both came: {run} and {url}")
    return running(run) if url is None else MonitorAddress(url)


def _repeat(
    address: "MonitorAddress",
    first: "ClusterStatus",
    show: Callable[["ClusterStatus"], None],
    complain: Callable[[str], None],
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Show the first status and then, every second, the next one, or for how long nobody has answered."""
    from samepath.cluster.monitor.client import SilentError, read_status

    show(first)
    answered_s = clock.monotonic_s()
    while True:
        clock.sleep_s(_EVERY_S)
        try:
            found = read_status(address)
        except SilentError:
            complain(f"no answer from {address.url} for {format_duration(clock.monotonic_s() - answered_s)}")
            continue
        answered_s = clock.monotonic_s()
        show(found)


def _watch_live(console: Console, address: "MonitorAddress", first: "ClusterStatus") -> None:
    last: RenderableType = ""
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(found: "ClusterStatus") -> None:
            nonlocal last
            last = view(found, address.url, wide=console.width >= _WIDE_COLUMNS)
            live.update(last, refresh=True)

        def complain(words: str) -> None:
            live.update(Group(Text(f"{words}; below is how it stood then", style="bold yellow"), last), refresh=True)

        _repeat(address, first, show, complain)


def _json(found: "ClusterStatus") -> str:
    from samepath.cluster.monitor.status import to_json

    return to_json(found).decode()


def line(found: "ClusterStatus") -> str:
    """The status as one line."""
    from samepath.cluster.monitor.status import plain

    working = sum(node.state == "working" for node in found.nodes)
    return plain(
        f"tick {found.frame}: {working} of {len(found.nodes)} nodes working, tick time {seconds(found.tick_s)}, "
        f"{rate(found.frames_per_s)} frames/s, late {found.late_frames}, dropped {found.dropped_frames}, "
        f"desynchronised {found.desynchronised} of {found.compared}"
    )


def view(found: "ClusterStatus", url: str, *, wide: bool = True) -> RenderableType:
    """The status as a few lines and a table of nodes; with fewer columns where a terminal is narrow."""
    from samepath.cluster.monitor.status import plain

    commands = found.commands
    parts: list[RenderableType] = [
        Text(
            plain(f"{found.name}: {found.mode}, map {found.map_name}, episode {found.episode}, tick {found.frame}"),
            style="bold",
        ),
        _verdict(found),
        Text(
            f"tick time {seconds(found.tick_s)}, mean {seconds(found.tick_s_mean)}; {rate(found.ticks_per_s)} ticks/s, "
            f"{rate(found.frames_per_s)} frames/s"
        ),
        Text(
            f"frames {found.frames}, late {found.late_frames}"
            + (f" (at worst {seconds(found.worst_lateness_s)})" if found.late_frames else "")
            + f", dropped {found.dropped_frames}, ordered again {found.reissued}; "
            f"sensors {len(found.sensors)}, moved {found.moved}"
        ),
    ]
    if commands.count:
        parts.append(
            Text(
                f"commands {commands.count}, overruled {commands.overruled}; latency {seconds(commands.latency_s_median)} "
                f"(median), {seconds(commands.latency_s_p99)} (99 %), {seconds(commands.latency_s_max)} (longest)"
            )
        )
    if found.waiting_for:
        parts.append(Text(plain(f"this tick waits for {', '.join(found.waiting_for)}"), style="yellow"))
    least = next((node for node in found.nodes if found.connect[:1] == (node.address,)), None)
    if least is not None:
        parts.append(Text(plain(f"new clients: {least.address} ({least.name}, the least loaded)")))
    parts += ["", node_table(found.nodes, wide=wide)]
    if found.problems:
        parts += ["", *(Text(plain(words)) for words in found.problems[-_PROBLEMS:])]
    return Group(*parts, Text(f"\nlive page: {plain(url)}", style="dim"))


def _verdict(found: "ClusterStatus") -> Text:
    if not found.compared:
        return Text("nothing compared yet: no node has sent a digest of its state")
    words = f"desynchronised {found.desynchronised} of {found.compared} state digests"
    return Text(words, style="bold red" if found.desynchronised else "green")


def node_table(nodes: tuple["NodeStatus", ...], *, wide: bool) -> Table:
    """One row per node."""
    from samepath.cluster.monitor.status import plain

    table = Table(box=None, pad_edge=False, header_style="bold")
    names = ["node", "state", "busy", "frames/s", "step", "late", "dropped", "desync."]
    for name in names + ["sensors", "clients", "speed", "address"] * wide:
        table.add_column(name, justify="left" if name in ("node", "state", "address") else "right", no_wrap=True)
    for node in nodes:
        silent = f", silent {format_duration(node.silent_s)}" if node.silent_s >= 1 and node.state != "gone" else ""
        cells: list[RenderableType] = [
            Text(plain(node.name)),
            Text(node.state + silent, style=STYLES[node.state]),
            f"{node.busy:.0%}",
            rate(node.frames_per_s),
            seconds(node.step_s),
            str(node.late_frames),
            Text(str(node.dropped_frames), style="red" if node.dropped_frames else ""),
            Text(str(node.desynchronised), style="bold red" if node.desynchronised else ""),
        ]
        if wide:
            speed = "-" if node.speed is None else f"{node.speed:.2f}"
            cells += [str(node.sensors), str(node.clients), speed, Text(plain(node.address))]
        table.add_row(*cells)
    return table


def seconds(value_s: float | None) -> str:
    """Write a short time for people: 850 µs, 21.6 ms, 1.25 s."""
    if value_s is None:
        return "-"
    for unit, factor in (("µs", 1e-6), ("ms", 1e-3)):
        if float(f"{value_s / factor:.3g}") < 1000:
            return f"{value_s / factor:.3g} {unit}" if value_s else "0"
    return f"{value_s:.3g} s" if value_s < 90 else format_duration(value_s)


def rate(per_s: float) -> str:
    """Write a rate for people: 39.8, 416."""
    return f"{per_s:.1f}" if per_s < 99.95 else f"{per_s:.0f}"
