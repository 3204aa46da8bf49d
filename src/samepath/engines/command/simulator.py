"""The adapter of any program: what a study says about it, and one run of it."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Final

from samepath.core.channels import POSITION, check_channels
from samepath.core.errors import InputError, SamepathError, SimulatorError, unknown
from samepath.engines.interface import (
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_request,
    choice,
    last_tick,
    no_tick,
    number,
    switch,
)
from samepath.engines.resampling import RESAMPLING
from samepath.instrument.traces.recorder import Recorder

# Where a trace is written: stdout, line by line, or a file.
STDOUT: Final = "stdout"
TRACES: Final = (STDOUT, "csv", "parquet")
# How a run ends: its last line says so, or the program ends with exit code 0.
TOLD: Final = "told"
ENDS: Final = ("auto", TOLD, "exit")
PLACEHOLDERS: Final = ("scenario", "script", "seed", "repeat", "duration_s", "step_s", "output", "events")

SETTINGS: Final[Mapping[str, Scalar]] = {
    "program": "",
    "arguments": "",
    "folder": ".",
    "environment": "",
    "version": "--version",
    "scenarios": "",
    "trace": STDOUT,
    "columns": "",
    "channels": ", ".join(POSITION),
    "step_s": 0.05,
    "resample": False,
    "end": "auto",
    "lossless": False,
    "deterministic": False,
    "silence_s": 20.0,
    "timeout_s": 600.0,
}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class CommandSettings:
    """What a study says about a program, checked: how it is called, what it writes, and how long it may take.

    ``scenarios`` is empty where those of samepath are meant, ``version`` where it is not asked for.
    """

    program: str
    arguments: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    version: tuple[str, ...]
    scenarios: tuple[str, ...]
    trace: str
    columns: Mapping[str, str]
    channels: tuple[str, ...]
    step_s: float
    resample: bool
    end_is_told: bool
    lossless: bool
    deterministic: bool
    silence_s: float
    timeout_s: float

    @property
    def name(self) -> str:
        """What messages call the program."""
        return os.path.basename(self.program) or "command"  # noqa: PTH119 - a word, not a place

    @property
    def recorded(self) -> tuple[str, ...]:
        """The channels of the trace."""
        return (*self.channels, RESAMPLING) if self.resample else self.channels


class CommandSimulator(Simulator):
    """A program of anybody's, described by settings; ``defaults`` replace those of the settings.

    What it promises is what the settings say. Runs end at a duration, because rows after it are not taken.
    """

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; no program is needed."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe the program that the settings name."""
        from samepath.engines.command.engine import version_of

        read = self._read(settings)
        try:
            version = version_of(read) if read.program else "no program"
        except SamepathError:
            version = "not installed"
        return self._info(read, version)

    def _info(self, read: CommandSettings, version: str) -> SimulatorInfo:
        return SimulatorInfo(
            name="command",
            version=version,
            summary="any program that takes a scenario and writes a trace, to stdout or into a file",
            scenarios=read.scenarios or _our_scenarios(),
            step_s=read.step_s,
            channels=read.recorded,
            capabilities=Capabilities(read.deterministic, read.lossless and not read.resample, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Is the program there, and does it tell its version?"""
        from samepath.engines.command.engine import version_of

        try:
            version_of(self._read(settings))
        except SimulatorError as error:
            return str(error)
        return ""

    def prepare(self, request: RunRequest) -> None:
        """Ask for the version once, for all runs."""
        self.described(request.settings)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        from samepath.engines.command.engine import play

        read = self._read(request.settings)
        info = self._info(read, "not asked for")
        is_file = request.scenario not in info.scenarios and Path(request.scenario).is_file()
        check_request(info, replace(request, scenario=info.scenarios[0]) if is_file else request)
        play(read, request, last_tick(info, request), recorder, on_tick)

    def _read(self, settings: Mapping[str, Scalar]) -> CommandSettings:
        # What is not known is refused where a run is asked for, by its name.
        return read_settings({**self._defaults, **{name: settings[name] for name in settings if name in self._defaults}})


def _our_scenarios() -> tuple[str, ...]:
    from samepath.scenarios.scripts import script_names  # which loads more than a program with its own scenarios needs

    return script_names()


def read_settings(values: Mapping[str, Scalar]) -> CommandSettings:
    """Check a study's plain values, each alone and then against each other."""
    arguments = _words(values, "arguments")
    for word in arguments:
        _check_placeholders(word)
    trace = choice(values, "trace", TRACES)
    end = choice(values, "end", ENDS)
    read = CommandSettings(
        program=_text(values, "program"),
        arguments=arguments,
        folder=_text(values, "folder") or ".",
        environment=_environment(_words(values, "environment")),
        version=_words(values, "version"),
        scenarios=_list(_text(values, "scenarios")),
        trace=trace,
        columns=_columns(_text(values, "columns")),
        channels=_channels(values),
        step_s=number(values, "step_s", 1e-6, 10.0),
        resample=switch(values, "resample"),
        end_is_told=end == TOLD or (end == "auto" and trace == STDOUT),
        lossless=switch(values, "lossless"),
        deterministic=switch(values, "deterministic"),
        silence_s=number(values, "silence_s", 0.01, 86_400.0),
        timeout_s=number(values, "timeout_s", 0.01, 86_400.0),
    )
    _check_together(read)
    return read


def _check_together(read: CommandSettings) -> None:
    used = {name for word in read.arguments for name in _placeholders(word)}
    if read.program and read.trace != STDOUT and "output" not in used:
        raise InputError(f"arguments: {{output}}, the file to write, was wanted somewhere, because trace is {read.trace}")
    if read.trace == STDOUT and used & {"output", "events"}:
        raise InputError("arguments: {output} and {events} are files, but trace is stdout: choose trace: csv or parquet")
    if read.trace == "parquet" and read.end_is_told and "events" not in used:
        raise InputError("end: a Parquet file cannot tell of the end: give end: exit, or {events} among the arguments")


def _placeholders(word: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(word) if name is not None]


def _check_placeholders(word: str) -> None:
    try:
        parts = list(Formatter().parse(word))
    except ValueError as error:
        raise InputError(f"arguments: {word!r}: {error}: write {{{{ and }}}} for braces of the program's own") from error
    for _, name, form, conversion in parts:
        if name is not None and name not in PLACEHOLDERS:
            raise InputError(f"arguments: {unknown('placeholder', name, PLACEHOLDERS)}")
        if form or conversion:
            raise InputError(f"arguments: {word!r}: a placeholder is a name in braces and nothing else")


def _text(values: Mapping[str, Scalar], name: str) -> str:
    value = values[name]
    if not isinstance(value, str):
        raise InputError(f"{name}: text was wanted, but {value!r} came: put it between quotes")
    if "\0" in value:
        raise InputError(f"{name}: text without a zero byte was wanted")
    return value.strip()


def _words(values: Mapping[str, Scalar], name: str) -> tuple[str, ...]:
    """Split a command line into words as a shell would, and do nothing else that a shell does."""
    try:
        return tuple(shlex.split(_text(values, name)))
    except ValueError as error:
        raise InputError(
            f"{name}: words, between quotes where they have blanks, were wanted, but {values[name]!r} came"
        ) from error


def _list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _pairs(parts: Iterable[str], name: str, example: str) -> dict[str, str]:
    found = {}
    for part in parts:
        left, equals, right = part.partition("=")
        if not (left.strip() and equals):
            raise InputError(f"{name}: pairs such as {example} were wanted, but {part!r} came")
        found[left.strip()] = right.strip()
    return found


def _environment(words: tuple[str, ...]) -> dict[str, str]:
    found = _pairs(words, "environment", "OMP_NUM_THREADS=1 DISPLAY=:0")
    for name in found:
        if not _VARIABLE.fullmatch(name):
            raise InputError(f"environment: the name of a variable was wanted, but {name!r} came")
    return found


def _columns(text: str) -> dict[str, str]:
    found = _pairs(_list(text), "columns", "x_m=east[cm], y_m=north[cm]")
    for name, column in found.items():
        if not column:
            raise InputError(f"columns: a column for {name} was wanted")
    return found


def _channels(values: Mapping[str, Scalar]) -> tuple[str, ...]:
    try:
        return check_channels(_list(_text(values, "channels")))
    except InputError as error:
        raise InputError(f"channels: {error}") from error
