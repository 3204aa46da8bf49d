"""What ``samepath new`` writes: a commented study that runs as it is, and the JSON Schema that lets editors check it.

The study shows all that can be said in the five stages; the schema is made from the very models that read study files.
"""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from samepath.core.errors import InputError
from samepath.core.files import write_text_atomically
from samepath.instrument.study.levels import CONDITIONS, TOGETHER
from samepath.instrument.study.plan import make_plan
from samepath.instrument.study.spec import StudySpec, conditions_schema

FILE_NAME: Final = "samepath-study.schema.json"
TITLE: Final = "samepath study"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SHARED: Final = {
    "Condition": ("Conditions of one cell, a level each.", conditions_schema(lists=False)),
    "Conditions": ("Conditions of the host, a level or a list of levels each.", conditions_schema(lists=True)),
}


def study_schema() -> dict[str, Any]:
    """Return the schema as plain data."""
    schema = _tidied(StudySpec.model_json_schema())
    shared = {name: {"description": words, **part} for name, (words, part) in _SHARED.items()}
    schema["$defs"] = dict(sorted({**schema["$defs"], **shared}.items()))
    return {"$schema": _DIALECT, **schema, "title": TITLE, "description": "What to ask of a driving simulator, in five stages."}


def study_schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(study_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidied(node: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    """Leave out titles that repeat a key's name, and refer to the long parts that are used in several places."""
    if isinstance(node, list):
        return [_tidied(part) for part in node]
    if not isinstance(node, dict):
        return node
    for name, (_, part) in _SHARED.items():
        if part.items() <= node.items():
            return {"$ref": f"#/$defs/{name}", **{key: value for key, value in node.items() if key not in part}}
    return {key: _tidied(value) for key, value in node.items() if key != "title" or not isinstance(value, str)}


_TEXT = """\
# yaml-language-server: $schema={schema}
# A study in five stages. It runs as it is; change what you need. A line with # in front is an example of what else there is.
name: {name}
description: Two vehicles collide at a junction, in lockstep and in a game loop, on an idle and on a busy machine

design:                             # 1. what is asked
  simulators:                       # a name, or a list; see `samepath simulators`
    - {{simulator: samepath, as: lockstep, expect: bit-identical}}
    - {{simulator: samepath-game-loop, as: game loop, settings: {{mode: real-time}}}}
  scenarios: [table1-test2]         # each is run on each of the simulators
  tolerance: 1 cm                   # permissible variance
  repeats: 5                        # of every cell; 0 of 5 different says little, 0 of 1000 bounds the rate at 0.3 %
  log_every: 2                      # keep every second tick of the simulator: 0.1 s
  seed: 1                           # equal in all repeats; the order of the cells is drawn from it too
  # duration: 20 s                  # longest simulated time, if not the scenario's own
  # combination: full-factorial     # or one-at-a-time, fractional-factorial (with resolution: 3, 4 or 5), plackett-burman
  # cells:                          # single cells, besides the above or instead
  #   - {{simulator: samepath, scenario: table1-test4, name: a pedestrian is hit, condition: {{cpu_load: 95%}}}}

settings:                           # 2. of the simulator: one value is held equal, a list makes it a factor
  substeps: 5
  # solver_iterations: [4, 8]

conditions:                         # 3. of the host: set, held and measured; a list makes it a factor
  cpu_load: [0, 75%]                # with the GPU's as one factor: cpu_and_gpu_load: [0, 75%]
{conditions}

execution:                          # 4. how it is run
  order: split-plot                 # each load is set once; random: shuffled; listed: as written here
  # isolation: process              # one process each; batch: several in one; cold: one interpreter each; inline: in samepath
  # blocks: 2                       # go through all cells twice, with half of the repeats each time
  # processes: 1                    # repeats at once; more disturb each other
  # watchdog: 60 s                  # end a repeat that takes longer
  # settle: 6 s                     # how long a load may take to come near its level before repeats begin
  # load_tool: auto                 # stress-ng if it is installed, else samepath

analysis:                           # 5. how it is judged
  criterion: deviation              # no repeat strays farther than the tolerance; sigma: max sigma alone, as in the paper
  restrict: [cpu_load<=0.75, phase=before]      # what Table I's restricted column covers
  # split_at: collision             # or another event, tick=120, t=6s
  # structure: fail                 # report: unequal lengths or collisions alone do not fail a cell
  # confidence: 0.95
  # limits: {{speed: 0.1 m/s, walkers position: 5 cm, sensors: same}}      # of other quantities than positions
  # monitors: ["ttc(ego, others) > 1.5"]        # assertions that each repeat is judged by (docs/monitors.md)

full:                               # what `samepath study FILE --full` replaces
  design: {{repeats: 1000}}
"""


def write_starter(file: Path) -> Path:
    """Write a study that runs as it is, and the schema beside it; return the schema's place. Nothing is overwritten."""
    if file.suffix not in (".yaml", ".yml"):
        raise InputError(f"a file that ends in .yaml was wanted, but {file} came")
    text = starter_text(file.stem)
    try:
        make_plan(text, str(file))
    except InputError as error:
        raise InputError(
            f"{file.stem!r} cannot be the name of a study: choose a shorter one of letters, digits and -"
        ) from error
    beside = file.parent / FILE_NAME
    _check_free(file)
    if not _may_replace(beside):
        raise InputError(f"{beside} is there already and is no schema of samepath's: move it away first")
    write_text_atomically(beside, study_schema_text())
    write_text_atomically(file, text)
    return beside


def write_schema(file: Path) -> None:
    """Write only the schema, to a file that is not there yet."""
    _check_free(file)
    write_text_atomically(file, study_schema_text())


def _check_free(file: Path) -> None:
    try:
        if not file.parent.is_dir():
            raise InputError(f"{file.parent} is not a folder: make it first, or name another")
        if file.exists() or file.is_symlink():
            raise InputError(f"{file} is there already and is left as it is: choose another name")
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def _may_replace(schema: Path) -> bool:
    """Is it not there, or an older schema of ours?"""
    try:
        return not schema.exists() or json.loads(schema.read_text("utf-8"))["title"] == TITLE
    except (OSError, ValueError, TypeError, KeyError):
        return False


def starter_text(name: str) -> str:
    """Return the starter for a study called ``name``."""
    others = [condition for condition in CONDITIONS.values() if condition.name not in ("cpu_load", TOGETHER, "isolation")]
    lines = [f"  # {f'{condition.name}: {condition.example}':<32}# {condition.meaning}" for condition in others]
    return _TEXT.format(schema=FILE_NAME, name=_scalar(name), conditions="\n".join(lines))


def _scalar(name: str) -> str:
    """Write a name so that YAML reads it back as one: 1, true or a: b need quotes."""
    try:
        plain = yaml.safe_load(f"name: {name}") == {"name": name}
    except (yaml.YAMLError, ValueError):
        plain = False
    return name if plain else json.dumps(name, ensure_ascii=False)
