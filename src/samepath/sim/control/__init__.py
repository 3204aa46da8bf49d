"""Controllers that follow paths: vehicles and walkers, as pure steps from state to command."""
