"""Entries and checkpoints of declared ledgers lie with those of experiments, and what they came to
follows from their entries.

Revision ID: 0048
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"

_PACKED = ("subjects", "outcomes", "radii", "releases", "clusters", "epsilons")
_ENTRY = (
    *("round", "release", "subject_kind", "observer", "project_id", *_PACKED),
    *("mechanism", "n", "noise_multiplier", "radius", "radius_floor", "clip", "noise"),
    *("guarantee", "event", "delta", "adjacency", "accountant", "components", "digest", "link"),
    *("interrupted", "declaration"),
)
_REPORTS = """
UPDATE declared_ledgers SET (report, report_hash, signed_entries) = (
    SELECT document, report_hash, entries FROM declared_reports WHERE ledger_id = id
) WHERE EXISTS (SELECT 1 FROM declared_reports WHERE ledger_id = id)
"""
_CHECKPOINTS = """
INSERT INTO ledger_checkpoints (experiment_id, entries, status, project_id, envelope, created_at)
SELECT ledger_id, entries, 'running', project_id, envelope, created_at FROM declared_checkpoints
"""
_OF_EXPERIMENTS = ("ledger", "ledger_checkpoints")


def upgrade() -> None:
    """Moves the rows. Tallies go: entries say the same, and are in the chain."""
    op.add_column("declared_ledgers", sa.Column("report", sa.JSON(), nullable=True))
    op.add_column("declared_ledgers", sa.Column("report_hash", sa.String(64), nullable=True))
    op.execute(_REPORTS)
    for table in _OF_EXPERIMENTS:
        with op.batch_alter_table(table) as batch:
            batch.drop_constraint(f"fk_{table}_experiment_id", type_="foreignkey")
            if table == "ledger":
                batch.add_column(sa.Column("declaration", sa.LargeBinary(), nullable=True))
    columns = ", ".join(_ENTRY)
    op.execute(
        f"INSERT INTO ledger (experiment_id, {columns}) "
        f"SELECT ledger_id, {columns} FROM declared_entries"
    )
    op.execute(_CHECKPOINTS)
    for name in ("entries", "checkpoints", "reports", "tallies"):
        op.drop_table(f"declared_{name}")
