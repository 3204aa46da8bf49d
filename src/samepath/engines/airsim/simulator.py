"""The adapter of AirSim, written against the documented API of the client ``cosysairsim``. Not run against the program."""

from collections.abc import Mapping

from samepath.core.errors import SimulatorError
from samepath.engines.airsim.engine import SETTINGS, AirSimSettings, read_settings
from samepath.engines.interface import Scalar
from samepath.engines.remote import RemoteSettings, RemoteSimulator, RemoteWorld, find_server
from samepath.scenarios.scripts import Script


class AirSim(RemoteSimulator):
    """Cars of AirSim 1.8 or Cosys-AirSim, which the user has started in car mode."""

    name = "airsim"
    summary = "cars of AirSim or Cosys-AirSim, through cosysairsim: promises nothing; not run against the real program"
    package = "cosysairsim"
    oldest = (3, 0)
    own_settings = SETTINGS

    def read(self, values: Mapping[str, Scalar]) -> AirSimSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def reachable(self, settings: RemoteSettings) -> str:
        """Does anybody listen?"""
        from samepath.engines.airsim.engine import HOW_TO

        try:
            find_server("AirSim", settings.host, settings.port, HOW_TO)
        except SimulatorError as error:
            return str(error)
        return ""

    def world(self, script: Script, settings: RemoteSettings) -> RemoteWorld:
        """Connect, and set up a script."""
        from samepath.engines.airsim.engine import AirSimConnection, AirSimWorld

        if not isinstance(settings, AirSimSettings):
            raise TypeError(settings)
        return AirSimWorld(AirSimConnection(settings), script, settings)
