"""Running the program once: started, heard or waited for, ended, and what it wrote recorded.

The scenario reaches it as words on its command line, and as a file that it may read the whole script from. No shell ever sees
the words. What it writes is either read line by line from its stdout while it runs, or from a file once it has ended.
"""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError, SimulatorError, printable
from samepath.engines.command.recording import CommandRecording, LineReader, items_of
from samepath.engines.command.simulator import STDOUT, CommandSettings
from samepath.engines.interface import RunRequest
from samepath.engines.subprocess import EngineProcess, ask, find_program
from samepath.instrument.traces.recorder import Recorder

SCRIPT_FILE = "script.json"
EVENTS_FILE = "events.txt"
_LONGEST_SHOWN = 80
_LONGEST_VERSION = 120


def output_of(settings: CommandSettings, scratch: Path) -> Path:
    """Return the file that a trace is to be written to."""
    return scratch / f"trace.{settings.trace}"


def arguments_of(settings: CommandSettings, request: RunRequest, scratch: Path) -> list[str]:
    """Return the program's arguments for one run; the script is written where it is asked for.

    No shell ever sees them: a value fills its place in one word, whatever characters it has.
    """
    whole = " ".join(settings.arguments)
    values = {
        "scenario": request.scenario,
        "seed": str(request.seed),
        "repeat": str(request.repeat),
        "step_s": repr(settings.step_s),
        "output": str(output_of(settings, scratch)),
        "events": str(scratch / EVENTS_FILE),
        "script": str(scratch / SCRIPT_FILE),
        "duration_s": repr(request.duration_s),
    }
    if "{script}" in whole or (request.duration_s is None and "{duration_s}" in whole):
        from samepath.scenarios.scripts import read_script, to_json

        script = read_script(request.scenario)
        (scratch / SCRIPT_FILE).write_text(to_json(script), "utf-8")
        if request.duration_s is None:
            values["duration_s"] = repr(script.duration_s)
    return [word.format(**values) for word in settings.arguments]


def program_of(settings: CommandSettings) -> str:
    """Return the program's full path, or say what is missing."""
    if not settings.program:
        raise SimulatorError("program: the program to run was wanted, such as program: python3, but none was given")
    folder = Path(settings.folder)
    if not folder.is_dir():
        raise SimulatorError(f"folder: {settings.folder} is not there: a folder to run {settings.name} in was wanted")
    return find_program(settings.program, settings.name, "install it, or give its path as the setting program", folder)


def version_of(settings: CommandSettings) -> str:
    """Return what the program says its version is, and a digest of its file and of all files named in its arguments."""
    program = program_of(settings)
    told = _told(settings.name, program, settings.version, settings.folder) if settings.version else ""
    files = [Path(program), *(Path(settings.folder) / word for word in settings.arguments if "{" not in word)]
    digests = [_digest(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()]
    return f"{told}{' ' if told else ''}[{blake2b(''.join(digests).encode(), digest_size=4).hexdigest()}]"


@cache
def _told(name: str, program: str, arguments: tuple[str, ...], folder: str) -> str:
    words = ask(name, [program, *arguments], folder=Path(folder))
    return printable(words)[:_LONGEST_VERSION]


@cache
def _digest(path: str, changed_ns: int, size: int) -> str:
    """Name a file's content; its time and size are asked for so that a change is noticed."""
    state = blake2b(digest_size=16)
    with Path(path).open("rb") as file:
        while data := file.read(1 << 20):
            state.update(data)
    return state.hexdigest()


def play(
    settings: CommandSettings,
    request: RunRequest,
    last_tick: int | None,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Run the program once. Whatever happens, nothing of it is left running, nor any file that it was given to write."""
    program = program_of(settings)
    scratch = Path(tempfile.mkdtemp(prefix="samepath-"))
    recording = CommandRecording(settings, recorder, on_tick, last_tick)
    try:
        with EngineProcess(
            settings.name,
            [program, *arguments_of(settings, request, scratch)],
            folder=Path(settings.folder),
            environment=settings.environment,
            talks=settings.trace == STDOUT,
            scratch=scratch,
        ) as process:
            if settings.trace == STDOUT:
                _listen(process, settings, recording)
            else:
                process.finish(settings.timeout_s)
                _read(settings, recording, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _listen(process: EngineProcess, settings: CommandSettings, recording: CommandRecording) -> None:
    process.end_of_input()
    lines = LineReader(settings.channels, settings.columns)
    until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
    too_long = f"took longer than {settings.timeout_s:g} s (timeout_s sets the limit)"
    number = 0
    while True:
        left_s = until_s - SYSTEM_CLOCK.monotonic_s()
        if left_s <= 0:
            raise process.trouble(too_long)
        # Of two limits the one that was passed is told: a program may be silent just when its time is up.
        line = process.line(left_s, too_long) if left_s < settings.silence_s else process.line(settings.silence_s)
        if line is None:
            break
        number += 1
        if recording.reason is not None and line.strip():
            raise process.trouble(f"wrote {_shown(line)} as line {number}, after the end of the run")
        try:
            item = lines.read(line)
            if item is not None and recording.add(item):
                process.close()
                recording.finish()
                return
        except SamepathError as error:
            raise process.trouble(f"wrote {_shown(line)} as line {number}: {error}") from error
    process.finish(settings.silence_s)
    _finish(settings, recording)


def _read(settings: CommandSettings, recording: CommandRecording, scratch: Path) -> None:
    try:
        for item in items_of(settings, output_of(settings, scratch), scratch / EVENTS_FILE):
            if recording.add(item):
                break
    except SamepathError as error:
        raise SimulatorError(f"{settings.name}: {error}") from error
    _finish(settings, recording)


def _finish(settings: CommandSettings, recording: CommandRecording) -> None:
    if settings.end_is_told and recording.reason is None:
        where = "before the first tick" if recording.tick is None else f"after tick {recording.tick}"
        raise SimulatorError(
            f"{settings.name} stopped {where} without saying that the run was over: a line #end,REASON was wanted"
        )
    try:
        recording.finish()
    except SamepathError as error:
        raise SimulatorError(f"{settings.name}: {error}") from error


def _shown(line: bytes) -> str:
    text = printable(line.decode("utf-8", "replace"))
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "...")
