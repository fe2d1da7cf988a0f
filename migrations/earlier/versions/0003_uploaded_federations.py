"""Uploaded federations: where their files are, what they were registered with, and their profile.

Revision ID: 0003
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_FEDERATION_COLUMNS: dict[str, Any] = {
    "reasons": sa.JSON(none_as_null=True),
    "registration": sa.JSON(none_as_null=True),
    "storage_key": sa.String(length=255),
    "file_name": sa.Text(),
    "size_bytes": sa.BigInteger(),
    "profiled_at": sa.DateTime(timezone=True),
    "deleted_at": sa.DateTime(timezone=True),
}


def upgrade() -> None:
    """Adds the columns; what is there are runs, and federations that are ready."""
    of_unit = sa.Column("kind", sa.String(length=64), server_default="run", nullable=False)
    op.add_column("units", of_unit)
    for name, kind in _FEDERATION_COLUMNS.items():
        op.add_column("federations", sa.Column(name, kind, nullable=True))
    # As a statement: Alembic adds no foreign key to a table of SQLite without copying the table.
    op.execute(
        "ALTER TABLE federations ADD COLUMN unit_id VARCHAR(36)"
        " CONSTRAINT fk_federations_unit_id REFERENCES units (id)"
    )
    op.create_index("ix_federations_unit_id", "federations", ["unit_id"])
