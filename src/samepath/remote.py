"""Drive a world of samepath from Python, without CARLA's client: calls return tickets and are never done twice.

>>> from samepath.remote import connect
>>> with connect("127.0.0.1:2000") as world:  # doctest: +SKIP
...     ticket = world.tick()
...     print(ticket.status, ticket.result())
"""

from samepath.sim.cluster.client import (
    CallFailedError,
    Patience,
    Remote,
    Ticket,
    TicketError,
    TicketLostError,
    TicketTimeoutError,
    connect,
)
from samepath.sim.server.records import Actor, Rotation, Settings, Transform, VehicleControl, WalkerControl
from samepath.sim.server.tickets import Status
from samepath.sim.world.records import Vector

__all__ = [
    "Actor",
    "CallFailedError",
    "Patience",
    "Remote",
    "Rotation",
    "Settings",
    "Status",
    "Ticket",
    "TicketError",
    "TicketLostError",
    "TicketTimeoutError",
    "Transform",
    "Vector",
    "VehicleControl",
    "WalkerControl",
    "connect",
]
