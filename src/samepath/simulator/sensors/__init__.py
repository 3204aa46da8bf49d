"""Sensors that see: a scene as arrays, renderers that turn it into images, cameras with CARLA's attributes and encodings.

:mod:`.street` builds the scene of a map, :mod:`.scene` holds its arrays, :mod:`.renderer` is the narrow interface to the back
ends, :mod:`.cameras` speaks CARLA's language.
"""
