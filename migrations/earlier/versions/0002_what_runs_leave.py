"""What runs leave: rounds, ledger, fairness, events, checkpoints and reports.

Revision ID: 0002
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.earlier.tables import create_table

revision = "0002"
down_revision = "0001"

_PACKED = ("subjects", "outcomes", "radii", "releases", "clusters")


def upgrade() -> None:
    """Creates the tables."""
    _create_checkpoints()
    _create_events()
    _create_fairness()
    _create_ledger()
    _create_ledger_totals()
    _create_release_intents()
    _create_reports()
    _create_rounds()
    if op.get_bind().dialect.name == "postgresql":
        _store_packed_columns_plainly()


def _packed(element: sa.types.TypeEngine[Any]) -> sa.types.TypeEngine[Any]:
    return postgresql.ARRAY(element).with_variant(sa.JSON(), "sqlite")


def _store_packed_columns_plainly() -> None:
    """Numbers like these hardly compress, and trying costs more than it saves."""
    for column in _PACKED:
        op.execute(f"ALTER TABLE ledger ALTER COLUMN {column} SET STORAGE EXTERNAL")


def _create_checkpoints() -> None:
    create_table(
        "checkpoints",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        key=("experiment_id",),
        references={"experiment_id": "experiments.id"},
    )


def _create_events() -> None:
    create_table(
        "events",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("sequence", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("experiment_id", "sequence"),
        references={"experiment_id": "experiments.id"},
    )


def _create_fairness() -> None:
    create_table(
        "fairness",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attribute", sa.Text(), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        key=("experiment_id", "round", "attribute"),
        references={"experiment_id": "experiments.id"},
    )


def _create_ledger() -> None:
    create_table(
        "ledger",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("release", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("subject_kind", sa.String(length=64), nullable=False),
        sa.Column("observer", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("subjects", _packed(sa.Integer()), nullable=False),
        sa.Column("outcomes", _packed(sa.SmallInteger()), nullable=False),
        sa.Column("radii", _packed(sa.Double()), nullable=False),
        sa.Column("releases", _packed(sa.Integer()), nullable=False),
        sa.Column("clusters", _packed(sa.SmallInteger()), nullable=False),
        sa.Column("mechanism", sa.String(length=64), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("noise_multiplier", sa.Double(), nullable=True),
        sa.Column("radius", sa.Double(), nullable=True),
        sa.Column("radius_floor", sa.Double(), nullable=True),
        sa.Column("clip", sa.Double(), nullable=True),
        sa.Column("noise", sa.String(length=64), nullable=False),
        sa.Column("guarantee", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("link", sa.LargeBinary(), nullable=False),
        sa.Column("interrupted", sa.Boolean(), nullable=False),
        key=("experiment_id", "round", "release", "subject_kind", "observer"),
        references={"experiment_id": "experiments.id"},
    )


def _create_ledger_totals() -> None:
    create_table(
        "ledger_totals",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("releases", _packed(sa.Integer()), nullable=False),
        sa.Column("refusals", sa.BigInteger(), nullable=False),
        sa.Column("withheld", sa.BigInteger(), nullable=False),
        key=("experiment_id",),
        references={"experiment_id": "experiments.id"},
    )


def _create_release_intents() -> None:
    create_table(
        "release_intents",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("release", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("subjects", _packed(sa.Integer()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("experiment_id", "round", "release"),
        references={"experiment_id": "experiments.id"},
    )


def _create_reports() -> None:
    create_table(
        "reports",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("experiment_id",),
        references={"experiment_id": "experiments.id", "project_id": "projects.id"},
        indices=[("project_id",)],
    )


def _create_rounds() -> None:
    create_table(
        "rounds",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("selection_loss", sa.Double(), nullable=True),
        sa.Column("validation_loss", sa.Double(), nullable=True),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("cluster_sizes", sa.JSON(), nullable=False),
        sa.Column("separation", sa.Double(), nullable=True),
        sa.Column("collapsed", sa.Boolean(), nullable=False),
        sa.Column("leakage_median", sa.Double(), nullable=True),
        sa.Column("leakage_max", sa.Double(), nullable=True),
        sa.Column("demographic_parity_difference", sa.Double(), nullable=True),
        sa.Column("equalized_odds_difference", sa.Double(), nullable=True),
        sa.Column("equal_opportunity_difference", sa.Double(), nullable=True),
        sa.Column("reasons", sa.JSON(), nullable=False),
        key=("experiment_id", "round"),
        references={"experiment_id": "experiments.id"},
    )
