"""What is asked for: projects, federations and their budgets, experiments and their units.

Revision ID: 0001
"""

import sqlalchemy as sa

from migrations.earlier.tables import create_table

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the tables."""
    _create_projects()
    _create_subject_sets()
    _create_sweeper_leases()
    _create_api_keys()
    _create_federations()
    _create_outbox()
    _create_units()
    _create_experiments()
    _create_federation_budgets()
    _create_idempotency_keys()
    _create_experiment_tags()
    _create_reservations()


def _create_projects() -> None:
    create_table(
        "projects",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("id",),
        unique=[("name",)],
    )


def _create_subject_sets() -> None:
    create_table(
        "subject_sets",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        key=("id",),
    )


def _create_sweeper_leases() -> None:
    create_table(
        "sweeper_leases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        key=("name",),
    )


def _create_api_keys() -> None:
    create_table(
        "api_keys",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        key=("id",),
        references={"project_id": "projects.id"},
        unique=[("hash",)],
        indices=[("project_id",)],
    )


def _create_federations() -> None:
    create_table(
        "federations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("id",),
        references={"project_id": "projects.id"},
        unique=[("project_id", "fingerprint")],
    )


def _create_outbox() -> None:
    create_table(
        "outbox",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("topic", sa.String(length=64), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        key=("id",),
        references={"project_id": "projects.id"},
        indices=[("published_at", "available_at")],
    )


def _create_units() -> None:
    create_table(
        "units",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'leased', 'done', 'failed', 'cancelled')", name="ck_units_state"
        ),
        key=("id",),
        references={"project_id": "projects.id"},
        indices=[("state", "available_at"), ("state", "lease_until")],
    )


def _create_experiments() -> None:
    create_table(
        "experiments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=64), nullable=False),
        sa.Column("status_reason", sa.String(length=64), nullable=True),
        sa.Column("status_detail", sa.Text(), nullable=True),
        sa.Column("federation_id", sa.String(length=36), nullable=False),
        sa.Column("subject_set_id", sa.String(length=64), nullable=False),
        sa.Column("unit_id", sa.String(length=36), nullable=False),
        sa.Column("unit_position", sa.Integer(), nullable=False),
        sa.Column("retry_of", sa.String(length=36), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_hash", sa.String(length=64), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("mechanism", sa.String(length=64), nullable=False),
        sa.Column("hypotheses", sa.Integer(), nullable=False),
        sa.Column("noise", sa.String(length=64), nullable=False),
        sa.Column("parameters", sa.BigInteger(), nullable=False),
        sa.Column("noise_multiplier", sa.Double(), nullable=True),
        sa.Column("attributes", sa.JSON(), nullable=False),
        sa.Column("rounds_total", sa.Integer(), nullable=False),
        sa.Column("rounds_done", sa.Integer(), nullable=False),
        sa.Column("event_sequence", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gate_outcome", sa.String(length=64), nullable=True),
        sa.Column("leakage_max", sa.Double(), nullable=True),
        sa.Column("leakage_median", sa.Double(), nullable=True),
        sa.Column("epsilon_max", sa.Double(), nullable=True),
        sa.Column("delta", sa.Double(), nullable=True),
        sa.Column("validation_loss", sa.Double(), nullable=True),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("demographic_parity_difference", sa.Double(), nullable=True),
        sa.Column("equalized_odds_difference", sa.Double(), nullable=True),
        sa.Column("equal_opportunity_difference", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed')",
            name="ck_experiments_status",
        ),
        key=("id",),
        references={
            "federation_id": "federations.id",
            "project_id": "projects.id",
            "subject_set_id": "subject_sets.id",
            "unit_id": "units.id",
        },
        indices=[("federation_id",), ("project_id", "id"), ("project_id", "status"), ("unit_id",)],
    )


def _create_federation_budgets() -> None:
    create_table(
        "federation_budgets",
        sa.Column("federation_id", sa.String(length=36), nullable=False),
        sa.Column("book", sa.String(length=64), nullable=False),
        sa.Column("figure", sa.String(length=64), nullable=False),
        sa.Column("delta", sa.Double(), nullable=False),
        sa.Column("adjacency", sa.String(length=64), nullable=False),
        sa.Column("observer", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("total", sa.Double(), nullable=True),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("spent", sa.Double(), nullable=False),
        key=("federation_id", "book", "figure", "delta", "adjacency", "observer"),
        references={"federation_id": "federations.id", "project_id": "projects.id"},
    )


def _create_idempotency_keys() -> None:
    create_table(
        "idempotency_keys",
        sa.Column("api_key_id", sa.String(length=36), nullable=False),
        sa.Column("route", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("response", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        key=("api_key_id", "route", "key"),
        references={"api_key_id": "api_keys.id", "project_id": "projects.id"},
    )


def _create_experiment_tags() -> None:
    create_table(
        "experiment_tags",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        key=("experiment_id", "tag"),
        references={"experiment_id": "experiments.id", "project_id": "projects.id"},
        indices=[("project_id", "tag")],
    )


def _create_reservations() -> None:
    create_table(
        "reservations",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("federation_id", sa.String(length=36), nullable=False),
        sa.Column("book", sa.String(length=64), nullable=False),
        sa.Column("figure", sa.String(length=64), nullable=False),
        sa.Column("delta", sa.Double(), nullable=False),
        sa.Column("adjacency", sa.String(length=64), nullable=False),
        sa.Column("observer", sa.String(length=64), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("spent", sa.Double(), nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["federation_id", "book", "figure", "delta", "adjacency", "observer"],
            [
                "federation_budgets.federation_id",
                "federation_budgets.book",
                "federation_budgets.figure",
                "federation_budgets.delta",
                "federation_budgets.adjacency",
                "federation_budgets.observer",
            ],
            name="fk_reservations_budget",
        ),
        key=("experiment_id", "federation_id", "book", "figure", "delta", "adjacency", "observer"),
    )
