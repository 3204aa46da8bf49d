"""Simulators: the only place where the instrument meets what it measures. One folder each, behind one small interface.

Having read one folder you can read them all: ``simulator.py`` is the adapter, what the engine is and its settings;
``engine.py`` drives the engine, its scene, process and steps, and is imported only when a run needs it; ``project/`` holds what
runs inside the engine, in its own language. The bases they share are ``in_process``, ``subprocess`` and ``remote``;
``reference`` has simulators with known faults, to prove that the instrument sees them.
"""
