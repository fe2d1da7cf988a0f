"""Metric privacy: what releases cost within a distance."""
