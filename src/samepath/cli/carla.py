"""``samepath carla``: the arguments of CARLA's own start script, for tools that start the server themselves.

Unreal looks each of its arguments up in the whole command line: in any order, in either case, with one dash or two, and with
spaces after the equals sign. It ignores an argument that it does not look up. So does this command, with a line for each.
"""

import configparser
import difflib
import os
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from samepath.core.errors import InputError

# In CARLA's order: where several are given, the first of these names counts.
_PORTS: Final = ("world-port", "carla-port", "carla-rpc-port", "carla-world-port")
_STREAMING: Final = "carla-streaming-port"
_SETTINGS: Final = "carla-settings"
_SETTINGS_SECTION: Final = "CARLA/Server"
# Arguments whose value some tools write as the next word. Unreal ignores a word like that, so it must not become the map.
_WITH_VALUE: Final = frozenset(
    {
        "abslog", "carla-primary-host", "carla-primary-port", "carla-secondary-port", "execcmds", "fps", "graphicsadapter",
        "quality", "quality-level", "resx", "resy", "rpcthreads", "samples", "secondarythreads", "streamingthreads",
    }
)  # fmt: skip
# Arguments that CARLA's documentation and tools write with two dashes as well; these are never misspelt options of serve.
_UNREAL: Final = _WITH_VALUE | {
    "allowstdoutlogverbosity", "benchmark", "carla-no-hud", "carla-server", "dx11", "dx12", "fullscreen",
    "fullstdoutlogoutput", "log", "no-rendering", "nosound", "nosplash", "notexturestreaming", "nullrhi", "opengl", "opengl3",
    "opengl4", "preferamd", "preferintel", "prefernvidia", "renderoffscreen", "ros2", "stdout", "traceusd", "unattended",
    "vulkan", "windowed",
}  # fmt: skip
_REASONS: Final = {
    "carla-primary-host": "to spread sensors over machines, use samepath cluster",
    "carla-primary-port": "to spread sensors over machines, use samepath cluster",
    "ros2": "samepath has no ROS 2 node",
    "no-rendering": "a client sets no_rendering_mode",
}
_PORT: Final = 2000
_PORT_MAX: Final = 65534  # the streams take the next port
_MISSPELT: Final = 0.8  # how alike (0 to 1) an unknown option and one of samepath serve are
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

    Options of samepath serve may follow. Arguments about windows, graphics and Unreal are ignored, with a line for each.
    """
    if write is not None:
        print(f"samepath carla: wrote {write_script(write)}", file=sys.stderr)
        return
    words, ignored = serve_words(list(context.args))
    for line in ignored:
        print(f"samepath carla: {line}", file=sys.stderr)
    print(f"samepath carla: {shlex.join(['samepath', *words])}", file=sys.stderr, flush=True)
    # In place of this process: who starts a server ends it by the id it got.
    os.execv(sys.executable, [sys.executable, "-m", "samepath", *words])  # noqa: S606 - our own command


class _Arguments(NamedTuple):
    """A command line of CARLA, sorted by who reads it."""

    carla: dict[str, str]
    """Values of the arguments that count here, by name. Of one given twice the first counts, as in Unreal."""
    map_name: str
    serve: list[str]
    ignored: list[str]


def serve_words(given: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of ``samepath serve`` for those of CARLA's script, and a line for each word that is ignored."""
    found = _sort(given)
    port, streaming = _settings_ports(found)
    name = next((name for name in _PORTS if name in found.carla), None)
    if name is not None:
        port, streaming = _number(name, found.carla[name]), None
    if _STREAMING in found.carla:
        streaming = _number(_STREAMING, found.carla[_STREAMING])
    words = ["serve", "--port", str(port)]
    # A streaming port of 0 is any port in CARLA; the next one is as good.
    if streaming not in (None, 0, port + 1):
        words += ["--stream-port", str(streaming)]
    if found.map_name:
        words += ["--map", found.map_name]
    elif not any(word == "--map" or word.startswith("--map=") for word in found.serve):
        words += ["--map", "town"]
    return [*words, *found.serve], found.ignored


def _sort(given: list[str]) -> _Arguments:
    found, map_name = _Arguments({}, "", [], []), ""
    words, options = list(given), _serve_options()
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if map_name or word.isdigit():
                found.ignored.append(f"ignored {word!r}: CARLA reads one map, and nothing else without a dash")
            else:
                map_name = word.split("?", 1)[0].rsplit("/", 1)[-1].removesuffix(".umap")
            continue
        option, equals, value = word.partition("=")
        name = option.lstrip("-").lower()
        counts = name in _PORTS or name in (_STREAMING, _SETTINGS)
        if option.startswith("--") and not counts and name not in _UNREAL:
            if option in options:
                found.serve.append(word)
                if options[option] and not equals and words and not words[0].startswith("-"):
                    found.serve.append(words.pop(0))
                continue
            if difflib.get_close_matches(option, options, n=1, cutoff=_MISSPELT):
                found.serve.append(word)  # serve refuses it and names the option that was meant
                continue
        if not value and (equals or counts or name in _WITH_VALUE) and words and not words[0].startswith("-"):
            value = words.pop(0)
            word = f"{word} {value}"
        if counts:
            found.carla.setdefault(name, value)
        else:
            found.ignored.append(f"ignored {word!r}: {_REASONS.get(name, 'it has no meaning for samepath')}")
    return found._replace(map_name=map_name)


@cache
def _serve_options() -> dict[str, bool]:
    """The options of ``samepath serve``, and whether each takes a value."""
    from samepath.cli.app import load_verb

    return {name: not getattr(option, "is_flag", False) for option in load_verb("serve").params for name in option.opts} | {
        "--help": False
    }


def _settings_ports(found: _Arguments) -> tuple[int, int | None]:
    """The ports in the file of ``-carla-settings``; CARLA goes on without a file that is not there."""
    path = found.carla.get(_SETTINGS)
    if path is None:
        return _PORT, None
    settings = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        settings.read_string(Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        found.ignored.append(f"ignored -{_SETTINGS}={path}: {error.strerror or error}")
    except configparser.Error as error:
        raise InputError(f"-{_SETTINGS}={path}: expected an .ini file, got {str(error).splitlines()[0]}") from error
    server = settings[_SETTINGS_SECTION] if settings.has_section(_SETTINGS_SECTION) else {}
    port = next((_number(key, server[key]) for key in ("RPCPort", "WorldPort") if server.get(key)), _PORT)
    streaming = server.get("StreamingPort")
    return port, _number("StreamingPort", streaming) if streaming else None


def _number(name: str, value: str) -> int:
    value = value.strip()
    if not value.isascii() or not value.isdigit() or int(value) > _PORT_MAX:
        raise InputError(f"-{name}: expected a port of 0 to {_PORT_MAX}, such as -{name}={_PORT}, got {value[:40]!r}")
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
