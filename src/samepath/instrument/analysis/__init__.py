"""The analysis: pure functions from traces to numbers, verdicts and explanations. No clock, no chance, no files."""
