"""Audits of predictions, in this process."""
