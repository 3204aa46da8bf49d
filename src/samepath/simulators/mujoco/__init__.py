"""MuJoCo, in this process."""

from samepath.simulators.mujoco.simulator import MuJoCo

__all__ = ["MuJoCo"]
