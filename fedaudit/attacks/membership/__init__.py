"""Membership: which rows the trained hypotheses were trained on."""
