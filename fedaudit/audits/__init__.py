"""Audits of predictions alone: from a table to a fairness report, without any training."""
