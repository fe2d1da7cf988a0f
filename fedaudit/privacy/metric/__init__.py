"""Metric privacy: the cost of releases within a distance."""
