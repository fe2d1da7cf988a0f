"""Which rounds of a ledger name a client: an index that the sweeper makes from the packed rows.

Revision ID: 0031
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.arrays import PackedArray

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Makes the table. Ledgers that are there already are indexed by the sweeper, too."""
    op.add_column(
        "ledger_totals",
        sa.Column("indexed_rounds", sa.Integer(), nullable=False, server_default="0"),
    )
    create_table(
        "client_rounds",
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("subjects", PackedArray("int32"), nullable=False),
        sa.Column("rounds", PackedArray("int32"), nullable=False),
        key=("experiment_id", "part", "block"),
        references={"experiment_id": "experiments.id"},
    )
