"""What runs in MetaDrive's own interpreter. It imports nothing of samepath."""
