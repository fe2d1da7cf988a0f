"""Entries and checkpoints of declared ledgers lie with those of experiments, and what they came to
follows from their entries.

Revision ID: 0048
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.earlier.held_out_ledger import create_view
from models.tables.base import UtcDateTime

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

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
    op.execute("DROP VIEW privacy_ledger")
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
    op.execute(create_view(op.get_bind().dialect.name))
    for name in ("entries", "checkpoints", "reports", "tallies"):
        op.drop_table(f"declared_{name}")


def downgrade() -> None:
    """Makes the tables. Refuses where there are ledgers: their rounds would count for nothing."""
    ledgers = op.get_bind().scalar(sa.text("SELECT count(*) FROM declared_ledgers"))
    if ledgers:
        raise RuntimeError(
            f"{ledgers} ledgers of trainings elsewhere would lose what their rounds cost in an "
            "earlier version; stay at this one"
        )
    _create_tables()
    op.execute("DROP VIEW privacy_ledger")
    for table in _OF_EXPERIMENTS:
        with op.batch_alter_table(table) as batch:
            if table == "ledger":
                batch.drop_column("declaration")
            batch.create_foreign_key(
                f"fk_{table}_experiment_id", "experiments", ["experiment_id"], ["id"]
            )
    op.execute(create_view(op.get_bind().dialect.name))
    for name in ("report_hash", "report"):
        op.drop_column("declared_ledgers", name)


def _create_tables() -> None:
    _create(
        "entries",
        ("round", "release", "subject_kind", "observer"),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("release", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("subject_kind", sa.String(64), nullable=False),
        sa.Column("observer", sa.String(64), nullable=False),
        sa.Column("subjects", _packed(sa.Integer()), nullable=False),
        sa.Column("outcomes", _packed(sa.SmallInteger()), nullable=False),
        sa.Column("radii", _packed(sa.Double()), nullable=False),
        sa.Column("releases", _packed(sa.Integer()), nullable=False),
        sa.Column("clusters", _packed(sa.SmallInteger()), nullable=False),
        sa.Column("epsilons", _packed(sa.Double()), nullable=True),
        sa.Column("mechanism", sa.String(64), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("noise_multiplier", sa.Double(), nullable=True),
        sa.Column("radius", sa.Double(), nullable=True),
        sa.Column("radius_floor", sa.Double(), nullable=True),
        sa.Column("clip", sa.Double(), nullable=True),
        sa.Column("noise", sa.String(64), nullable=False),
        sa.Column("guarantee", sa.String(64), nullable=False),
        sa.Column("event", sa.Text(), nullable=True),
        sa.Column("delta", sa.Double(), nullable=True),
        sa.Column("adjacency", sa.String(64), nullable=True),
        sa.Column("accountant", sa.String(64), nullable=True),
        sa.Column("components", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("link", sa.LargeBinary(), nullable=False),
        sa.Column("interrupted", sa.Boolean(), nullable=False),
        sa.Column("declaration", sa.LargeBinary(), nullable=True),
    )
    _create(
        "checkpoints",
        ("entries",),
        sa.Column("entries", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("envelope", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
    )
    _create(
        "tallies",
        ("place",),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("charge", sa.JSON(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("counts", _packed(sa.BigInteger()), nullable=False),
    )
    _create(
        "reports",
        (),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
    )
    if op.get_context().dialect.name == "postgresql":
        for table, names in {"declared_entries": _PACKED, "declared_tallies": ("counts",)}.items():
            for name in names:
                op.execute(f"ALTER TABLE {table} ALTER COLUMN {name} SET STORAGE EXTERNAL")


def _packed(element: sa.types.TypeEngine[Any]) -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.ARRAY(element), "postgresql")


def _create(name: str, key: tuple[str, ...], *columns: sa.Column[Any]) -> None:
    op.create_table(
        f"declared_{name}",
        sa.Column("ledger_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(
            ["ledger_id"], ["declared_ledgers.id"], name=op.f(f"fk_declared_{name}_ledger_id")
        ),
        sa.PrimaryKeyConstraint("ledger_id", *key, name=op.f(f"pk_declared_{name}")),
    )
