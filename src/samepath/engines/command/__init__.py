"""Any program that takes a scenario and writes what happened, to stdout or into a file."""

from samepath.engines.command.simulator import CommandSimulator

__all__ = ["CommandSimulator"]
