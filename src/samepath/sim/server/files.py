"""Files that clients ask for: from memory, by exact name; nothing on disk can be reached this way."""

from samepath.sim.server.errors import CallError
from samepath.sim.server.scene import Scene


def required_files(scene: Scene, folder: str) -> tuple[str, ...]:
    """The files a client should have for a map; only the navigation mesh is one."""
    return (scene.navigation[0],) if folder in ("", "Nav") else ()


def requested_file(scene: Scene, name: str) -> bytes:
    """One of :func:`required_files`, from memory: no name from a client is looked up on disk."""
    known, content = scene.navigation
    if name != known:
        raise CallError(f"there is no file {name[:100]!r}; there is: {known}")
    return content
