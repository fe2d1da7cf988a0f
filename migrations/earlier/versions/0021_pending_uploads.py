"""Files that people brought: tables that wait for their registration, and a list of parameters.

Parameters that were stored before are entered when they are sent again.

Revision ID: 0021
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Makes the two tables."""
    create_table(
        "pending_uploads",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("api_key_id", sa.String(36), nullable=False),
        sa.Column("storage_key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        key=("id",),
        references={"project_id": "projects.id", "api_key_id": "api_keys.id"},
    )
    for column in ("api_key_id", "expires_at"):
        op.create_index(op.f(f"ix_pending_uploads_{column}"), "pending_uploads", [column])
    create_table(
        "artifacts",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("hypotheses", sa.Integer(), nullable=False),
        sa.Column("parameters", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        key=("id",),
        references={"project_id": "projects.id"},
        unique=[("project_id", "sha256")],
    )
