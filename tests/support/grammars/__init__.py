"""Grammars for fuzzing: each makes whole documents of one format, the same ones for the same seed."""
