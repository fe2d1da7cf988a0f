"""Ledger rows that charge the people held out of training, named in the readable ledger.

Revision ID: 0013
"""

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Changes nothing: the view is made anew after the last revision."""
