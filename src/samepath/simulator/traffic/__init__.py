"""Traffic of our own: cars that follow lanes, lights, signs and each other, and walkers on sidewalks and crossings.

``roads`` and ``walkways`` say what a map offers, ``drivers`` and ``pedestrians`` who does what, ``traffic`` is the front.
No part of CARLA is needed, and no clock: the same map, settings and seed give the same bits.
"""
