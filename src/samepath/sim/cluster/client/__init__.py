"""Calls that return at once: tickets, and the one connection that carries them.

::

    ticket.py    what a caller holds: pending, failed, success
    line.py      one connection: requests out, answers in
    carrier.py   the thread that keeps a connection, and asks again after every loss, in order
    remote.py    what a user sees: ``connect`` and ``Remote``
"""

from samepath.sim.cluster.client.carrier import Patience
from samepath.sim.cluster.client.remote import Remote, connect
from samepath.sim.cluster.client.ticket import CallFailedError, Ticket, TicketError, TicketLostError, TicketTimeoutError

__all__ = [
    "CallFailedError",
    "Patience",
    "Remote",
    "Ticket",
    "TicketError",
    "TicketLostError",
    "TicketTimeoutError",
    "connect",
]
