"""CARLA's formats: what its client and server say to each other, its blueprints, and its recorder's files."""
