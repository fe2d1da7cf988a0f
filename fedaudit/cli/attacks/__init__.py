"""Attacks from the command line."""
