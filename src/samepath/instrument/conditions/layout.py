"""Runs a command with address space layout randomisation on or off: ``python layout.py on|off COMMAND ...``.

What ``setarch -R`` does, without needing it. Imports nothing of samepath, so that it starts in milliseconds by its path. The
kernel keeps the choice for whatever the command starts.
"""

import ctypes
import os
import sys
from typing import Final

ADDR_NO_RANDOMIZE: Final = 0x0040000
_ASK: Final = 0xFFFFFFFF


def personality(value: int = _ASK) -> int:
    """Set the kernel's personality of this process and return the one before; without ``value`` only ask for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.personality.argtypes = [ctypes.c_ulong]
    before = int(libc.personality(value))
    if before < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return before


def main(switch: str, command: list[str]) -> None:
    """Set the layout and become ``command``."""
    now = personality()
    personality(now & ~ADDR_NO_RANDOMIZE if switch == "on" else now | ADDR_NO_RANDOMIZE)
    os.execvp(command[0], command)  # noqa: S606 - the command is our caller's own


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OSError as problem:
        sys.exit(f"aslr {sys.argv[1]} was asked for, but could not be set ({problem.strerror})")
