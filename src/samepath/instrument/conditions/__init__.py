"""What is varied or merely present around a run, recorded and never fingerprinted: host, load, provenance."""
