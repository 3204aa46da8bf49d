"""Scenarios: who is there, where everybody goes, and the drivers and walkers that play them, in any engine."""
