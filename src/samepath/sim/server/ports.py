"""Listening on a port, with one line where that cannot be done."""

import asyncio
import socket
from collections.abc import Callable

from samepath.base.errors import InputError


async def listen(protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Take a port, without serving yet."""
    # The client's streams speak IPv4 only; with one family a free port is the same for all addresses.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return await asyncio.get_running_loop().create_server(protocol, host, port, family=family, start_serving=False)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port} cannot be served ({reason}): choose another --port or --host") from error
