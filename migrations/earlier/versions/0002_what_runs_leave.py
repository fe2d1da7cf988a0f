"""What runs leave: rounds, ledger, fairness, events, checkpoints and reports.

Revision ID: 0002
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

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
    op.create_table(
        "checkpoints",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_checkpoints_experiment_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", name="pk_checkpoints"),
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("sequence", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_events_experiment_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "sequence", name="pk_events"),
    )


def _create_fairness() -> None:
    op.create_table(
        "fairness",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attribute", sa.Text(), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_fairness_experiment_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "round", "attribute", name="pk_fairness"),
    )


def _create_ledger() -> None:
    op.create_table(
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
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_ledger_experiment_id"
        ),
        sa.PrimaryKeyConstraint(
            "experiment_id", "round", "release", "subject_kind", "observer", name="pk_ledger"
        ),
    )


def _create_ledger_totals() -> None:
    op.create_table(
        "ledger_totals",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("releases", _packed(sa.Integer()), nullable=False),
        sa.Column("refusals", sa.BigInteger(), nullable=False),
        sa.Column("withheld", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_ledger_totals_experiment_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", name="pk_ledger_totals"),
    )


def _create_release_intents() -> None:
    op.create_table(
        "release_intents",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("release", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("subjects", _packed(sa.Integer()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_release_intents_experiment_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "round", "release", name="pk_release_intents"),
    )


def _create_reports() -> None:
    op.create_table(
        "reports",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_reports_experiment_id"
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_reports_project_id"),
        sa.PrimaryKeyConstraint("experiment_id", name="pk_reports"),
    )
    op.create_index("ix_reports_project_id", "reports", ["project_id"])


def _create_rounds() -> None:
    op.create_table(
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
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_rounds_experiment_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "round", name="pk_rounds"),
    )
