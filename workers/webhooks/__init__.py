"""Sending what webhooks tell of."""
