"""What the site of the docs has that no page holds: the command line, made from the program as the site is built.

A page with all options would have to be written anew with every option that comes, and would be wrong until then. Files of the
repository that are no pages, such as ``deploy/README.md``, are linked where the repository is: a site does not have them.

The button beside a console block copies its commands without prompts and without output, so that they can be pasted.
"""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from samepath.cli.app import VERBS, load_verb

PAGE = "cli.md"
PLACE = re.compile(r"<!-- verbs -->.*", re.DOTALL)


REPOSITORY = "https://github.com/samepath/samepath/blob/main/"
ROOT = Path(__file__).parents[2]
CODE_BLOCK = re.compile(r'<div class="highlight">(?=<pre><span></span><code>(?P<code>.*?)</code></pre></div>)', re.DOTALL)
# Of a user, of root, of a named host.
PROMPT = re.compile(r"(?:[\w-]+)?[$#] ")
OUTSIDE = re.compile(r"\]\((?P<path>\.\./[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own
    """Put the reference into its page, and lead links that leave the docs to the repository."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    markdown = OUTSIDE.sub(lambda found: _link(found, folder), markdown)
    return PLACE.sub(lambda _: reference(), markdown) if page.file.src_uri == PAGE else markdown


def on_page_content(content: str, **_: object) -> str:
    """Set ``data-copy`` on each console block: the theme's button copies that text if it is there."""
    return CODE_BLOCK.sub(_with_commands, content)


def on_post_page(output: str, **_: object) -> str:
    """Name the theme's search dialog, which a screen reader cannot announce without a name."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def _with_commands(block: re.Match[str]) -> str:
    # Only console blocks have prompts (gp) or output (go).
    if 'class="gp"' not in block["code"] and 'class="go"' not in block["code"]:
        return block[0]
    commands = commands_of(html.unescape(re.sub(r"<[^>]+>", "", block["code"])))
    return f'<div class="highlight" data-copy="{html.escape(commands)}">' if commands else block[0]


def commands_of(console: str) -> str:
    """Return the commands of a console block and their continuation lines, without prompts."""
    kept: list[str] = []
    continued = False
    for line in console.splitlines():
        prompt = PROMPT.match(line)
        if prompt or continued:
            kept.append(line[prompt.end() :] if prompt else line)
            continued = line.endswith("\\")
    return "\n".join(kept)


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
