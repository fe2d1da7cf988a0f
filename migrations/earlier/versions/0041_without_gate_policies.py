"""Policies are files: the service keeps no gates under names.

Revision ID: 0041
"""

import logging

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
_log = logging.getLogger(__name__)


def upgrade() -> None:
    """Drops the table, and writes what it held to the log, to be kept as files."""
    policies = op.get_bind().execute(sa.text("SELECT name, gates FROM gate_policies")).all()
    for name, gates in policies:
        _log.warning("the policy %s is no longer stored; keep it as a file: %s", name, gates)
    op.drop_table("gate_policies")
