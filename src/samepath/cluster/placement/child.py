"""The process of one rendering node, as a placement starts it: ``python -m samepath.cluster.placement.child PARENT``.

Its settings, keys included, come as one line on its standard input. It ends with its parent, whatever ends that.
"""

import signal
import sys
from collections.abc import Callable
from typing import Final, NoReturn

from samepath.cluster.placement.records import REFUSED, NodeKeys, NodeSpec, decode_start_line
from samepath.core.errors import InputError, SamepathError
from samepath.core.network import PortTakenError
from samepath.core.processes import die_with, die_with_parent

_LONGEST_LINE: Final = 1 << 16


def _log(line: str) -> None:
    print(line, flush=True)


def become_node(spec: NodeSpec, keys: NodeKeys) -> int:
    """Be a rendering node until its end; return the exit code."""
    from samepath.cluster.node import NodeSettings, run_node

    settings = NodeSettings(
        name=spec.name,
        ordinal=spec.ordinal,
        main_endpoint=spec.main_endpoint,
        main_public=keys.main_public,
        public=keys.public,
        secret=keys.secret,
        host=spec.host,
        port=spec.port,
        threads=spec.threads,
        handicap=spec.handicap,
        shared_memory=spec.shared_memory,
        compress=spec.compress,
        renderer=spec.renderer,
        cores=spec.cores,
        waits_for_port=not spec.port_is_fixed,
    )
    try:
        return run_node(settings, _log)
    except PortTakenError as error:
        taken = f"port {spec.port} or {spec.port + 1} of {spec.host} is taken by another program"
        raise InputError(f"{taken}: choose another --node-port") from error


def main(become: Callable[[NodeSpec, NodeKeys], int] = become_node) -> NoReturn:
    """Run under the parent whose number is on the command line."""
    die_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main server's to handle
    try:
        spec, keys, watched = decode_start_line(sys.stdin.buffer.readline(_LONGEST_LINE))
        if watched is not None:
            die_with(watched)
        sys.exit(become(spec, keys))
    except SamepathError as error:
        _log(str(error))
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
