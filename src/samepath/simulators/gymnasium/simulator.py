"""The adapter of Gymnasium: an episode of any environment, or our scripts among highway-env's vehicles."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final

from samepath.base.errors import InputError, SimulatorError
from samepath.simulators.gymnasium.settings import SETTINGS, read_settings
from samepath.simulators.interface import RunRequest, Scalar, SimulatorInfo, check_request, last_tick, no_tick
from samepath.simulators.playing import GAME_LOOP, SYNCHRONOUS, EngineSimulator, PlaySettings, World
from samepath.simulators.scripts import Script
from samepath.traces.recorder import Recorder

EPISODE: Final = "episode"
_HIGHWAY: Final = "highway_env"
_HOW: Final = "pip install 'samepath[gymnasium]'"
_FINGERPRINT_SIZE: Final = 12


class Gymnasium(EngineSimulator):
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
        abilities = replace(info.capabilities, deterministic=read.seeded and read.deterministic)
        info = replace(info, scenarios=(EPISODE,), capabilities=abilities)
        if missing:
            return info
        from samepath.simulators.gymnasium.episode import shape_of

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

    def world(self, script: Script, settings: PlaySettings, values: Mapping[str, Scalar]) -> World:
        """Set up a script in highway-env."""
        from samepath.simulators.gymnasium.engine import HighwayWorld

        return HighwayWorld(script, settings)

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and import the engine."""
        if request.scenario != EPISODE:
            super().prepare(request)
        elif not self.unavailable(request.settings):
            module = read_settings({**self._defaults, **request.settings}).module
            import_module("samepath.simulators.gymnasium.episode")
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
        from samepath.simulators.gymnasium.episode import Episode

        Episode(read_settings(values), request.seed, recorder, last_tick(info, request)).play(on_tick)


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
