"""The live page: one HTML document that needs nothing but the server it came from."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Page:
    """The document, and the policy it is sent with: only its own style and script, only this server."""

    html: bytes
    policy: str


@cache
def live_page() -> Page:
    """Put style and script into the document."""
    folder = resources.files(__package__)
    style, script = ((folder / f"live.{kind}").read_text("utf-8") for kind in ("css", "js"))
    html = (folder / "live.html").read_text("utf-8").replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(html.encode(), policy)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
