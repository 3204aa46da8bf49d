"""pymunk, which is Chipmunk for Python: a plane seen from above, in this process."""

from samepath.simulators.pymunk.simulator import Pymunk

__all__ = ["Pymunk"]
