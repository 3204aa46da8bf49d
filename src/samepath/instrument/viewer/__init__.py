"""A viewer in the browser: repeats of a cell overlaid on their map, on one timeline."""
