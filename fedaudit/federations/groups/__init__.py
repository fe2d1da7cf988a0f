"""Sensitive attributes, their intersections, and favourable outcomes."""
