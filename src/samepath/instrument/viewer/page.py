"""The page: served, or as one file that holds everything; either way it needs no network and runs no script but its own.

The policy in the page names the digest of the one script and the one sheet of styles: a name from a trace that found a way into
the markup could still run nothing, load nothing and send nothing. The script puts names into the page as text only.
"""

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from samepath.instrument.viewer.packing import json_text

SCRIPT: Final = "viewer.js"
STYLE: Final = "viewer.css"
_MARKUP: Final = "viewer.html"


@cache
def part(name: str) -> str:
    """Return a built file of the page."""
    return (resources.files("samepath.instrument.viewer") / "page" / name).read_text("utf-8")


def policy(*, connect: bool) -> str:
    """The page's content security policy; ``connect``: it may ask the server that it came from for blocks."""
    script, style = (_digest(part(name)) for name in (SCRIPT, STYLE))
    ways = "'self'" if connect else "'none'"
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:{' ' + ways if connect else ''}; "
        f"connect-src {ways}; base-uri 'none'; form-action 'none'"
    )


def served_page(index: Mapping[str, Any]) -> str:
    """Return the page that fetches its blocks from where it came from."""
    return _filled(index, "", connect=True)


def whole_page(index: Mapping[str, Any], cells: Sequence[bytes], grounds: Sequence[bytes]) -> str:
    """Return the page with all its blocks in it, packed."""
    blocks = [(f"cell-{number}", block) for number, block in enumerate(cells)]
    blocks += [(f"ground-{number}", block) for number, block in enumerate(grounds)]
    texts = [f'<script type="application/octet-stream" id="{name}">{_packed(block)}</script>' for name, block in blocks]
    return _filled(index, "\n".join(texts), connect=False)


def _packed(block: bytes) -> str:
    # Without a time stamp: equal traces give equal files.
    return base64.b64encode(gzip.compress(block, 6, mtime=0)).decode()


def _filled(index: Mapping[str, Any], blocks: str, *, connect: bool) -> str:
    # Parts are put in one after the other, never into each other: what a trace says cannot name a place to be filled.
    places = {
        "<!--policy-->": f'<meta http-equiv="Content-Security-Policy" content="{policy(connect=connect)}">',
        "<!--style-->": f"<style>{part(STYLE)}</style>",
        "<!--index-->": f'<script type="application/json" id="index">{json_text(dict(index))}</script>\n{blocks}',
        "<!--script-->": f"<script>{part(SCRIPT)}</script>",
    }
    rest, made = part(_MARKUP), []
    for place, text in places.items():
        before, found, rest = rest.partition(place)
        if not found:
            raise RuntimeError(f"the viewer's page was built without {place}: run web/viewer/build.mjs")
        made += [before, text]
    return "".join([*made, rest])


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
