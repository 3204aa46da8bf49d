"""The back end ``software``: a z-buffer rasteriser in numba. No GL, no display, the same bytes everywhere."""
