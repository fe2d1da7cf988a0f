"""People by an identity provider, and the groups of their sessions.

Revision ID: 0047
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    """Adds both columns, which are empty for what was made with a key."""
    for table, name in (("api_keys", "identity"), ("web_sessions", "groups")):
        op.add_column(table, sa.Column(name, sa.JSON(none_as_null=True), nullable=True))
