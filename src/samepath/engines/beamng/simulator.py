"""The adapter of BeamNG.tech, written against the documented API of BeamNGpy. Not run against the program."""

from collections.abc import Mapping

from samepath.core.errors import SimulatorError
from samepath.engines.beamng.engine import SETTINGS, BeamNGSettings, read_settings
from samepath.engines.interface import Scalar
from samepath.engines.remote import RemoteSettings, RemoteSimulator, RemoteWorld, find_server
from samepath.scenarios.scripts import Script


class BeamNG(RemoteSimulator):
    """Soft-bodied cars of BeamNG.tech, which runs already or is started from its ``home``.

    Its documentation says of deterministic mode that it does not make every scenario deterministic, so no bits are promised.
    """

    name = "beamng"
    summary = "cars of BeamNG.tech, through beamngpy: promises nothing; not run against the real program"
    package = "beamngpy"
    oldest = (1, 36)
    own_settings = SETTINGS

    def read(self, values: Mapping[str, Scalar]) -> BeamNGSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def reachable(self, settings: RemoteSettings) -> str:
        """Does anybody listen, or can it be started?"""
        from samepath.engines.beamng.engine import HOW_TO, NAME, binary_of

        try:
            if isinstance(settings, BeamNGSettings) and settings.home:
                binary_of(settings.home)
            else:
                find_server(NAME, settings.host, settings.port, HOW_TO)
        except SimulatorError as error:
            return str(error)
        return ""

    def world(self, script: Script, settings: RemoteSettings) -> RemoteWorld:
        """Connect, and set up a script."""
        from samepath.engines.beamng.engine import BeamNGConnection, BeamNGWorld

        if not isinstance(settings, BeamNGSettings):
            raise TypeError(settings)
        return BeamNGWorld(BeamNGConnection(settings), script, settings)
