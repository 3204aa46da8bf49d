"""By what a node can be told to be the right one: version, code, map, and a picture that all nodes draw alike."""

import hashlib
import importlib.metadata
import platform
import socket
from functools import cache
from pathlib import Path
from typing import Final

import samepath
from samepath.sim.maps import RoadMap

_LIBRARIES: Final = ("numpy", "numba", "llvmlite", "msgpack")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def digest_of(*parts: bytes) -> str:
    """Name bytes; ('ab', 'c') and ('a', 'bc') have different names."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


@cache
def fingerprint() -> str:
    """Name everything that the bytes of a sensor might depend on: samepath's own code and the libraries that compute."""
    root = Path(samepath.__file__).parent
    parts = []
    for path in sorted(root.rglob("*.py")):
        parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    for name in _LIBRARIES:
        try:
            parts.append(f"{name} {importlib.metadata.version(name)}".encode())
        except importlib.metadata.PackageNotFoundError:
            parts.append(f"{name} is not installed".encode())
    parts.append(platform.machine().encode())
    return digest_of(*parts)


def map_digest(road_map: RoadMap) -> str:
    """Name a map by its content."""
    return digest_of(road_map.name.encode(), road_map.xodr.encode())


def host_name() -> str:
    """What this host calls itself."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """Name the running kernel: two processes that have the same one share their clock and their process numbers."""
    try:
        text = _BOOT.read_text("ascii").strip()
        return " ".join([text, *(str(Path("/proc/self/ns", one).readlink()) for one in ("pid", "time"))])
    except OSError:
        return ""
