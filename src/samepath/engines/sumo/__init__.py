"""SUMO through libsumo: vehicles on lanes, in this process."""

from samepath.engines.sumo.simulator import Sumo

__all__ = ["Sumo"]
