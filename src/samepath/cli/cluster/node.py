"""``samepath cluster node``: a rendering node started by hand, on this machine or another."""

import re
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli.cluster.start import SharedMemory, Threads
from samepath.cli.cluster.words import logger
from samepath.cli.serve import Host, Port
from samepath.core.errors import InputError

MainOption = Annotated[
    str, typer.Option("--main", metavar="HOST:PORT", help="Where the main server's link listens.", show_default=False)
]
KeysOption = Annotated[
    Path,
    typer.Option("--keys", help="Folder with main.public, node.public and node.secret, as the main server's --keys has them."),
]
Name = Annotated[str, typer.Option("--name", help="Its name, other than any node's that is there, such as node-7.")]
Handicap = Annotated[float, typer.Option("--handicap", min=1.0, help="Draw slower by this factor, for experiments.")]


def node(
    main: MainOption,
    keys: KeysOption,
    name: Name,
    host: Host = "127.0.0.1",
    port: Port = 0,
    threads: Threads = 1,
    handicap: Handicap = 1.0,
    shared_memory: SharedMemory = True,
) -> None:
    """Draw for a main server until it says that it is over. Exit 0: told to go; 1: main server lost; 2: refused."""
    from samepath.cluster.link.keys import read_keys, read_public
    from samepath.cluster.node import NodeSettings, run_node
    from samepath.cluster.running import MAIN_KEYS, NODE_KEYS

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
    )
    raise typer.Exit(run_node(settings, logger(f"samepath cluster node {name}")))


def _endpoint(main: str) -> str:
    host, _, port = main.removeprefix("tcp://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"--main: HOST:PORT was wanted, as the main server printed it, but {main!r} came")
    return f"tcp://{host}:{port}"
