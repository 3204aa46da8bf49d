"""The back end ``opengl``: the same scenes and cameras, drawn by a GPU, or by Mesa on a CPU.

Shadows come from the sun's own view of the scene, and colours are smoothed along edges. What a driver rounds is its own affair:
nothing is promised to the bit.
"""
