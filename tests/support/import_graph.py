"""Who imports whom, read from the source as text: rooms (folders), the edges between them, and the drawing of both.

``python -m tests.support.import_graph`` writes the drawing into ``docs/architecture.md``; a test keeps it there.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import ROOT

SOURCE = ROOT / "src" / "samepath"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- import graph: begin -->\n", "<!-- import graph: end -->\n"

# Folders whose folders are rooms of their own. Elsewhere the top folder is the room.
DIVIDED = ("instrument", "simulator")
# The only two adapters that know more of the simulators' side than the interface: see tests/test_architecture.py.
OPENED = ("engines/samepath", "engines/carla")


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package: dotted name, file. Projects that run inside other engines are not ours to import."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if "project" not in parts:
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Every import of a file, also those inside functions and for types only. Kept: reading all files takes seconds."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


@cache
def room_of(name: str) -> str:
    """The room of a dotted name below ``samepath``: ``instrument/traces``, ``engines``, ``cli``, ... or ``samepath`` itself."""
    parts = name.split(".")[1:]
    if not parts or not (SOURCE / parts[0]).is_dir():
        return parts[0] if parts and (SOURCE / f"{parts[0]}.py").exists() else "samepath"
    inner = "/".join(parts[:2])
    divided = parts[0] in DIVIDED and len(parts) > 1 and (SOURCE / inner).is_dir()
    return inner if divided or inner in OPENED else parts[0]


def edges() -> dict[tuple[str, str], list[str]]:
    """(room, room it imports from) -> the imports, as ``file: name``."""
    found: dict[tuple[str, str], list[str]] = {}
    for module, path in modules():
        for name in imports_of(path):
            if name.split(".")[0] == "samepath":
                pair = room_of(module), room_of(name)
                if pair[0] != pair[1]:
                    found.setdefault(pair, []).append(f"{path.relative_to(SOURCE)}: {name}")
    return dict(sorted(found.items()))


def drawing() -> str:
    """The graph in Mermaid. An edge that another way implies is left out: what is left is the order of the house."""
    pairs = {(a, b) for a, b in edges() if "samepath" not in (a, b)}
    after: dict[str, set[str]] = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)

    def reach(room: str, without: tuple[str, str]) -> set[str]:
        seen, todo = set(), [room]
        while todo:
            here = todo.pop()
            for there in after.get(here, ()):
                if (here, there) != without and there not in seen:
                    seen.add(there)
                    todo.append(there)
        return seen

    kept = sorted((a, b) for a, b in pairs if b not in reach(a, (a, b)))
    rooms = sorted({room for pair in kept for room in pair})
    lines = ["```mermaid", "graph BT"]
    lines += [f'    {room.replace("/", "_")}["{room}"]' for room in rooms]
    lines += [f"    {a.replace('/', '_')} --> {b.replace('/', '_')}" for a, b in kept]
    return "\n".join([*lines, "```"]) + "\n"


def page_with_drawing(text: str) -> str:
    """The page with the drawing of the code as it is between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + drawing() + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with_drawing(PAGE.read_text("utf-8")), "utf-8")
