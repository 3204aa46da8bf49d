"""Execution: doing what a plan asks, repeat by repeat, so that nothing finished is ever lost."""
