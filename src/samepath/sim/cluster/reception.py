"""Who is let in: a node that is another one than it should be is refused, with the reason by name."""

import select
from typing import Final

from samepath import __version__
from samepath.sim.cluster.identity import boot_id, fingerprint
from samepath.sim.cluster.messages import Hello, Ready

_MADE: Final = (int, bool, str, bytes, float)


def refusal(hello: Hello) -> str:
    """Why a node may not join; empty: it may."""
    if hello.version != __version__:
        return f"it runs samepath {hello.version}, the main server {__version__}: install the same version"
    if hello.fingerprint != fingerprint():
        return (
            f"its fingerprint is {hello.fingerprint}, the main server's {fingerprint()}: "
            "the code of samepath or the version of numpy, numba, llvmlite or msgpack differs"
        )
    return ""


def map_refusal(ready: Ready, map_name: str, wanted_digest: str, pictures: dict[str, str]) -> str:
    """Why what a node has built is not what it should have; empty: it is. ``pictures`` holds the one of the first node."""
    if ready.map_digest != wanted_digest:
        return f"its map {map_name} is another one: {ready.map_digest}, the main server's {wanted_digest}"
    first = pictures.setdefault("", ready.picture_digest)
    if ready.picture_digest != first:
        return f"its test picture is another one than the first node's: {ready.picture_digest}, not {first}"
    return ""


def is_made(row: object) -> bool:
    """Is this what a node says of one order: sensor, whether its payload came along, trouble, memory, cost?"""
    return isinstance(row, list) and tuple(type(one) for one in row) == _MADE


def has_ended(pidfd: int) -> bool:
    """Has a process ended that is watched through a descriptor?"""
    if pidfd < 0:
        return False
    watch = select.poll()
    watch.register(pidfd, select.POLLIN)
    return bool(watch.poll(0))


def is_same_host(hello: Hello) -> bool:
    """Does a node share clock and process numbers with this process?"""
    return bool(boot_id()) and hello.boot == boot_id()


def number_for(name: str, taken: set[int]) -> int:
    """A new node's number: the one at the end of its name where that is free, else the next."""
    tail = name.rpartition("-")[2]
    found = int(tail) if tail.isdecimal() and tail.isascii() and len(tail) < 5 else 0
    if found and found not in taken:
        return found
    return next(one for one in range(1, len(taken) + 2) if one not in taken)
