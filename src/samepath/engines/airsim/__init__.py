"""AirSim and Cosys-AirSim, through the published client. Written from their documentation; not run against the programs."""

from samepath.engines.airsim.simulator import AirSim

__all__ = ["AirSim"]
