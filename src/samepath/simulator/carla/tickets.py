"""Calls by ticket on the wire: who calls, which call it is, and what became of it; shared by client and server.

A ticket is a client's id and a number. Clients count from 1 without gaps; a server makes each number's call once, in its turn,
and answers a second request for it with what came of the first.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from samepath.simulator.carla.codec import LargeRun, Reader, WireError, came, long_text, struct_of, u64, whole

_ID_CHARACTERS: Final = 32
_HEX: Final = frozenset("0123456789abcdef")


class Status(StrEnum):
    """How it stands with a call."""

    UNKNOWN = "unknown"  # it has not come
    PENDING = "pending"
    FAILED = "failed"
    SUCCESS = "success"


class TicketId(NamedTuple):
    """Which call of which client."""

    client: str
    number: int

    def __str__(self) -> str:
        return f"ticket {self.number} of client {self.client}"


@dataclass(frozen=True)
class CallOutcome:
    """What became of a call: an error, or a packed result; ``frame`` is the world's after it was made."""

    status: Status
    error: str = ""
    result: bytes = b""
    frame: int = 0

    def plain(self) -> tuple[object, ...]:
        """The outcome as it is sent."""
        return self.status.value, self.error, self.result, self.frame


def client_id(value: object) -> str:
    """Read a client's id: random, so that two clients never meet under one."""
    if type(value) is str and len(value) == _ID_CHARACTERS and _HEX.issuperset(value):
        return value
    raise WireError(f"an id of {_ID_CHARACTERS} hexadecimal digits was wanted, but {came(value)} came")


def packed(value: object) -> bytes:
    """Read a run of bytes; the message it came in was bounded."""
    if type(value) is bytes:
        return value
    if isinstance(value, LargeRun) and not value.is_text:
        return value.content()
    raise WireError(f"bytes were wanted, but {came(value)} came")


def status(value: object) -> Status:
    try:
        return Status(str(value))
    except ValueError:
        raise WireError(f"a status was wanted, but {came(value)} came") from None


number: Final = whole(1, (1 << 64) - 1)
outcome: Final[Reader[CallOutcome]] = struct_of(CallOutcome, status, long_text, packed, u64)
