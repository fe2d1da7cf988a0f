"""Changes of settings are read from the audit log, which came with their table.

Revision ID: 0054
"""

from alembic import op

revision = "0054"
down_revision = "0053"


def upgrade() -> None:
    """Drops the table: its rows of gate policies, which 0041 removed, are shown nowhere. The log
    has an index by subject."""
    op.drop_table("setting_changes")
    columns = ["project_id", "subject", "number"]
    op.create_index("ix_audit_entries_subject", "audit_entries", columns)
