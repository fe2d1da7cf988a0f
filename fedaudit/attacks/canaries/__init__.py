"""Canaries: known inputs that take part by the fall of a coin, searched for in releases."""
