"""Studies: what is asked. A study file in, a plan of cells and repeats out; pure, nothing is run here."""
