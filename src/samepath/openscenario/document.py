"""An OpenSCENARIO file as checked elements: bounded XML, parameters and expressions filled in, catalogues looked up.

A file may come from anybody. It is plain XML without entities, of bounded size; so are its catalogues, of which there may be a
bounded number. An expression is arithmetic on numbers and nothing else. Whatever is wrong is one line that names the element.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from samepath.core.errors import InputError, printable
from samepath.core.files import regular
from samepath.simulator.maps.checked_xml import parse_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SUFFIX: Final = ".xosc"
SIZE_MAX_BYTES: Final = 4 * 1024 * 1024
CATALOGUES_MAX: Final = 200
NUMBER_MAX: Final = 1e9
_EXPRESSION_MAX: Final = 500
_SHOWN: Final = 60
_NAME: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_.]*)")
# Catalogues refer to catalogues: a file that refers to itself must end.
_DEPTH_MAX: Final = 8

_Number = Callable[[float], float]
_OPERATORS: Final[Mapping[type[ast.AST], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "pow": math.pow,
    "abs": abs,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "min": min,
    "max": max,
    "sign": lambda value: math.copysign(1.0, value) if value else 0.0,
}


def evaluated(text: str) -> float:
    """Return the value of an expression of numbers; ValueError where it is none."""
    if len(text) > _EXPRESSION_MAX:
        raise ValueError("it is too long")
    words = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text.strip()))
    try:
        return float(_value(ast.parse(words, mode="eval").body))
    except (SyntaxError, TypeError, ArithmeticError, RecursionError, MemoryError, KeyError) as error:
        raise ValueError(str(error)) from None


def _value(node: ast.AST) -> float:  # noqa: PLR0911 - a case for each kind of node
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id="pi"):
            return math.pi
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return float(not _value(inner))
        case ast.BoolOp(op=ast.And(), values=parts):
            return float(all(_value(part) for part in parts))
        case ast.BoolOp(values=parts):
            return float(any(_value(part) for part in parts))
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left), _value(right))
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return float(_OPERATORS[type(sign)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return float(_FUNCTIONS[name](*map(_value, arguments)))
    raise ValueError("only numbers, + - * / %, comparisons and a few functions can be in it")


@dataclass(frozen=True)
class FileNode:
    """An element, the file it is in, and the parameters that hold there."""

    element: "Element"
    file: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """The element's name without a namespace."""
        return self.element.tag.rsplit("}", 1)[-1]

    def fail(self, words: str) -> InputError:
        """The error that refuses this element."""
        name = self.element.get("name")
        called = f" {name[:_SHOWN]!r}" if name else ""
        return InputError(f"{self.file}: <{self.tag}>{called}: {printable(words)}")

    def unsupported(self) -> InputError:
        """The error that refuses an element which is not played."""
        return self.fail(f"{self.tag} is not supported: see docs/openscenario.md for what is")

    def children(self, *tags: str) -> Iterator["FileNode"]:
        """All children, or those of these names, in the order of the file."""
        for element in self.element:
            if isinstance(element.tag, str):
                node = FileNode(element, self.file, self.parameters)
                if not tags or node.tag in tags:
                    yield node

    def child(self, *tags: str) -> "FileNode | None":
        """The first child, or the first of these names."""
        return next(self.children(*tags), None)

    def need(self, *tags: str) -> "FileNode":
        """The first child (of these names), which must be there."""
        found = self.child(*tags)
        if found is None:
            raise self.fail(
                f"<{'> or <'.join(tags)}> was wanted in it" if tags else "an element was wanted in it, but it is empty"
            )
        return found

    def under(self, parameters: Mapping[str, str]) -> "FileNode":
        """The same element with other parameters."""
        return FileNode(self.element, self.file, parameters)

    def has(self, key: str) -> bool:
        """Is there such an attribute, and is it not empty?"""
        return bool(self.element.get(key, "").strip())

    def raw(self, key: str, default: str | None = None) -> str:
        """An attribute as it stands there: names of parameters are not their values."""
        raw = self.element.get(key, default)
        if raw is None:
            raise self.fail(f"the attribute {key!r} is missing")
        return raw

    def text(self, key: str, default: str | None = None) -> str:
        """An attribute, with its parameters filled in."""
        return self.filled(self.raw(key, default))

    def filled(self, raw: str) -> str:
        """A text with its parameters filled in; a text that is an expression becomes its value."""
        text = raw.strip()
        if "$" not in text:
            return text
        if text.startswith("${") and text.endswith("}"):
            inner = _NAME.sub(lambda match: self._parameter(match[1]), text[2:-1])
            try:
                return repr(evaluated(inner))
            except ValueError:
                # Names may be put together, too; what must be a number is refused where it is read.
                return inner.strip()
        return _NAME.sub(lambda match: self._parameter(match[1]), text)

    def _parameter(self, name: str) -> str:
        value = self.parameters.get(name)
        if value is None:
            raise self.fail(f"the parameter ${name[:_SHOWN]} is used, but not declared")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        if default is not None and not self.has(key):
            return default
        text = self.text(key)
        try:
            value = float(text)
        except ValueError:
            try:
                value = evaluated(text)  # some files write h="pi/2" as it is
            except ValueError:
                raise self.fail(f"a number was wanted for {key!r}, but {text[:_SHOWN]!r} came") from None
        # The standard's INF is a large number to us: nothing here is farther, faster or longer.
        if math.isnan(value):
            raise self.fail(f"a number was wanted for {key!r}, but {text[:_SHOWN]!r} came")
        return min(max(value, -NUMBER_MAX), NUMBER_MAX)

    def within(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A number in a range, ends included."""
        value = self.number(key, default)
        if not low <= value <= high:
            raise self.fail(f"{key!r} from {low:g} to {high:g} was wanted, but {value:g} came")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        value = self.number(key, default)
        if value != int(value):
            raise self.fail(f"a whole number was wanted for {key!r}, but {value:g} came")
        return int(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A truth value; 1 and 0 are ones, too."""
        if not self.has(key):
            return default
        text = self.text(key).lower()
        if text not in ("true", "false", "1", "0", "1.0", "0.0"):
            raise self.fail(f"true or false was wanted for {key!r}, but {text[:_SHOWN]!r} came")
        return text in ("true", "1", "1.0")

    def choice(self, key: str, known: tuple[str, ...], default: str | None = None) -> str:
        """One of several words."""
        text = self.text(key) if self.has(key) or default is None else default
        if text not in known:
            raise self.fail(f"{key!r} is one of {', '.join(known)}, but {text[:_SHOWN]!r} came")
        return text

    def declared(self) -> "FileNode":
        """The same element under its own parameter declarations as well; values given from outside win."""
        found = dict(self.parameters)
        for block in self.children("ParameterDeclarations"):
            for declaration in block.children("ParameterDeclaration"):
                found[declaration.raw("name").lstrip("$")] = declaration.under(found).text("value")
        return self.under(found)


def read_root(path: Path, *, is_catalogue: bool = False) -> FileNode:
    """Read a file: its root element, under its own parameters. Of a catalogue the version does not matter: it names things."""
    root = parse_xml(_read(path), path.name, kind="OpenSCENARIO file", form="OpenSCENARIO")
    node = FileNode(root, path.name)
    if node.tag != "OpenSCENARIO":
        raise InputError(f"{path}: a root element <OpenSCENARIO> was wanted, but <{printable(node.tag[:_SHOWN])}> came")
    header = node.need("FileHeader")
    if header.text("revMajor", "1") != "1" and not is_catalogue:
        raise header.fail(f"OpenSCENARIO 1.x was wanted, but version {header.text('revMajor')[:_SHOWN]} came")
    return node.declared()


def _read(path: Path) -> str:
    try:
        with regular(path).open("rb") as file:
            data = file.read(SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > SIZE_MAX_BYTES:
        raise InputError(f"{path}: at most {SIZE_MAX_BYTES} bytes of OpenSCENARIO were wanted, but more came")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: text in UTF-8 was wanted, but byte {error.start} is none") from None


class Catalogues:
    """The entries of the catalogues that a file names, by catalogue and entry; read when the first is asked for."""

    def __init__(self, root: FileNode, folder: Path) -> None:
        self._root, self._folder = root, folder
        self._entries: dict[tuple[str, str], FileNode] | None = None

    def resolved(self, reference: FileNode, depth: int = 0) -> FileNode:
        """The element that a ``CatalogReference`` stands for, under the parameters that it assigns."""
        if depth >= _DEPTH_MAX:
            raise reference.fail("catalogues refer to each other too often")
        if self._entries is None:
            self._entries = self._load()
        key = reference.text("catalogName"), reference.text("entryName")
        entry = self._entries.get(key)
        if entry is None:
            raise reference.fail(f"no catalogue that this file names has an entry {key[1][:_SHOWN]!r} in {key[0][:_SHOWN]!r}")
        parameters = dict(entry.declared().parameters)
        for block in reference.children("ParameterAssignments"):
            for assignment in block.children("ParameterAssignment"):
                parameters[assignment.raw("parameterRef").lstrip("$")] = assignment.text("value")
        found = entry.under(parameters)
        return self.resolved(found, depth + 1) if found.tag == "CatalogReference" else found

    def _load(self) -> dict[tuple[str, str], FileNode]:
        found: dict[tuple[str, str], FileNode] = {}
        locations = self._root.child("CatalogLocations")
        files: list[Path] = []
        for location in locations.children() if locations is not None else ():
            for directory in location.children("Directory"):
                folder = self._folder / directory.text("path")
                if folder.is_dir():
                    files += sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())
                if len(files) > CATALOGUES_MAX:
                    raise directory.fail(f"at most {CATALOGUES_MAX} catalogue files were wanted, but there are more")
        for path in files:
            catalogue = read_root(path, is_catalogue=True).child("Catalog")
            for entry in catalogue.children() if catalogue is not None else ():
                found.setdefault((catalogue.text("name") if catalogue else "", entry.text("name", "")), entry)
        return found
