"""Policies are files: the service keeps no gates under names.

Revision ID: 0041
"""

import logging

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None
_log = logging.getLogger(__name__)


def upgrade() -> None:
    """Drops the table, and writes what it held to the log, to be kept as files."""
    policies = op.get_bind().execute(sa.text("SELECT name, gates FROM gate_policies")).all()
    for name, gates in policies:
        _log.warning("the policy %s is no longer stored; keep it as a file: %s", name, gates)
    op.drop_table("gate_policies")


def downgrade() -> None:
    """Makes it, empty."""
    actor = sa.JSON(none_as_null=True)
    op.create_table(
        "gate_policies",
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("gates", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", actor, nullable=True),
        sa.Column("updated_by", actor, nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_gate_policies_project_id"
        ),
        sa.PrimaryKeyConstraint("project_id", "name", name="pk_gate_policies"),
    )
