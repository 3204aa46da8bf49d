"""Panda3D with its Bullet physics, in this process."""

from samepath.engines.panda3d.simulator import Panda3D

__all__ = ["Panda3D"]
