"""Ledgers kept from within trainings that run elsewhere; each module needs its framework."""
