"""Units of one shape are claimed together.

Revision ID: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0027"


def upgrade() -> None:
    """Adds the shape. Units that wait already are run by themselves."""
    op.add_column("units", sa.Column("stack_key", sa.String(64), nullable=True))
    op.add_column(
        "units", sa.Column("stack_size", sa.Integer(), nullable=False, server_default="1")
    )
    op.create_index("ix_units_stack_key_state", "units", ["stack_key", "state"])
