"""Requests to addresses that users of the service name."""
