"""What is varied or merely present around a run, recorded and never fingerprinted: the host, its load, the provenance."""
