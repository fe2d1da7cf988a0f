"""Audits of predictions alone.

Revision ID: 0019
"""

import sqlalchemy as sa
from alembic import op

from models.tables.base import UtcDateTime

revision = "0019"
down_revision = "0018"

_TABLE = "prediction_audits"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        _TABLE,
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
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_prediction_audits_project_id")
        ),
        sa.ForeignKeyConstraint(
            ["unit_id"], ["units.id"], name=op.f("fk_prediction_audits_unit_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prediction_audits")),
    )
    op.create_index("ix_prediction_audits_project_id", _TABLE, ["project_id", "id"])
    op.create_index("ix_prediction_audits_unit_id", _TABLE, ["unit_id"])
    op.create_index("ix_prediction_audits_fingerprint", _TABLE, ["project_id", "fingerprint"])
