"""MetaDrive, in an environment of its own: vehicles of its engine, synchronous or in a game loop."""

from samepath.engines.metadrive.simulator import MetaDrive

__all__ = ["MetaDrive"]
