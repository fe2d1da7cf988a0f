"""Webhooks: whom to tell, of what, and what became of it."""
