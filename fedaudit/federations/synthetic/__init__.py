"""Synthetic data: linear, from a few distributions or groups."""
