"""Who did what is on a chained log, and requests are counted by the minute.

Nothing is told of what was done before.

Revision ID: 0023
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Makes the tables."""
    create_table(
        "audit_entries",
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(36), nullable=True),
        sa.Column("key_name", sa.Text(), nullable=True),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("link", sa.String(64), nullable=False),
        key=("project_id", "number"),
        references={"project_id": "projects.id"},
    )
    for column in ("action", "key_id"):
        op.create_index(
            f"ix_audit_entries_{column}", "audit_entries", ["project_id", column, "number"]
        )
    create_table(
        "audit_heads",
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("link", sa.String(64), nullable=False),
        sa.Column("signed_entries", sa.Integer(), nullable=False),
        sa.Column("envelope", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("signed_at", UtcDateTime(), nullable=True),
        key=("project_id",),
        references={"project_id": "projects.id"},
    )

    create_table(
        "request_minutes",
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("minute", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        key=("project_id", "minute"),
        references={"project_id": "projects.id"},
    )
