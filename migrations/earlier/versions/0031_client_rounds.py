"""Which rounds of a ledger name a client: an index that the sweeper makes from the packed rows.

Revision ID: 0031
"""

import sqlalchemy as sa
from alembic import op

from models.arrays import PackedArray

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Makes the table. Ledgers that are there already are indexed by the sweeper, too."""
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
