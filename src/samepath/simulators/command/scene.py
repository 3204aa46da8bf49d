"""Our scenario in the program's terms: words on its command line, and a file it may read the whole script from."""

from pathlib import Path

from samepath.simulators.command.settings import CommandSettings
from samepath.simulators.interface import RunRequest

SCRIPT_FILE = "script.json"
EVENTS_FILE = "events.txt"


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
        from samepath.simulators.scripts import read_script, to_json

        script = read_script(request.scenario)
        (scratch / SCRIPT_FILE).write_text(to_json(script), "utf-8")
        if request.duration_s is None:
            values["duration_s"] = repr(script.duration_s)
    return [word.format(**values) for word in settings.arguments]
