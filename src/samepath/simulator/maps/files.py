"""Maps of the user's own: OpenDRIVE files, found by path, or by name in folders.

A folder's ``Town05.xodr`` is the map ``Town05``, and ``Town05_Opt`` as well: CARLA's clients ask for either. Which folders
there are comes with ``--maps``, or with the variable ``SAMEPATH_MAPS``, which the processes of a study inherit. A file may come
from anybody: its size is looked at before it is read, and what it holds against the bounds of :mod:`.opendrive`.
"""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from samepath.core.errors import InputError
from samepath.core.files import regular
from samepath.simulator.maps.checked_xml import SIZE_MAX_BYTES

VARIABLE: Final = "SAMEPATH_MAPS"
SUFFIX: Final = ".xodr"
OPTIMISED: Final = "_Opt"
FILES_MAX: Final = 1000
_NAME_MAX: Final = 100


def map_files(places: Iterable[Path], taken: Iterable[str] = ()) -> dict[str, Path]:
    """The maps of folders and single files, by name. Two of one name, and one that hides a map of ours, are refused."""
    found: dict[str, Path] = {}
    reserved = set(taken)
    for place in places:
        if place.is_dir():
            files = sorted(path for path in place.iterdir() if path.suffix == SUFFIX and path.is_file())
            if not files:
                raise InputError(f"--maps {place}: a folder with *{SUFFIX} files was wanted, but there are none in it")
        elif regular(place).is_file():
            files = [place]
        else:
            raise InputError(f"--maps {place}: a folder with *{SUFFIX} files was wanted, but there is no such folder")
        for path in files:
            name = name_of(path)
            if name in reserved:
                raise InputError(f"map {name!r} of {path.parent} would hide another map of this name: rename the file")
            reserved.add(name)
            found[name] = path.absolute()
            if len(found) > FILES_MAX:
                raise InputError(f"at most {FILES_MAX} maps were wanted, but there are more in {place}")
    return found


def name_of(path: Path) -> str:
    """The name of a file's map."""
    name = path.name.removesuffix(SUFFIX)
    if not name or len(name) > _NAME_MAX or not name.isprintable() or "*" in name or "=" in name:
        raise InputError(f"{path}: a file name of 1 to {_NAME_MAX} plain characters before {SUFFIX} was wanted")
    return name


def read_file(path: Path) -> str:
    """The text of an OpenDRIVE file."""
    try:
        size = regular(path).stat().st_size
        if size > SIZE_MAX_BYTES:
            raise InputError(f"{path}: at most {SIZE_MAX_BYTES} bytes of OpenDRIVE were wanted, but {size} came")
        with path.open("rb") as file:
            data = file.read(SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: an OpenDRIVE file was wanted, but it cannot be read: {error.strerror}") from error
    if len(data) > SIZE_MAX_BYTES:
        raise InputError(f"{path}: at most {SIZE_MAX_BYTES} bytes of OpenDRIVE were wanted, but more came")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: text in UTF-8 was wanted, but byte {error.start} is none") from None


def chosen_maps(map_name: str, places: Iterable[Path], ours: Iterable[str]) -> tuple[str, dict[str, Path]]:
    """Of ``--map`` and ``--maps``: the name to begin with, and the user's files by name. ``ours`` are names that are taken."""
    taken = tuple(ours)
    files = map_files(places, taken)
    alone = asked_file(map_name)
    if alone is None:
        return map_name, files
    name = name_of(alone)
    if files.get(name) != alone.absolute():
        files |= map_files([alone], (*taken, *files))
    return name, files


def without_opt(name: str) -> str:
    """``Town05_Opt`` is ``Town05`` with the layers of its scenery apart; here they always are."""
    return name.removesuffix(OPTIMISED)


def asked_file(name: str) -> Path | None:
    """The file a name stands for by itself: a path that ends in .xodr."""
    return Path(name) if name.endswith(SUFFIX) else None


def known_files(taken: Iterable[str]) -> Mapping[str, Path]:
    """The maps of the folders in ``SAMEPATH_MAPS``, by name."""
    return _known(os.environ.get(VARIABLE, ""), tuple(taken))


@lru_cache(maxsize=8)
def _known(text: str, taken: tuple[str, ...]) -> Mapping[str, Path]:
    places = [Path(place) for place in text.split(os.pathsep) if place]
    return map_files(places, taken)


def offer(places: Iterable[Path]) -> None:
    """Make folders known to this process and to those it starts."""
    before = [place for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]
    given = [str(place.absolute()) for place in places]
    if given:
        os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*before, *given]))
