"""Data that are drawn: linear, from a few distributions or groups."""
