"""Attacks in a worker."""
