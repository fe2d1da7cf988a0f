"""Sessions of people who signed in at the pages.

Revision ID: 0009
"""

import sqlalchemy as sa

from migrations.earlier.tables import create_table

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Creates the table."""
    create_table(
        "web_sessions",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("api_key_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        key=("token_hash",),
        references={"api_key_id": "api_keys.id", "project_id": "projects.id"},
        indices=[("expires_at",)],
    )
