"""Attacks on runs whose report is signed.

Revision ID: 0033
"""

import sqlalchemy as sa

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Makes the table."""
    create_table(
        "later_attacks",
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
        key=("id",),
        references={
            "experiment_id": "experiments.id",
            "project_id": "projects.id",
            "unit_id": "units.id",
        },
        unique=[("experiment_id", "number")],
        indices=[("unit_id",)],
    )
