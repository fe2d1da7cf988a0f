"""A run and its neighbour with the same coins and the same noise: what differs, and by how much."""
