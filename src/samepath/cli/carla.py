"""``samepath carla``: the arguments of CARLA's own start script, for tools that start the server themselves."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from samepath.core.errors import InputError

# What Unreal takes and means nothing here; the names as CARLA's documentation, ScenarioRunner and benchmarks write them.
_READ_PAST: Final = frozenset(
    {
        "renderoffscreen", "quality-level", "resx", "resy", "windowed", "fullscreen", "nosound", "opengl", "opengl3", "opengl4",
        "vulkan", "dx11", "dx12", "prefernvidia", "preferamd", "preferintel", "benchmark", "fps", "carla-server", "world-port",
        "carla-no-hud", "carla-settings", "graphicsadapter", "stdout", "fullstdoutlogoutput", "allowstdoutlogverbosity",
        "unattended", "nullrhi", "log", "abslog", "carla-primary-host", "carla-primary-port", "notexturestreaming", "nosplash",
        "execcmds", "ros2", "carla-secondary-port", "samples", "quality", "traceusd",
    }
)  # fmt: skip
_PORTS: Final = frozenset({"carla-rpc-port", "carla-port", "carla-world-port"})
_STREAMING: Final = "carla-streaming-port"
_PORT: Final = 2000
# Options of samepath serve that have no value.
_FLAGS: Final = frozenset({"--draw-debug", "--journal-durable", "--resume", "--restart"})
_SCRIPT: Final = """#!/bin/sh
# Starts samepath where CARLA's server is expected: samepath carla --write
exec {command} carla "$@"
"""


def carla(
    context: typer.Context,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FOLDER", help="Leave a CarlaUE4.sh there that runs this command.")
    ] = None,
) -> None:
    """Start samepath serve from the arguments of CarlaUE4.sh: MAP -carla-rpc-port=2000 -RenderOffScreen ...

    Options of samepath serve may follow. What concerns windows, graphics and Unreal is read past.
    """
    if write is not None:
        print(f"samepath carla: wrote {write_script(write)}", file=sys.stderr)
        return
    words, past = serve_words(list(context.args))
    if past:
        print(f"samepath carla: read past {', '.join(past)}: they mean nothing here", file=sys.stderr)
    print(f"samepath carla: {shlex.join(['samepath', *words])}", file=sys.stderr, flush=True)
    # In place of this process: who starts a server ends it by the id it got.
    os.execv(sys.executable, [sys.executable, "-m", "samepath", *words])  # noqa: S606 - our own command


def serve_words(given: list[str]) -> tuple[list[str], list[str]]:
    """The words of ``samepath serve`` for those of CARLA's script, and what was read past."""
    port, streaming, map_name = _PORT, None, ""
    rest: list[str] = []
    past: list[str] = []
    words = list(given)
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            rest.append(word)
            # An option of samepath serve: its value is the next word, unless that is an argument itself.
            if "=" not in word and words and not words[0].startswith("-") and word not in _FLAGS:
                rest.append(words.pop(0))
            continue
        if not word.startswith("-"):
            if map_name:
                raise InputError(f"samepath carla: one map was wanted, but {map_name!r} and {word!r} came")
            map_name = word.split("?", 1)[0].rsplit("/", 1)[-1].removesuffix(".umap")
            continue
        name, _, value = word[1:].partition("=")
        key = name.lower()
        if key in _PORTS:
            port = _number(name, value)
        elif key == _STREAMING:
            streaming = _number(name, value)
        elif key in _READ_PAST:
            past.append(word)
        else:
            raise InputError(
                f"samepath carla: {word!r} is no argument of CARLA's script that samepath knows: leave it out, or give an "
                "option of samepath serve, which begin with --"
            )
    if streaming not in (None, 0, port + 1):
        raise InputError(f"-{_STREAMING}: {port + 1}, the port behind -carla-rpc-port, or 0 was wanted, but {streaming} came")
    found = ["serve", "--port", str(port)]
    if map_name:
        found += ["--map", map_name]
    elif not any(word == "--map" or word.startswith("--map=") for word in rest):
        found += ["--map", "town"]
    return [*found, *rest], past


def _number(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) > 65534:
        raise InputError(f"-{name}: a port of 0 to 65534 was wanted, such as -{name}={_PORT}, but {value[:40]!r} came")
    return int(value)


def write_script(folder: Path) -> Path:
    """Leave a CarlaUE4.sh in a folder; one that is not ours is not written over."""
    path = folder / "CarlaUE4.sh"
    text = _SCRIPT.format(command=shlex.join([sys.executable, "-m", "samepath"]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and "samepath carla" not in path.read_text(errors="replace"):
            raise InputError(f"{path}: a folder without a CarlaUE4.sh was wanted, but there is one that is not samepath's")
        path.write_text(text)
        path.chmod(0o755)
    except OSError as error:
        raise InputError(f"{path}: it cannot be written: {error.strerror}") from error
    return path


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("carla", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(carla)
