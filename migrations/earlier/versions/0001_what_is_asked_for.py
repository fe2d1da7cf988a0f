"""What is asked for: projects, federations and their budgets, experiments and their units.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

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
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("name", name="uq_projects_name"),
    )


def _create_subject_sets() -> None:
    op.create_table(
        "subject_sets",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_subject_sets"),
    )


def _create_sweeper_leases() -> None:
    op.create_table(
        "sweeper_leases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sweeper_leases"),
    )


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_api_keys_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
    )
    op.create_index("ix_api_keys_project_id", "api_keys", ["project_id"])


def _create_federations() -> None:
    op.create_table(
        "federations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_federations_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_federations"),
        sa.UniqueConstraint(
            "project_id", "fingerprint", name="uq_federations_project_id_fingerprint"
        ),
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("topic", sa.String(length=64), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_outbox_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index(
        "ix_outbox_published_at_available_at", "outbox", ["published_at", "available_at"]
    )


def _create_units() -> None:
    op.create_table(
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
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_units_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_units"),
    )
    op.create_index("ix_units_state_available_at", "units", ["state", "available_at"])
    op.create_index("ix_units_state_lease_until", "units", ["state", "lease_until"])


def _create_experiments() -> None:
    op.create_table(
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
        sa.ForeignKeyConstraint(
            ["federation_id"], ["federations.id"], name="fk_experiments_federation_id"
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_experiments_project_id"),
        sa.ForeignKeyConstraint(
            ["subject_set_id"], ["subject_sets.id"], name="fk_experiments_subject_set_id"
        ),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name="fk_experiments_unit_id"),
        sa.PrimaryKeyConstraint("id", name="pk_experiments"),
    )
    op.create_index("ix_experiments_federation_id", "experiments", ["federation_id"])
    op.create_index("ix_experiments_project_id_id", "experiments", ["project_id", "id"])
    op.create_index("ix_experiments_project_id_status", "experiments", ["project_id", "status"])
    op.create_index("ix_experiments_unit_id", "experiments", ["unit_id"])


def _create_federation_budgets() -> None:
    op.create_table(
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
        sa.ForeignKeyConstraint(
            ["federation_id"], ["federations.id"], name="fk_federation_budgets_federation_id"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_federation_budgets_project_id"
        ),
        sa.PrimaryKeyConstraint(
            "federation_id",
            "book",
            "figure",
            "delta",
            "adjacency",
            "observer",
            name="pk_federation_budgets",
        ),
    )


def _create_idempotency_keys() -> None:
    op.create_table(
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
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_keys.id"], name="fk_idempotency_keys_api_key_id"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_idempotency_keys_project_id"
        ),
        sa.PrimaryKeyConstraint("api_key_id", "route", "key", name="pk_idempotency_keys"),
    )


def _create_experiment_tags() -> None:
    op.create_table(
        "experiment_tags",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_experiment_tags_experiment_id"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_experiment_tags_project_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "tag", name="pk_experiment_tags"),
    )
    op.create_index("ix_experiment_tags_project_id_tag", "experiment_tags", ["project_id", "tag"])


def _create_reservations() -> None:
    op.create_table(
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
        sa.PrimaryKeyConstraint(
            "experiment_id",
            "federation_id",
            "book",
            "figure",
            "delta",
            "adjacency",
            "observer",
            name="pk_reservations",
        ),
    )
