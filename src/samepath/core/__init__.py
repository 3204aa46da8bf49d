"""What every part stands on: errors, units, channels, the clock, named random streams, digests, files, processes, addresses."""
