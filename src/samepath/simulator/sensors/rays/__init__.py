"""Rays: what a bundle of rays from one point meets in a scene, the same bytes everywhere.

:mod:`.bundle` holds the rays, :mod:`.pieces` the scene cut into pieces that can be passed over as a whole, :mod:`.cast` the
compiled loops, :mod:`.caster` puts them together.
"""
