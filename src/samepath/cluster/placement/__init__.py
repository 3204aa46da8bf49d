"""Who starts, watches, restarts and stops rendering nodes: plain processes of the main server, or Ray."""
