"""What the site of the docs has that no page holds: the command line, made from the program as the site is built.

A page with all options would have to be written anew with every option that comes, and would be wrong until then. Files of the
repository that are no pages, such as ``deploy/README.md``, are linked where the repository is: a site does not have them.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from samepath.cli.app import VERBS, load_verb

PAGE = "cli.md"
PLACE = re.compile(r"<!-- verbs -->.*", re.DOTALL)


REPOSITORY = "https://github.com/samepath/samepath/blob/main/"
ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\]\((?P<path>\.\./[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own
    """Put the reference into its page, and lead links that leave the docs to the repository."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    markdown = OUTSIDE.sub(lambda found: _link(found, folder), markdown)
    return PLACE.sub(lambda _: reference(), markdown) if page.file.src_uri == PAGE else markdown


def _link(found: re.Match[str], folder: str) -> str:
    target = posixpath.normpath(posixpath.join(folder, found["path"]))
    if target.startswith(("docs/", "../")) or not (ROOT / target).exists():
        return found[0]
    return f"]({REPOSITORY}{target}{found['anchor'] or ''})"


def reference() -> str:
    """Every verb, in the order of work, with what ``--help`` says of it."""
    parts = ["| verb | |\n|---|---|\n" + "".join(f"| [`{verb}`](#{verb}) | {line} |\n" for verb, (_, line) in VERBS.items())]
    for verb in VERBS:
        parts += section(load_verb(verb), ["samepath", verb], level=2)
    return "\n".join(parts)


def section(command: Any, words: list[str], level: int) -> list[str]:  # noqa: ANN401 - of Typer's own copy of click
    """One verb, and those below it."""
    context = command.make_context(" ".join(words), ["--help"], resilient_parsing=True)
    title = words[-1] if level == 2 else " ".join(words[1:])
    parts = [f"{'#' * level} {title}\n\n```text\n{command.get_help(context).strip()}\n```\n"]
    for name, below in getattr(command, "commands", {}).items():
        parts += section(below, [*words, name], level + 1)
    return parts
