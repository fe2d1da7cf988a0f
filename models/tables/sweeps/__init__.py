"""Sweeps and their cells."""
