"""Addresses to serve on: which of them let others in, and taking a port, with one line where that cannot be done.

What serves on an address that others can reach must say so or ask for keys, so that all who listen ask here what theirs means.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable

from samepath.core.errors import InputError


def is_loopback(host: str) -> bool:
    """Can this address be reached from this machine only?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Does this address stand for all of a machine's?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host or host == "*"


async def listen(protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Take a port, without serving yet."""
    # The client's streams speak IPv4 only; with one family a free port is the same for all addresses.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return await asyncio.get_running_loop().create_server(protocol, host, port, family=family, start_serving=False)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port} cannot be served ({reason}): choose another --port or --host") from error
