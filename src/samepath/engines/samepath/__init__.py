"""samepath's own simulator, known to the instrument only through the interface that all simulators share."""

from samepath.engines.samepath.simulator import Samepath

__all__ = ["Samepath"]
