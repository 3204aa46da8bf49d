"""Gymnasium: any environment by its id, and our scripts among highway-env's vehicles, in this process."""

from samepath.engines.gymnasium.simulator import Gymnasium

__all__ = ["Gymnasium"]
