"""Budgets on a federation's data, and reservations on them."""
