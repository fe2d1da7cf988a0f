"""Webhooks: who is told, and what became of it."""
