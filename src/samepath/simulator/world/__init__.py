"""The world: actors, their state, the tick, events, snapshots."""
