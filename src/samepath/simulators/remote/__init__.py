"""Playing a script in a program of its own that a client talks to over a socket, and whose clock is its own."""

from samepath.simulators.remote.settings import GAME_LOOP, MODES, SETTINGS, SYNCHRONOUS, TICK_S, RemoteSettings, remote_values
from samepath.simulators.remote.simulator import RemoteSimulator
from samepath.simulators.remote.world import Contact, Look, RemoteWorld, find_server

__all__ = [
    "GAME_LOOP",
    "MODES",
    "SETTINGS",
    "SYNCHRONOUS",
    "TICK_S",
    "Contact",
    "Look",
    "RemoteSettings",
    "RemoteSimulator",
    "RemoteWorld",
    "find_server",
    "remote_values",
]
