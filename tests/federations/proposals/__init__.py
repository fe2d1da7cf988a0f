"""Registrations that are proposed."""
