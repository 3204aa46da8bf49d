"""Datasets: what a rig of sensors sees of a scenario, with the truth behind it, written to a folder frame by frame.

:mod:`.settings` says what was asked for, :mod:`.labels` what is true of a frame, :mod:`.files` how it is written, and
:mod:`.recording` runs the scenario.
"""
