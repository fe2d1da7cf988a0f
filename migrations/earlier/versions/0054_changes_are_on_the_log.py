"""Changes of settings are read from the audit log, which has had each of them from the first.

Revision ID: 0054
"""

from alembic import op

revision = "0054"
down_revision = "0053"


def upgrade() -> None:
    """Drops the table. Its rows of gate policies, which 0041 removed, are shown nowhere."""
    op.drop_table("setting_changes")
