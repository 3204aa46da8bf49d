"""Godot 3, headless: cars of its physics engine, with their controllers in one of four places."""

from samepath.engines.godot.simulator import Godot

__all__ = ["Godot"]
