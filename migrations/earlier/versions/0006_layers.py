"""Ledger rows of several components: what each layer of a model released.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier import epsilon_ledger, layer_ledger

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column, which what is there leaves empty: an upload of one component."""
    op.execute("DROP VIEW privacy_ledger")
    op.add_column("ledger", sa.Column("components", sa.JSON(none_as_null=True), nullable=True))
    op.execute(layer_ledger.create_view(op.get_bind().dialect.name))


def downgrade() -> None:
    """Removes the column. RuntimeError where a row has components: it would read as another."""
    rows = op.get_bind().scalar(sa.text("SELECT count(*) FROM ledger WHERE components IS NOT NULL"))
    if rows:
        raise RuntimeError(
            f"{rows} ledger rows have several components, which revision 0005 cannot tell apart; "
            "keep this revision, or restore the backup from before the upgrade"
        )
    op.execute("DROP VIEW privacy_ledger")
    op.drop_column("ledger", "components")
    op.execute(epsilon_ledger.create_view(op.get_bind().dialect.name))
