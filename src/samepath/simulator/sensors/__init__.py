"""Sensors: what a camera, LiDAR, radar or other sensor of CARLA measures in a world.

The way of a picture: :mod:`.scene_builder` makes the scene of a tick from map and actors, :mod:`.cameras` turns CARLA's
attributes into cameras, a back end behind :mod:`.renderer` (:mod:`.raster` or :mod:`.opengl`) draws all of them in one call,
and :mod:`.cameras` encodes the frames. Rays go from :mod:`.lidar` and :mod:`.radar` into :mod:`.rays`.
"""
