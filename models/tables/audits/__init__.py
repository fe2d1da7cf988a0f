"""Audits of predictions."""
