"""Rewrite our map files: ``python -m samepath.simulator.maps.build``; the same bytes on every machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from samepath.core.files import write_text_atomically
from samepath.simulator.maps.designs import double_mini_roundabout, t_junction
from samepath.simulator.maps.town import oval, town

DESIGNS: Final[dict[str, Callable[[], str]]] = {
    "double-mini-roundabout": double_mini_roundabout,
    "oval": oval,
    "t-junction": t_junction,
    "town": town,
}


def build(folder: Path) -> tuple[Path, ...]:
    """Write every design to ``folder`` and return the files."""
    paths = []
    for name, design in sorted(DESIGNS.items()):
        path = folder / f"{name}.xodr"
        write_text_atomically(path, design())
        paths.append(path)
    return tuple(paths)


if __name__ == "__main__":
    build(Path(__file__).parent / "data")
