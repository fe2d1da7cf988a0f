"""Webhooks of the service, from the command line."""
