"""MuJoCo, in this process."""

from samepath.engines.mujoco.simulator import MuJoCo

__all__ = ["MuJoCo"]
