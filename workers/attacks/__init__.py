"""Attacks on runs that came to their end."""
