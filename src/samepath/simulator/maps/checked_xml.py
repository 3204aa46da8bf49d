"""Safe XML and checked attributes: whatever is wrong becomes one line that names the element and the road.

A map may come from anybody. Entities and document types are refused (a few of them can grow to gigabytes), and so are files of
far more bytes or tags than any town has: an element takes fifty times the memory of its text.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeTree

from samepath.core.errors import InputError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SIZE_MAX_BYTES: Final = 16 * 1024 * 1024
TAGS_MAX: Final = 500_000  # that open or close an element; Town04: 40,000
NUMBER_MAX: Final = 1e9
ID_MAX: Final = 2**31 - 1


def parse_xml(text: str, name: str, *, kind: str = "map", form: str = "OpenDRIVE") -> "Element":
    """Parse ``text``; entities, document types, files over 16 MiB and files of too many tags are refused.

    ``kind`` and ``form`` say what the user gave: OpenSCENARIO files are read by the same rules.
    """
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size > SIZE_MAX_BYTES:
        raise InputError(f"{kind} {name!r}: at most {SIZE_MAX_BYTES} bytes of {form} were wanted, but {size} came")
    tags = text.count("<")
    if tags > TAGS_MAX:
        raise InputError(f"{kind} {name!r}: at most {TAGS_MAX} tags of XML were wanted, but {tags} came")
    try:
        root: Element = SafeTree.fromstring(text, forbid_dtd=True, forbid_entities=True, forbid_external=True)
    except DefusedXmlException as error:
        raise InputError(
            f"{kind} {name!r}: plain XML was wanted, but it declares a document type or entities; remove them"
        ) from error
    except (SafeTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{kind} {name!r}: well-formed XML was wanted, but: {' '.join(str(error).split())}") from error
    return root


class XmlNode:
    """An element with the words that say where it is, and attributes checked as they are read."""

    def __init__(self, element: "Element", where: str) -> None:
        self.element = element
        self.where = where

    @property
    def tag(self) -> str:
        """The element's name without a namespace."""
        return _local(self.element.tag)

    def fail(self, wanted: str) -> InputError:
        """The error for this element."""
        return InputError(f"{self.where}: <{self.tag}>: {wanted}")

    def inside(self, where: str) -> "XmlNode":
        """The same element under a more precise place."""
        return XmlNode(self.element, where)

    def child(self, tag: str) -> "XmlNode | None":
        """The first child of this name."""
        return next(self.children(tag), None)

    def children(self, *tags: str) -> Iterator["XmlNode"]:
        """All children, or those of these names, in the order of the file."""
        for element in self.element:
            if isinstance(element.tag, str) and (not tags or _local(element.tag) in tags):
                yield XmlNode(element, self.where)

    def text(self, key: str, default: str | None = None) -> str:
        """A text attribute."""
        value = self.element.get(key, default)
        if value is None:
            raise self.fail(f"attribute {key!r} is missing")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        raw = self.element.get(key)
        if raw is None:
            if default is None:
                raise self.fail(f"attribute {key!r} is missing")
            return default
        try:
            value = float(raw)
        except ValueError:
            raise self.fail(f"a number was wanted for {key!r}, but {raw[:40]!r} came") from None
        if not math.isfinite(value) or abs(value) > NUMBER_MAX:
            raise self.fail(f"a finite number up to {NUMBER_MAX:g} was wanted for {key!r}, but {raw[:40]!r} came")
        return value

    def within(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A number in a range, ends included."""
        value = self.number(key, default)
        if not low <= value <= high:
            raise self.fail(f"{key!r} between {low:g} and {high:g} was wanted, but {value:g} came")
        return value

    def about(self, key: str, most: float, default: float | None = None) -> float:
        """A number of either sign up to a size."""
        return self.within(key, -most, most, default)

    def positive(self, key: str, *, zero: bool = False) -> float:
        """A number above 0 (or not below 0)."""
        value = self.number(key)
        if value < 0.0 or (value == 0.0 and not zero):
            raise self.fail(f"{key!r} must be {'at least' if zero else 'more than'} 0, but {value:g} came")
        return value

    def integer(self, key: str, most: int = ID_MAX) -> int:
        """A whole number of either sign up to a size."""
        raw = self.text(key)
        try:
            value = int(raw)
        except ValueError:
            raise self.fail(f"a whole number was wanted for {key!r}, but {raw[:40]!r} came") from None
        if abs(value) > most:
            raise self.fail(f"{key!r} between {-most} and {most} was wanted, but {raw[:40]} came")
        return value


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]
