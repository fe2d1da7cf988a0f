"""Ledgers of trainings that run elsewhere, as their trainers declare them.

Revision ID: 0018
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0018"
down_revision = "0017"

_LEDGER = {"ledger_id": "declared_ledgers.id"}
_PACKED = ("subjects", "outcomes", "radii", "releases", "clusters", "epsilons")


def upgrade() -> None:
    """Makes the tables."""
    _create_ledgers()
    _create_entries()
    _create_rounds()
    _create_tallies()
    _create_reservations()
    _create_proofs()
    if op.get_context().dialect.name == "postgresql":
        for column in _PACKED:
            op.execute(f"ALTER TABLE declared_entries ALTER COLUMN {column} SET STORAGE EXTERNAL")


def _packed(element: sa.types.TypeEngine[Any]) -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.ARRAY(element), "postgresql")


def _create_ledgers() -> None:
    create_table(
        "declared_ledgers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("terms", sa.JSON(), nullable=False),
        sa.Column("terms_hash", sa.String(64), nullable=False),
        sa.Column("federation_id", sa.String(36), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("last_round", sa.Integer(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.Column("releases", _packed(sa.Integer()), nullable=False),
        sa.Column("epsilon_max", sa.Double(), nullable=True),
        sa.Column("leakage_max", sa.Double(), nullable=True),
        sa.Column("declared_at", UtcDateTime(), nullable=True),
        sa.Column("signed_entries", sa.Integer(), nullable=False),
        sa.Column("signed_at", UtcDateTime(), nullable=True),
        key=("id",),
        references={"project_id": "projects.id", "federation_id": "federations.id"},
        indices=[("project_id", "id")],
    )


def _create_entries() -> None:
    create_table(
        "declared_entries",
        *_key("round", "release"),
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
        key=("ledger_id", "round", "release", "subject_kind", "observer"),
        references=_LEDGER,
    )


def _create_rounds() -> None:
    create_table(
        "declared_rounds",
        *_key("round"),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("participants", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("over_budget", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.String(64), nullable=False),
        sa.Column("groups", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("declared_at", UtcDateTime(), nullable=False),
        key=("ledger_id", "round"),
        references=_LEDGER,
    )


def _create_tallies() -> None:
    create_table(
        "declared_tallies",
        *_key("place"),
        sa.Column("charge", sa.JSON(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("counts", _packed(sa.BigInteger()), nullable=False),
        key=("ledger_id", "place"),
        references=_LEDGER,
    )


def _create_reservations() -> None:
    create_table(
        "declared_reservations",
        *_key("round"),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("admitted", sa.JSON(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(64), nullable=False),
        sa.Column("reserved_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        key=("ledger_id", "round"),
        references=_LEDGER,
    )


def _create_proofs() -> None:
    create_table(
        "declared_checkpoints",
        *_key("entries"),
        sa.Column("envelope", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        key=("ledger_id", "entries"),
        references=_LEDGER,
    )
    create_table(
        "declared_reports",
        *_key(),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        key=("ledger_id",),
        references=_LEDGER,
    )


def _key(*numbers: str) -> list[sa.Column[Any]]:
    return [
        sa.Column("ledger_id", sa.String(36), nullable=False),
        *(sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in numbers),
        sa.Column("project_id", sa.String(36), nullable=False),
    ]
