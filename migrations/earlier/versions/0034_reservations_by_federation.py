"""Reservations are found by the federation that they draw on.

Revision ID: 0034
"""

from alembic import op

revision = "0034"
down_revision = "0033"

_INDEX = "ix_reservations_federation_id"


def upgrade() -> None:
    """Every submission reads those of one content; without it, all there are."""
    op.create_index(_INDEX, "reservations", ["federation_id"])
