"""By what a node is known to be the right one: version, code, map, a picture that all nodes draw alike, and digests of states.

A node draws for a world that it does not compute, so one that differs in anything that a byte of a sensor may depend on must
not draw at all: its frames would be wrong without anybody noticing. Before it joins, version, code and libraries are compared,
then the map, then a picture of a fixed scene (which also catches another CPU or a broken library). After that every tick is: a
node answers with the digest of what it *understood*, not of what it received.
"""

import hashlib
import importlib.metadata
import platform
from functools import cache
from pathlib import Path
from typing import Final

import samepath
from samepath.simulator.maps import RoadMap
from samepath.simulator.server.rendering import SceneView

_LIBRARIES: Final = ("numpy", "numba", "llvmlite", "msgpack")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


REFERENCE_PICTURES: Final = {"x86_64": "d8d345d12eb9a00e62c27aeec57109ca"}
"""By kind of machine, the digest of :func:`samepath.cluster.node.reference_picture`; a test draws it and compares.

A node that draws anything else is wrong, also if it is the first to come. On machines of a kind that is not listed nobody knows
better than the first node, and the others are held against it.
"""


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


def digest_of(*parts: bytes) -> str:
    """Name bytes; ('ab', 'c') and ('a', 'bc') have different names."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


def tick_digest(state: bytes, view: bytes) -> bytes:
    """Name what there is of a tick: the state for clients and the view."""
    made = hashlib.blake2b(len(state).to_bytes(8, "little") + state, digest_size=16)
    made.update(view)
    return made.digest()


def understood_digest(state: bytes, view: SceneView) -> bytes:
    """The same of what was understood: the view is written anew from what was read, so that a mistake in reading shows."""
    return tick_digest(state, view.pack())


@cache
def boot_id() -> str:
    """Name the running kernel and namespaces: processes that have the same one share their clock and their process numbers."""
    try:
        text = _BOOT.read_text("ascii").strip()
        return " ".join([text, *(str(Path("/proc/self/ns", kind).readlink()) for kind in ("pid", "time"))])
    except OSError:
        return ""
