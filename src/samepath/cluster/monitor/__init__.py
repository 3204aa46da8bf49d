"""Watching a cluster: what its main server publishes, the live page, metrics for Prometheus. It only reads."""
