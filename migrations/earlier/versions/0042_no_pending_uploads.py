"""Tables are registered as they are uploaded: none waits in between.

Revision ID: 0042
"""

import sqlalchemy as sa
from alembic import op

from models.tables.base import UtcDateTime

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forgets the tables that wait. Their files, below `federations/` of the storage, stay until
    somebody removes them: register or discard all tables before."""
    op.drop_table("pending_uploads")


def downgrade() -> None:
    """Makes the table, empty."""
    op.create_table(
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
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_pending_uploads_project_id")
        ),
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_keys.id"], name=op.f("fk_pending_uploads_api_key_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pending_uploads")),
    )
    for column in ("api_key_id", "expires_at"):
        op.create_index(op.f(f"ix_pending_uploads_{column}"), "pending_uploads", [column])
