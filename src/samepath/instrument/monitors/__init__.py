"""Monitors: does the test pass? Assertions over traces of any engine, with a margin at every moment."""
