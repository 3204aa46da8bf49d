"""Physics on Rapier: vehicles, walkers, props and scenery, stepped in a fixed order."""
