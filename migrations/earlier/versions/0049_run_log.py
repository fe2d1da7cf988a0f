"""The log of the runs on each federation.

Revision ID: 0049
"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"


def upgrade() -> None:
    """Makes the table; runs that have begun are in no log."""
    op.create_table(
        "run_log",
        sa.Column("federation_id", sa.String(36), nullable=False),
        sa.Column("size", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("subtrees", sa.LargeBinary(), nullable=False),
        sa.Column("checkpoint", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["federation_id"], ["federations.id"]),
        sa.PrimaryKeyConstraint("federation_id", "size"),
    )
    op.create_index("ix_run_log_experiment_id", "run_log", ["experiment_id"])
