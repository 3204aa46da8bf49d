"""Trials of a cluster: one scenario, any number of nodes, faults on purpose; every byte of every sensor is compared."""
