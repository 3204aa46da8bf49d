"""The connection to a CARLA server: found, of the right version, set, loaded, and left as it was."""

import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from samepath.base.errors import SimulatorError
from samepath.base.suggest import unknown
from samepath.simulators.carla.settings import CURRENT_MAP, OPENDRIVE_MAP, SCENARIO_MAP, CarlaSettings

# How long a server may take for each of the last calls, when what is to be measured is over.
_LAST_CALLS_S: Final = 5.0
_FIND_S: Final = 5.0


def import_client() -> Any:  # noqa: ANN401 - the client has no types to speak of
    """Import CARLA's client; only here, because it is an extra, and because it must not be there when a process forks."""
    try:
        import carla
    except ImportError as error:
        raise SimulatorError(f"CARLA's Python client is not there ({error}): pip install 'samepath[carla]'") from error
    return carla


def find_client() -> None:
    """Is the client installed? It is not imported, see above."""
    if sys.modules.get("carla", ...) is None or find_spec("carla") is None:
        raise SimulatorError("CARLA's Python client is not installed: pip install 'samepath[carla]'")


def find_server(settings: CarlaSettings) -> None:
    """Does anybody answer? Nobody there is known at once; the client itself would wait for its whole time-out."""
    try:
        socket.create_connection((settings.host, settings.port), timeout=min(settings.timeout_s, _FIND_S)).close()
    except OSError as error:
        raise SimulatorError(
            f"no CARLA server answers at {settings.address} ({error.strerror or error}): "
            "start one, or give host and port in the settings"
        ) from error


class Link:
    """A client and what it found. Whatever CARLA raises in here comes out as one line of ours."""

    def __init__(self, carla: Any, settings: CarlaSettings) -> None:  # noqa: ANN401
        self.carla = carla
        self.settings = settings
        self.world: Any = None
        self._found: Any = None
        self._is_lost = False
        with self.asking("at the start"):
            find_server(settings)
            self.client = carla.Client(settings.host, settings.port)
            self.client.set_timeout(settings.timeout_s)
            self._check_version()

    @contextmanager
    def asking(self, when: str) -> Iterator[None]:
        """Turn the client's errors into ours; ``when`` says what was going on."""
        try:
            yield
        except RuntimeError as error:
            raise self._told(when, error) from error

    def _told(self, when: str, error: RuntimeError) -> SimulatorError:
        words = " ".join(str(error).split())
        if "time-out" in words:
            self._is_lost = True
            return SimulatorError(
                f"the CARLA server at {self.settings.address} gave no answer {when} within {self.settings.timeout_s:g} s: "
                "is it still running? timeout_s sets the limit"
            )
        return SimulatorError(f"the CARLA server at {self.settings.address} failed {when}: {words}")

    def _check_version(self) -> None:
        ours, theirs = self.client.get_client_version(), self.client.get_server_version()
        if ours != theirs and not self.settings.any_version:
            raise SimulatorError(
                f"the client is of CARLA {ours}, the server at {self.settings.address} of {theirs}; such a pair can crash: "
                f"install carla=={theirs}, or give any_version: true"
            )

    def load(self, scenario_map: str) -> Any:  # noqa: ANN401
        """Set the time, then load the world, as CARLA asks for."""
        with self.asking("while the world was loaded"):
            self.world = self.client.get_world()
            self._found = self.world.get_settings()
            self._set_time()
            self.world = self._loaded(scenario_map)
            self._check_time()
        return self.world

    def _set_time(self) -> None:
        wanted, new = self.settings, self.world.get_settings()
        new.synchronous_mode = wanted.synchronous
        new.fixed_delta_seconds = wanted.fixed_delta_s or None
        new.no_rendering_mode = wanted.no_rendering
        new.substepping = wanted.substeps > 0
        if wanted.substeps:
            new.max_substeps = wanted.substeps
            new.max_substep_delta_time = wanted.max_substep_s
        new.deterministic_ragdolls = wanted.deterministic_ragdolls
        self.world.apply_settings(new)

    def _check_time(self) -> None:
        """What was asked for is read back: a server may do something else."""
        wanted, there = self.settings, self.world.get_settings()
        pairs = [
            ("synchronous", wanted.synchronous, there.synchronous_mode),
            ("fixed_delta_s", wanted.fixed_delta_s, there.fixed_delta_seconds or 0.0),
            ("no_rendering", wanted.no_rendering, there.no_rendering_mode),
            ("substeps", wanted.substeps, there.max_substeps if there.substepping else 0),
        ]
        for name, asked, found in pairs:
            if abs(asked - found) > 1e-9:
                raise SimulatorError(f"the CARLA server at {wanted.address} was asked for {name} {asked}, but has {found}")

    def _loaded(self, scenario_map: str) -> Any:  # noqa: ANN401
        wanted = self.settings.map
        if wanted == CURRENT_MAP:
            return self.client.reload_world(False) if self._reloads else self.world
        if wanted == OPENDRIVE_MAP:
            return self._generated(scenario_map)
        names = [path.rsplit("/", 1)[-1] for path in self.client.get_available_maps()]
        if wanted == SCENARIO_MAP:
            if scenario_map not in names:
                return self._generated(scenario_map)
            wanted = scenario_map
        if wanted not in names:
            raise unknown("map of the server", wanted, names)
        if not self._reloads and self.world.get_map().name.rsplit("/", 1)[-1] == wanted:
            return self.world
        return self.client.load_world(wanted, False)

    @property
    def _reloads(self) -> bool:
        return self.settings.reload == "world"

    def _generated(self, name: str) -> Any:  # noqa: ANN401
        """Let the server build its world from one of our road networks."""
        from samepath.sim.maps import available_maps, load_map

        if name not in available_maps():
            raise SimulatorError(
                f"the scenario's map {name!r} is none that a CARLA server can build: give map: current, or a map of the server"
            )
        text = load_map(name).xodr
        if not self._reloads and self.world.get_map().to_opendrive() == text:
            return self.world
        return self.client.generate_opendrive_world(text, self.carla.OpendriveGenerationParameters(), False)

    def tidy(self, calls: Iterable[Callable[[], object]]) -> None:
        """Make the last calls, up to the first that fails: a server that is gone is not asked again and again."""
        if self._is_lost:
            return
        try:
            self.client.set_timeout(min(self.settings.timeout_s, _LAST_CALLS_S))
            for call in calls:
                call()
        except RuntimeError:
            self._is_lost = True

    def close(self) -> None:
        """Give the server back the settings it was found with."""
        if self._found is not None:
            self.tidy([lambda: self.world.apply_settings(self._found)])
        self._found = None
