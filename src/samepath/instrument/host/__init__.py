"""The host that a study runs on: facts, provenance, a screening before the first run."""
