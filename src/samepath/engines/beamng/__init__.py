"""BeamNG.tech, through its published client. Written from the documentation of BeamNGpy; not run against the program."""

from samepath.engines.beamng.simulator import BeamNG

__all__ = ["BeamNG"]
