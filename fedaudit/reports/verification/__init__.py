"""Verify a report against its ledger by recomputing everything."""
