"""Packed ledger entries, whoever wrote them."""
