"""Attacks on runs whose report is signed.

Revision ID: 0033
"""

import sqlalchemy as sa
from alembic import op

from models.tables.base import UtcDateTime

revision = "0033"
down_revision = "0032"

_TABLE = "later_attacks"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        _TABLE,
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("status_reason", sa.String(64), nullable=True),
        sa.Column("status_detail", sa.Text(), nullable=True),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.String(64), nullable=False),
        sa.Column("ledger_hash", sa.String(64), nullable=False),
        sa.Column("unit_id", sa.String(36), nullable=False),
        sa.Column("created_by", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("cancelled_by", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("statement", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("envelope", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("alarms", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name=op.f("fk_later_attacks_experiment_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_later_attacks_project_id")
        ),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_later_attacks_unit_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_later_attacks")),
        sa.UniqueConstraint(
            "experiment_id", "number", name=op.f("uq_later_attacks_experiment_id_number")
        ),
    )
    op.create_index("ix_later_attacks_unit_id", _TABLE, ["unit_id"])
