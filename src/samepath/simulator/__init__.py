"""The simulator: maps, world, physics, navigation, control, sensors, server, cluster."""
