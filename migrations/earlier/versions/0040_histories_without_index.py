"""Clients' histories are read from the ledger itself: the index beside it is gone.

Revision ID: 0040
"""

import sqlalchemy as sa
from alembic import op

from models.arrays import PackedArray

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drops the index."""
    op.drop_table("client_rounds")
    op.drop_column("ledger_totals", "indexed_rounds")


def downgrade() -> None:
    """Makes the table, empty: the sweeper of that version fills it."""
    op.add_column(
        "ledger_totals",
        sa.Column("indexed_rounds", sa.Integer(), nullable=False, server_default="0"),
    )
    op.create_table(
        "client_rounds",
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("subjects", PackedArray("int32"), nullable=False),
        sa.Column("rounds", PackedArray("int32"), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name=op.f("fk_client_rounds_experiment_id")
        ),
        sa.PrimaryKeyConstraint("experiment_id", "part", "block", name=op.f("pk_client_rounds")),
    )
