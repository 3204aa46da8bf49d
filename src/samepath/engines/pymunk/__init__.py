"""pymunk, which is Chipmunk for Python: a plane seen from above, in this process."""

from samepath.engines.pymunk.simulator import Pymunk

__all__ = ["Pymunk"]
