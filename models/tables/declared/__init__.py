"""Ledgers of trainings that run elsewhere: what their trainers declared, and what it came to."""
