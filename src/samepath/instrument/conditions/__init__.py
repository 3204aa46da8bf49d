"""What a study varies around a simulator: loads of the machine, priority, cores, address layout; set, read back, recorded."""
