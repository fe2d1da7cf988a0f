"""Budgets on the content of federations, and what is reserved and spent of them."""
