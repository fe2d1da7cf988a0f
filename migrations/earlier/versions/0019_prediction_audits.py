"""Audits of predictions alone.

Revision ID: 0019
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Makes the table."""
    create_table(
        "prediction_audits",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("status_reason", sa.String(64), nullable=True),
        sa.Column("faults", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("scored", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=True),
        sa.Column("unit_id", sa.String(36), nullable=False),
        sa.Column("withheld", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("report_hash", sa.String(64), nullable=True),
        sa.Column("gate_outcome", sa.String(64), nullable=True),
        sa.Column("created_by", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        key=("id",),
        references={"project_id": "projects.id", "unit_id": "units.id"},
        indices=[("unit_id",)],
    )
    for name, second in (("project_id", "id"), ("fingerprint", "fingerprint")):
        op.create_index(f"ix_prediction_audits_{name}", "prediction_audits", ["project_id", second])
