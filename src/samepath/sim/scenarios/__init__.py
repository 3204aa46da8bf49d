"""Scenarios: who drives where. Plain YAML files that can be read, copied and changed."""
