"""Attacks on runs that have ended."""
