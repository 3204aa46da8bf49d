"""What happened: the records of repeated runs, their lossless columnar store, and importers of other people's logs."""
