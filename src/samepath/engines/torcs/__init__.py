"""TORCS, without a window: two of its own drivers race, and its physics never looks at a clock."""

from samepath.engines.torcs.simulator import Torcs

__all__ = ["Torcs"]
