"""Registering federations, and uploads while they arrive."""
