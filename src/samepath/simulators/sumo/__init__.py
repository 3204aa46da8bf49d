"""SUMO through libsumo: vehicles on lanes, in this process."""

from samepath.simulators.sumo.simulator import Sumo

__all__ = ["Sumo"]
