"""Waking a traffic manager of CARLA's client that has lost its wake-up, through the port that it listens on itself.

Its thread waits for a notification that has come and gone, with ``step_begin`` set. ``set_synchronous_mode(false)`` notifies it
again; it then makes the cycle that was due, no other, for it looked at the mode before it began to wait. The mode must be back
before it looks again, so both calls go in one message, and its own calls are not taken until both are answered.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgpack

_MOST_BYTES: Final = 4096
_ALIVE: Final[tuple[str, list[bool]]] = ("health_check_remote_TM", [])
_NOTIFY: Final = (("set_synchronous_mode", [False]), ("set_synchronous_mode", [True]))


async def wake(host: str, port: int, sure_s: float, waits: Callable[[], bool], heed: Callable[[bool], None]) -> bool:
    """Wake it if it still ``waits`` some time after it was found alive; ``heed`` says whether its calls are taken.

    A client that was stopped, or is short of time, answers late and then makes its calls: it is left alone.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await _ask(reader, writer, _ALIVE)
        await asyncio.sleep(sure_s)
        if not waits():
            return False
        heed(False)
        try:
            await _ask(reader, writer, *_NOTIFY)
        finally:
            heed(True)
        return True
    finally:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *calls: tuple[str, list[bool]]) -> None:
    """Make calls and wait for as many answers, whatever they say."""
    writer.write(b"".join(msgpack.packb([0, number, *call]) for number, call in enumerate(calls)))
    unpacker = msgpack.Unpacker(max_buffer_size=_MOST_BYTES)
    answers = 0
    while answers < len(calls):
        data = await reader.read(_MOST_BYTES)
        if not data:
            raise ConnectionError("it hung up")
        try:
            unpacker.feed(data)
            answers += sum(1 for _ in unpacker)
        except (ValueError, msgpack.UnpackException) as error:
            raise ConnectionError("it sent no MessagePack") from error
