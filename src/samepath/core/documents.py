"""YAML documents that people write by hand: read safely, checked by a model, and refused in one line that helps."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from samepath.core.errors import InputError, SamepathError, nearest

Model = TypeVar("Model", bound=BaseModel)
ModelAt = Callable[[list[str | int]], type[BaseModel]]
# What a person would call the types of a YAML file.
_PLAIN: Final = {
    "model_type": "keys with values were wanted",
    "dict_type": "keys with values were wanted",
    "list_type": "a list was wanted",
    "string_type": "text was wanted",
}


class _Loader(yaml.SafeLoader):
    """YAML, safely, and without a key that is there twice: the second would replace the first in silence."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value!r} is there twice", key.start_mark)
                seen.add(key.value)
        return node


def read_yaml(text: str, where: str, what: str, keys: Mapping[str, object]) -> dict[str, Any]:
    """Read a YAML mapping; ``what`` and ``keys`` tell the user what was wanted."""
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except RecursionError as error:
        raise InputError(f"{where}: not a {what}: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise InputError(f"{where}{line}: not valid YAML ({problem})") from error
    if not isinstance(data, dict):
        raise InputError(f"{where}: a {what} with the keys {', '.join(keys)} was wanted")
    return data


def validate(model: type[Model], data: Mapping[str, Any], where: str, model_at: ModelAt) -> Model:
    """Check plain data; ``model_at`` gives the model whose keys are valid at a place, for «did you mean»."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {_first_problem(error, model_at)}") from error
    except SamepathError as error:
        raise InputError(f"{where}: {error}") from error


def _first_problem(error: ValidationError, model_at: ModelAt) -> str:
    """Say the first thing that is wrong: where, what came, and the nearest valid choice."""
    problems: list[Mapping[str, Any]] = [*error.errors()]
    # A misspelt key is also a missing one: the first says what to do.
    problem = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    # Members of a union name themselves in the location, which means nothing to the reader.
    location = [part for part in problem["loc"] if part not in ("str", "float", "int", "bool", "dict")]
    place = _place(location).removesuffix(": ")
    if problem["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in model_at(location).model_fields.items()]
        hint = nearest(str(location[-1]), known)
        return f"unknown key {place!r}; " + (f"did you mean {hint!r}?" if hint else f"known keys: {', '.join(known)}")
    if problem["type"] == "invalid_key" or problem["loc"][-1:] == ("[key]",):
        owner = location[:-1] if problem["type"] == "invalid_key" else location[:-2]
        return f"{_place(owner)}a key in words was wanted, but {problem['input']!r} came"
    message = _PLAIN.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
    shown = problem["input"]
    silent = problem["type"] in ("missing", "value_error") or " came" in message
    came = "" if silent or (isinstance(shown, float) and math.isnan(shown)) else f", but {shown!r} came"
    return f"{_place(location)}{message}{came}"


def _place(location: Sequence[str | int]) -> str:
    """Write a place as the file has it: ``design.cells[1].name: ``."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    return f"{place}: " if place else ""
