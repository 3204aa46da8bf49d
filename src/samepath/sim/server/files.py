"""Files that clients ask for or name. Nothing outside the data folder can be reached, whatever the name."""

from pathlib import Path, PurePosixPath, PureWindowsPath

from samepath.base.errors import InputError
from samepath.base.files import make_folder
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


def inside(folder: Path, name: str) -> Path:
    """The path of a file that a client named, inside ``folder``; its folder is made if need be."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or "\0" in name:
        raise InputError(f"a file name inside the data folder was wanted, but {name[:100]!r} came")
    if any(part in ("..", "/") for part in parts) or any(len(part) > 200 for part in parts):
        raise InputError(f"a file name inside the data folder was wanted, but {name[:100]!r} came")
    root = make_folder(folder).resolve()
    path = root.joinpath(*parts).resolve()
    if not path.is_relative_to(root) or path == root:
        raise InputError(f"a file name inside the data folder was wanted, but {name[:100]!r} came")
    return path
