"""Ledger rows that charge the people held out of training, named in the readable ledger.

Revision ID: 0013
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier import held_out_ledger, layer_ledger

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the view anew. Rows and tables stay as they are."""
    op.execute("DROP VIEW privacy_ledger")
    op.execute(held_out_ledger.create_view(op.get_bind().dialect.name))


def downgrade() -> None:
    """The view of revision 0006. RuntimeError where a row charges held-out people: there it would
    read as a charge of the first client."""
    rows = op.get_bind().scalar(sa.text("SELECT count(*) FROM ledger WHERE observer = 'report'"))
    if rows:
        raise RuntimeError(
            f"{rows} ledger rows charge people held out of training, which revision 0012 cannot "
            "name; keep this revision, or restore the backup from before the upgrade"
        )
    op.execute("DROP VIEW privacy_ledger")
    op.execute(layer_ledger.create_view(op.get_bind().dialect.name))
