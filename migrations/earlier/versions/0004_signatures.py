"""Signatures: the service's public keys, and signed checkpoints of ledgers.

Revision ID: 0004
"""

import sqlalchemy as sa

from migrations.earlier.tables import create_table

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Creates the tables; what ran before stays unsigned."""
    create_table(
        "signing_keys",
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("algorithm", sa.String(length=64), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        key=("key_id",),
    )
    create_table(
        "ledger_checkpoints",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("entries", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("status", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("envelope", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("experiment_id", "entries", "status"),
        references={"experiment_id": "experiments.id"},
    )
