"""The JSON Schema of study files, for editors: made from the models that check them."""

import json
from typing import Any, Final

from samepath.study.spec import StudySpec, conditions_schema

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
        return [_tidied(one) for one in node]
    if not isinstance(node, dict):
        return node
    for name, (_, part) in _SHARED.items():
        if part.items() <= node.items():
            return {"$ref": f"#/$defs/{name}", **{key: value for key, value in node.items() if key not in part}}
    return {key: _tidied(value) for key, value in node.items() if key != "title" or not isinstance(value, str)}
