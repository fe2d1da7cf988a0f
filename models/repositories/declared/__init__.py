"""Ledgers of trainings that run elsewhere."""
