"""What every stage stands on: errors, units, named random streams, digests, the clock, atomic files."""
