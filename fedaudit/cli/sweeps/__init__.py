"""Sweeps of a running service."""
