"""The adapter of Gymnasium: an episode of any environment, or our scripts among highway-env's vehicles."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final

from samepath.core.errors import InputError, SimulatorError
from samepath.engines.in_process import InProcessSettings, InProcessSimulator, InProcessWorld
from samepath.engines.interface import (
    GAME_LOOP,
    SYNCHRONOUS,
    RunRequest,
    Scalar,
    SimulatorInfo,
    check_request,
    choice,
    last_tick,
    no_tick,
    number,
    switch,
    whole,
)
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script

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

EPISODE: Final = "episode"
_HIGHWAY: Final = "highway_env"
_HOW: Final = "pip install 'samepath[gymnasium]'"
_FINGERPRINT_SIZE: Final = 12
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_READER: Final = re.compile(rf"({_MODULE.pattern}):([A-Za-z_]\w*)")
_PLACE: Final = re.compile(r"observation\[(\d{1,6})\]|(-?\d+(?:\.\d*)?)")


@dataclass(frozen=True)
class CoordinateSource:
    """Where a coordinate comes from: a number of the observation, or a constant."""

    index: int | None = None
    value: float = 0.0


@dataclass(frozen=True)
class EnvironmentSettings:
    """What a study may vary about an environment, checked: which it is, what is done in it, where positions come from.

    ``action`` and ``arguments`` are JSON; with a ``step_s`` of 0 the environment is asked.
    """

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
    x: CoordinateSource
    y: CoordinateSource

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


def _axis(values: Mapping[str, Scalar], name: str) -> CoordinateSource:
    match = _PLACE.fullmatch(str(values[name]).strip())
    if match is None:
        raise InputError(f"{name}: observation[0], observation[1], ... or a number was wanted, but {values[name]!r} came")
    index, value = match.groups()
    return CoordinateSource(value=float(value)) if index is None else CoordinateSource(index=int(index))


class Gymnasium(InProcessSimulator):
    """With the setting ``environment``, the scenario ``episode`` of it; without, our scripts in highway-env.

    An environment that is seeded promises bits, as Gymnasium asks of every one of them.
    """

    name = "gymnasium"
    summary = "Gymnasium: an episode of any environment, or our scripts among highway-env's vehicles"
    package = "gymnasium"
    oldest = (1, 0)
    modes = (SYNCHRONOUS, GAME_LOOP)
    channels = ("x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps")
    own_settings: ClassVar[Mapping[str, Scalar]] = {"substeps": 1, "max_steps": 4, **SETTINGS}

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it: an environment is made once to see what it is like."""
        info = super().described(settings)
        values = {**self._defaults, **settings}
        read = read_settings(values)
        modules = read.modules if read.environment else (_HIGHWAY,)
        missing = self.unavailable(settings)
        version = ", ".join((f"gymnasium {info.version}", *map(_version_of, modules)))
        info = replace(info, version="not installed" if missing else version)
        if not read.environment:
            return info
        if values["mode"] != SYNCHRONOUS:
            raise InputError("mode: an environment steps when it is told to: take synchronous")
        abilities = replace(info.capabilities, deterministic=read.seeded and read.deterministic, replays=False)
        info = replace(info, scenarios=(EPISODE,), capabilities=abilities)
        if missing:
            return info
        from samepath.engines.gymnasium.episode import shape_of

        shape = shape_of(replace(read, seeded=True, deterministic=True, episode_steps=1))
        return replace(info, channels=shape.channels, step_s=shape.step_s)

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say what to install where Gymnasium, or the module of an environment, is missing."""
        missing = super().unavailable(settings)
        if missing:
            return missing
        read = read_settings({**self._defaults, **settings})
        for name in read.modules if read.environment else (_HIGHWAY,):
            if not _is_there(name):
                how = _HOW if name.partition(".")[0] == _HIGHWAY else "install it, or put its folder on PYTHONPATH"
                return f"module {name} is not installed: {how}"
        return ""

    def world(self, script: Script, settings: InProcessSettings, values: Mapping[str, Scalar]) -> InProcessWorld:
        """Set up a script in highway-env."""
        from samepath.engines.gymnasium.engine import HighwayWorld

        return HighwayWorld(script, settings)

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and import the engine."""
        if request.scenario != EPISODE:
            super().prepare(request)
        elif not self.unavailable(request.settings):
            module = read_settings({**self._defaults, **request.settings}).module
            import_module("samepath.engines.gymnasium.episode")
            if module:
                import_module(module)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a script, or an episode in a fresh environment."""
        info = self.described({name: value for name, value in request.settings.items() if name in self._defaults})
        if request.scenario != EPISODE:
            super().run(request, recorder, on_tick)
            return
        values = check_request(info, request)
        missing = self.unavailable(values)
        if missing:
            raise SimulatorError(missing)
        from samepath.engines.gymnasium.episode import EnvironmentEpisode

        episode = EnvironmentEpisode(read_settings(values), request.seed, recorder, last_tick(info, request), request.inputs)
        episode.play(on_tick)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _version_of(module: str) -> str:
    """Return a module's name with the version of its package or, where it is in none, a digest of its file."""
    top = module.partition(".")[0]
    try:
        return f"{top} {metadata.version(top)}"
    except metadata.PackageNotFoundError:
        spec = find_spec(module) if _is_there(module) else None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return module
    return f"{module} {hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:_FINGERPRINT_SIZE]}"
