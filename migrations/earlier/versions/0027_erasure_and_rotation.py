"""What was erased and what expired; secrets of keys that were replaced; keys that leaked.

Revision ID: 0027
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0027"
down_revision = "0025"


def upgrade() -> None:
    """Makes the tables and columns."""
    _erasures()
    create_table(
        "expired_files",
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("kept_days", sa.Integer(), nullable=True),
        sa.Column("expired_at", UtcDateTime(), nullable=False),
        sa.Column("removed_at", UtcDateTime(), nullable=True),
        key=("project_id", "kind", "owner"),
        indices=[("removed_at",)],
    )
    op.create_index("ix_experiments_finished_at", "experiments", ["finished_at"])
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])
    op.add_column("api_keys", sa.Column("previous_hash", sa.String(64), nullable=True))
    op.add_column("api_keys", sa.Column("previous_until", UtcDateTime(), nullable=True))
    op.add_column("api_keys", sa.Column("rotated_at", UtcDateTime(), nullable=True))
    with op.batch_alter_table("api_keys") as keys:
        keys.create_unique_constraint(op.f("uq_api_keys_previous_hash"), ["previous_hash"])
    op.add_column("web_sessions", sa.Column("key_hash", sa.String(64), nullable=True))
    op.add_column("signing_keys", sa.Column("compromised_at", UtcDateTime(), nullable=True))
    op.add_column("signing_keys", sa.Column("compromised_note", sa.Text(), nullable=True))


def _erasures() -> None:
    create_table(
        "erasures",
        sa.Column("federation_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("requested_by", sa.JSON(), nullable=False),
        sa.Column("removed", sa.JSON(), nullable=False),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("ledgers", sa.JSON(), nullable=False),
        sa.Column("others", sa.Integer(), nullable=False),
        sa.Column("completed_at", UtcDateTime(), nullable=True),
        sa.Column("envelope", sa.JSON(none_as_null=True), nullable=True),
        key=("federation_id", "number"),
        references={"federation_id": "federations.id", "project_id": "projects.id"},
        indices=[("completed_at",)],
    )
    create_table(
        "erased_ledgers",
        sa.Column("owner_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("federation_id", sa.String(36), nullable=False),
        sa.Column("erased_at", UtcDateTime(), nullable=False),
        sa.Column("envelope", sa.JSON(), nullable=False),
        key=("owner_id",),
        references={"federation_id": "federations.id", "project_id": "projects.id"},
        indices=[("federation_id",)],
    )
