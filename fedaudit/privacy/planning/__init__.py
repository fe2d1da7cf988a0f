"""The plan of what a run will spend, and the shape of a projected cost."""
