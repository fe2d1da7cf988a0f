"""Hypothesis membership: which hypothesis a client chose, told from its upload."""
