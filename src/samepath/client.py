"""Drive a world of samepath from Python, without CARLA's client: calls return tickets and are never done twice.

>>> from samepath.client import connect
>>> with connect("127.0.0.1:2000") as world:  # doctest: +SKIP
...     ticket = world.tick()
...     print(ticket.status, ticket.result())
"""

from pathlib import Path

from samepath.core.states import Vector
from samepath.simulator.carla.client import (
    CallFailedError,
    RetryPolicy,
    Ticket,
    TicketClient,
    TicketError,
    TicketLostError,
    TicketTimeoutError,
    connect,
)
from samepath.simulator.carla.records import Actor, Rotation, Settings, Transform, VehicleControl, WalkerControl
from samepath.simulator.carla.tickets import Status

__all__ = [
    "Actor",
    "CallFailedError",
    "RetryPolicy",
    "Rotation",
    "Settings",
    "Status",
    "Ticket",
    "TicketClient",
    "TicketError",
    "TicketLostError",
    "TicketTimeoutError",
    "Transform",
    "Vector",
    "VehicleControl",
    "WalkerControl",
    "connect",
    "nodes_of",
]


def nodes_of(cluster: str | Path = "cluster-run") -> tuple[str, ...]:
    """Addresses of a cluster's nodes, the least loaded first; of the cluster of a run folder, or behind a live page's address.

    >>> with connect(*nodes_of("http://127.0.0.1:8200")) as world:  # doctest: +SKIP
    ...     world.tick()
    """
    from samepath.cluster.monitor.client import MonitorAddress, SilentError, find_cluster, read_status

    is_address = isinstance(cluster, str) and "://" in cluster
    site = MonitorAddress(str(cluster)) if is_address else find_cluster(Path(cluster))
    found = read_status(site).connect
    if not found:
        raise SilentError(f"{site.url}: no node works yet; samepath cluster status says what they wait for")
    return found
