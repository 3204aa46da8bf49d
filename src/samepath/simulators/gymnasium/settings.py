"""What a study may vary about an environment: which it is, what is done in it, and where positions come from."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from samepath.base.errors import InputError
from samepath.simulators.interface import Scalar
from samepath.simulators.values import choice, number, switch, whole

# What is done in every step: nothing, always the same, or what a named stream of chance draws.
IDLE, CONSTANT, RANDOM = "idle", "constant", "random-stream"
ACTIONS: Final = (IDLE, CONSTANT, RANDOM)

SETTINGS: Final[Mapping[str, Scalar]] = {
    "environment": "",
    "module": "",
    "arguments": "",
    "actions": IDLE,
    "action": "",
    "seeded": True,
    "deterministic": True,
    "episode_steps": 1000,
    "step_s": 0.0,
    "reader": "",
    "x": "observation[0]",
    "y": "0",
}

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_READER: Final = re.compile(rf"({_MODULE.pattern}):([A-Za-z_]\w*)")
_PLACE: Final = re.compile(r"observation\[(\d{1,6})\]|(-?\d+(?:\.\d*)?)")


@dataclass(frozen=True)
class Axis:
    """Where a coordinate comes from: a number of the observation, or always the same."""

    index: int | None = None
    value: float = 0.0


@dataclass(frozen=True)
class EnvironmentSettings:
    """The same, checked. ``action`` and ``arguments`` are JSON; ``step_s`` 0: the environment is asked."""

    environment: str
    module: str
    arguments: str
    actions: str
    action: str
    seeded: bool
    deterministic: bool
    episode_steps: int
    step_s: float
    reader: str
    x: Axis
    y: Axis

    @property
    def keywords(self) -> dict[str, Any]:
        """What the environment is made with."""
        return _json("arguments", self.arguments, dict) if self.arguments else {}

    @property
    def action_value(self) -> Any:  # noqa: ANN401 - whatever an environment takes
        """What is done in every step where that is always the same."""
        return _json("action", self.action, object)

    @property
    def modules(self) -> tuple[str, ...]:
        """Which modules are the user's or another package's, besides Gymnasium."""
        names = (self.module, self.reader.partition(":")[0])
        return tuple(dict.fromkeys(name for name in names if name))


def read_settings(values: Mapping[str, Scalar]) -> EnvironmentSettings:
    """Check a study's plain values, each alone and then against each other."""
    actions = choice(values, "actions", ACTIONS)
    text = values["action"]
    if (actions == CONSTANT) == (text == ""):
        raise InputError(
            f"action: one is wanted with actions constant and only there, but actions {actions}, action {text!r} came"
        )
    read = EnvironmentSettings(
        environment=str(values["environment"]).strip(),
        module=_matched(values, "module", _MODULE, "a module to import, such as highway_env,"),
        arguments=str(values["arguments"]).strip(),
        actions=actions,
        action=text if isinstance(text, str) else json.dumps(text),
        seeded=switch(values, "seeded"),
        deterministic=switch(values, "deterministic"),
        episode_steps=whole(values, "episode_steps", 1, 10_000_000),
        step_s=number(values, "step_s", 0.0, 3600.0),
        reader=_matched(values, "reader", _READER, "module:function"),
        x=_axis(values, "x"),
        y=_axis(values, "y"),
    )
    _ = read.keywords, read.action_value if read.action else None  # refused now, not when a run begins
    return read


def _matched(values: Mapping[str, Scalar], name: str, form: re.Pattern[str], wanted: str) -> str:
    text = str(values[name]).strip()
    if text and not form.fullmatch(text):
        raise InputError(f"{name}: {wanted} was wanted, but {values[name]!r} came")
    return text


def _json(name: str, text: str, kind: type) -> Any:  # noqa: ANN401
    wanted = "a JSON object" if kind is dict else "JSON"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: {wanted} was wanted, but {text!r} came: {error}") from error
    if not isinstance(found, kind):
        raise InputError(f"{name}: {wanted} was wanted, but {text!r} came")
    return found


def _axis(values: Mapping[str, Scalar], name: str) -> Axis:
    match = _PLACE.fullmatch(str(values[name]).strip())
    if match is None:
        raise InputError(f"{name}: observation[0], observation[1], ... or a number was wanted, but {values[name]!r} came")
    index, value = match.groups()
    return Axis(value=float(value)) if index is None else Axis(index=int(index))
