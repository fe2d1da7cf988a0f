"""The state of a declared ledger is what its entries say, and its report lies beside it.

Revision ID: 0046
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from models.tables.base import UtcDateTime

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_COPIED = """
UPDATE declared_ledgers SET (report, report_hash, signed_entries) = (
    SELECT document, report_hash, entries FROM declared_reports WHERE ledger_id = id
) WHERE EXISTS (SELECT 1 FROM declared_reports WHERE ledger_id = id)
"""
_COPIED_BACK = """
INSERT INTO declared_reports (ledger_id, project_id, entries, document, report_hash, created_at)
SELECT id, project_id, signed_entries, report, report_hash, signed_at FROM declared_ledgers
WHERE report IS NOT NULL
"""


def upgrade() -> None:
    """Copies the reports, and drops the tallies: entries say the same, and are in the chain."""
    for column in (
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("report_hash", sa.String(64), nullable=True),
    ):
        op.add_column("declared_ledgers", column)
    op.execute(_COPIED)
    op.drop_table("declared_reports")
    op.drop_table("declared_tallies")


def downgrade() -> None:
    """Makes the tables. Refuses where a ledger has entries, whose tallies would be missing."""
    entries = op.get_bind().scalar(sa.text("SELECT count(*) FROM declared_entries"))
    if entries:
        raise RuntimeError(
            f"{entries} entries of declared ledgers would count for nothing in an earlier version; "
            "stay at this one"
        )
    counts = sa.JSON().with_variant(postgresql.ARRAY(sa.BigInteger()), "postgresql")
    _create(
        "tallies",
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("charge", sa.JSON(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("counts", counts, nullable=False),
        key=("ledger_id", "place"),
    )
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE declared_tallies ALTER COLUMN counts SET STORAGE EXTERNAL")
    _create(
        "reports",
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        key=("ledger_id",),
    )
    op.execute(_COPIED_BACK)
    for name in ("report_hash", "report"):
        op.drop_column("declared_ledgers", name)


def _create(name: str, *columns: sa.Column[Any], key: tuple[str, ...]) -> None:
    op.create_table(
        f"declared_{name}",
        sa.Column("ledger_id", sa.String(36), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(
            ["ledger_id"], ["declared_ledgers.id"], name=op.f(f"fk_declared_{name}_ledger_id")
        ),
        sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_declared_{name}")),
    )
