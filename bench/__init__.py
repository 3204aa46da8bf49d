"""The long proofs: tables on the terminal, JSON under bench/results/. Ratios measured in one run, never bare times."""
