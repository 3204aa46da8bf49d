"""Drive a world of samepath from Python, without CARLA's client: calls return tickets and are never done twice.

>>> from samepath.client import connect
>>> with connect("127.0.0.1:2000") as world:  # doctest: +SKIP
...     ticket = world.tick()
...     print(ticket.status, ticket.result())
"""

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
]
