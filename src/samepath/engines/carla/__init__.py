"""Any CARLA 0.9.x server, driven through CARLA's own Python client."""

from samepath.engines.carla.simulator import Carla

__all__ = ["Carla"]
