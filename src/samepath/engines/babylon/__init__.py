"""Babylon.js with Havok on Node: with fixed steps, with the engine's defaults, or in its deterministic lockstep."""

from samepath.engines.babylon.simulator import Babylon

__all__ = ["Babylon"]
