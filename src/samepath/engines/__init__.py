"""Simulators: the only place where the instrument meets what it measures. One folder each, behind one small interface."""
