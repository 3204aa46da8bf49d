"""The process of one rendering node, as a placement starts it: ``python -m samepath.cluster.placement.child PARENT``.

What it is to do, keys included, comes as one line on its standard input. It ends with its parent, whatever ends that.
"""

import signal
import sys
from collections.abc import Callable
from typing import Final, NoReturn

from samepath.cluster.placement.records import REFUSED, NodeKeys, NodeOrder, unpacked
from samepath.core.errors import SamepathError
from samepath.core.processes import die_with, die_with_parent

_LONGEST_LINE: Final = 1 << 16


def _log(line: str) -> None:
    print(line, flush=True)


def become_node(order: NodeOrder, keys: NodeKeys) -> int:
    """Be a rendering node until its end; return the exit code."""
    from samepath.cluster.node import NodeSettings, run_node

    settings = NodeSettings(
        name=order.name,
        ordinal=order.ordinal,
        main_endpoint=order.main_endpoint,
        main_public=keys.main_public,
        public=keys.public,
        secret=keys.secret,
        host=order.host,
        port=order.port,
        threads=order.threads,
        handicap=order.handicap,
        shared_memory=order.shared_memory,
    )
    return run_node(settings, _log)


def main(become: Callable[[NodeOrder, NodeKeys], int] = become_node) -> NoReturn:
    """Run under the parent whose number is on the command line."""
    die_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main server's to handle
    try:
        order, keys, watched = unpacked(sys.stdin.buffer.readline(_LONGEST_LINE))
        if watched is not None:
            die_with(watched)
        sys.exit(become(order, keys))
    except SamepathError as error:
        _log(str(error))
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
