"""Webhooks: where events are sent, and what was sent there.

Revision ID: 0020
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Adds both tables."""
    create_table(
        "webhook_endpoints",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("previous_secret", sa.Text(), nullable=True),
        sa.Column("previous_until", UtcDateTime(), nullable=True),
        sa.Column("disabled_at", UtcDateTime(), nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("failing_since", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.JSON(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("updated_by", sa.JSON(none_as_null=True), nullable=True),
        key=("id",),
        references={"project_id": "projects.id"},
        indices=[("project_id",)],
    )
    create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("endpoint_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("message_id", sa.String(64), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(64), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("available_at", UtcDateTime(), nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.Column("attempted_at", UtcDateTime(), nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("duration_seconds", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        key=("id",),
        references={"endpoint_id": "webhook_endpoints.id"},
    )
    for name, columns in (
        ("state_available_at", ["state", "available_at"]),
        ("endpoint_id_id", ["endpoint_id", "id"]),
        ("created_at", ["created_at"]),
    ):
        op.create_index(f"ix_webhook_deliveries_{name}", "webhook_deliveries", columns)
