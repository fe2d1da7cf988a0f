"""Named policies: gates that experiments are held against.

Revision ID: 0010
"""

import sqlalchemy as sa

from migrations.earlier.tables import create_table

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Creates the table."""
    create_table(
        "gate_policies",
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("gates", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        key=("project_id", "name"),
        references={"project_id": "projects.id"},
    )
