"""YAML documents that people write by hand: read safely, checked by a model, and refused in one line that helps."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from samepath.base.errors import InputError, SamepathError
from samepath.base.suggest import nearest

Model = TypeVar("Model", bound=BaseModel)
ModelAt = Callable[[list[str | int]], type[BaseModel]]


def read_yaml(text: str, where: str, what: str, keys: Mapping[str, object]) -> dict[str, Any]:
    """Read a YAML mapping; ``what`` and ``keys`` tell the user what was wanted."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"{where}{line}: not valid YAML ({getattr(error, 'problem', None) or error})") from error
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
    problem: Mapping[str, Any] = error.errors()[0]
    # Members of a union name themselves in the location, which means nothing to the reader.
    location = [part for part in problem["loc"] if part not in ("str", "float", "int", "bool")]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    if problem["type"] == "extra_forbidden":
        known = model_at(location).model_fields
        hint = nearest(str(location[-1]), known)
        return f"unknown key {place!r}; " + (f"did you mean {hint!r}?" if hint else f"known keys: {', '.join(known)}")
    message = problem["msg"].removeprefix("Value error, ")
    shown = problem["input"]
    silent = problem["type"] in ("missing", "value_error") or " came" in message
    came = "" if silent or (isinstance(shown, float) and math.isnan(shown)) else f", but {shown!r} came"
    return f"{place}: {message}{came}" if place else message
