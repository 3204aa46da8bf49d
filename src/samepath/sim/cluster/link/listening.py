"""The socket of a main server: where it listens, and what both ends have in common."""

import socket as sockets
from typing import Final

from samepath.base.errors import InputError
from samepath.sim.cluster.link.extra import zmq
from samepath.sim.cluster.link.keys import Keys
from samepath.sim.cluster.link.limits import LinkLimits

_PORT_MAX: Final = 65_535


def dress(socket: "zmq.Socket[bytes]", keys: Keys, limits: LinkLimits) -> None:
    """What both ends of the link need: keys, bounds, and a sign of life on an idle connection."""
    socket.linger = 0
    socket.curve_secretkey = keys.secret.encode("ascii")
    socket.curve_publickey = keys.public.encode("ascii")
    # The link counts what is under way by itself; these bounds only stand behind that.
    socket.sndhwm = socket.rcvhwm = 2 * limits.waiting_messages
    socket.maxmsgsize = limits.frame_bytes
    # A main server that is busy opens the door later; how long a node waits for that, the node itself decides.
    socket.handshake_ivl = round(2000.0 * limits.connect_s)
    socket.tcp_keepalive = 1
    socket.tcp_keepalive_idle, socket.tcp_keepalive_intvl, socket.tcp_keepalive_cnt = 10, 5, 3


def listen(socket: "zmq.Socket[bytes]", host: str, port: int, keys: Keys, limits: LinkLimits) -> tuple[str, int]:
    """Bind a ROUTER; every connection needs a key, also on this host. Returns the endpoint and its port."""
    socket.router_mandatory = True
    socket.curve_server = True
    socket.zap_domain = b"samepath"
    dress(socket, keys, limits)
    if not 0 <= port <= _PORT_MAX:
        raise InputError(f"the main server cannot listen on {host}:{port}: a port is a number from 0 to {_PORT_MAX}")
    try:
        family, _, _, _, address = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"the main server cannot listen on {host}:{port}: {error}; give an address of this host") from None
    socket.ipv6 = family == sockets.AF_INET6
    shown = f"[{address[0]}]" if family == sockets.AF_INET6 else str(address[0])
    try:
        socket.bind(f"tcp://{shown}:{port or '*'}")
    except zmq.ZMQError as error:
        if error.errno == zmq.EADDRINUSE:
            busy = f"another main server (or something else) listens on {host}:{port}"
            raise InputError(f"{busy}: stop it, or choose another port") from None
        raise InputError(
            f"the main server cannot listen on {host}:{port}: {error.strerror}; give an address of this host"
        ) from None
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return endpoint, int(endpoint.rpartition(":")[2])
