"""``samepath cluster start``: a main server and its rendering nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from samepath.cli.cluster.words import logger
from samepath.cli.serve import (
    DATA_FOLDER,
    MAP_MIB,
    MAP_SECONDS,
    Alias,
    Data,
    Debug,
    Host,
    Map,
    MapMemory,
    MapSeconds,
    read_aliases,
)
from samepath.core.network import is_loopback

if TYPE_CHECKING:
    from samepath.cluster.running import ClusterPlan


Nodes = Annotated[
    int | None,
    typer.Option("--nodes", min=0, max=1024, help="How many nodes; 0: none, start them by hand. [default: one per core]"),
]
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
Threads = Annotated[int, typer.Option("--threads", min=1, max=256, help="Threads that each node draws with.")]
Policy = Annotated[
    Literal["measured", "round-robin"],
    typer.Option("--balance", help="How sensors are shared out: by measured cost, or in turn."),
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
RUN = Path("cluster-run")


def start(
    nodes: Nodes = None,
    placement: PlacementOption = "ray",
    ray: Ray = None,
    host: Host = "127.0.0.1",
    port: Port = 2000,
    map_name: Map = "t-junction",
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
    map_seconds: MapSeconds = MAP_SECONDS,
    map_mib: MapMemory = MAP_MIB,
) -> None:
    """Serve one world whose sensors are drawn by many nodes; clients connect to any. Ctrl-C ends it, a second one at once."""
    from samepath.cluster.running import ClusterPlan, cores
    from samepath.cluster.settings import MainSettings
    from samepath.simulator.server.limits import Limits
    from samepath.simulator.server.server import ServerSettings

    server = ServerSettings(
        host=host,
        port=port,
        map_name=map_name,
        aliases=read_aliases(alias or []),
        data_folder=data,
        limits=Limits(map_s=map_seconds, map_bytes=map_mib << 20),
        draw_debug=draw_debug,
    )
    main = MainSettings(
        server=server,
        link_host=link_host,
        link_port=link_port,
        shared_memory=shared_memory,
        policy=balance,
        run_folder=run,
        page_host=page_host,
        page_port=page_port,
    )
    plan = ClusterPlan(
        main=main,
        nodes=cores() if nodes is None else nodes,
        placement=placement,
        ray=ray,
        node_host=node_host,
        node_port=node_port,
        threads=threads,
        keys=keys,
    )
    begin(plan if journal is None else plan.keeping(journal))


def begin(plan: "ClusterPlan") -> None:
    """Run a cluster, with its log on stderr."""
    from samepath.cluster.running import run_cluster

    log = logger("samepath cluster")
    for line in warnings(plan):
        log(line)
    run_cluster(plan, log)


def warnings(plan: "ClusterPlan") -> list[str]:
    """Say what others can reach, and what they can do there."""
    clients = "anybody who reaches it can drive this world; there is no password, so keep it behind a firewall"
    open_to = {
        "--host": (plan.main.server.host, clients),
        "--node-host": (plan.node_host, clients),
        "--page-host": (plan.main.page_host, "anybody who reaches it sees this world and how the cluster stands"),
    }
    return [f"{option} {host} is not loopback: {what}" for option, (host, what) in open_to.items() if not is_loopback(host)]
