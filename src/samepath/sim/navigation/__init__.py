"""Ways through walkable areas: grids, A* with a choice of priority queue, waypoints."""
