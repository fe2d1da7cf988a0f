"""Attacks on a run that test what its report claims: a room for each kind."""
