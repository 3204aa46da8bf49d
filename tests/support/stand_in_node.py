"""A node that draws nothing and does what its name says: what placements do with processes shows without a world."""

import os
import signal
import sys

from samepath.cluster.placement.child import main
from samepath.core.errors import InputError


def become(order, keys):
    if order.name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"ready {os.getpid()} {order.ordinal} {order.shared_memory} {keys.secret}", flush=True)
    match order.name:
        case "leaves":
            return 0
        case "refused":
            raise InputError("another map was wanted")
        case "crashes":
            return 7
        case "tells":
            print(len(sys.argv), "RAY_AUTH_TOKEN" in os.environ, os.environ.get("OMP_NUM_THREADS"), "\x1b[2J", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(become)
