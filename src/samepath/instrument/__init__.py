"""The instrument: what a study asks, the conditions it is run under, how it is run, its traces, their analysis, the report."""
