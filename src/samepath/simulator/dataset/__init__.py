"""Datasets: what a rig of sensors sees of a scenario, with the truth behind it, written to a folder frame by frame.

:mod:`.files` says what was asked for and how it is written, :mod:`.labels` what is true of a frame, :mod:`.recording` runs the
scenario, :mod:`.mcap` makes one file of all frames.
"""
