"""The rules of the software renderer as one C++ text that a graphics card can run, and what runs it.

``core.h`` and what it includes are the rules, per face, cell and pixel (see :mod:`..raster` for the specification). A *device*
runs them: here the processor itself (:mod:`.host_device`), which gives the software renderer's bytes and so proves the text.
"""
