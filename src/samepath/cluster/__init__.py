"""One world, many rendering nodes, the same bytes."""
