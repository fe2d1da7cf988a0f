"""Attacks on experiments."""
