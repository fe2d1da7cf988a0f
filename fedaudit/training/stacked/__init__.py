"""Rounds of many experiments at once, all clients side by side."""
