"""Figures of reports, one row each, so that reports are found by any of them.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.stored_reports import index_stored_reports

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Creates the tables, and fills them from the reports that are stored."""
    op.create_table(
        "report_figures",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("figure", sa.String(length=64), nullable=False),
        sa.Column("attribute", sa.Text(), nullable=False),
        sa.Column("observer", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("delta", sa.Double(), nullable=True),
        sa.Column("adjacency", sa.String(length=64), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_report_figures_experiment_id"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_report_figures_project_id"
        ),
        sa.PrimaryKeyConstraint(
            "experiment_id", "figure", "attribute", "observer", name="pk_report_figures"
        ),
    )
    op.create_index(
        "ix_report_figures_project_id_figure_value",
        "report_figures",
        ["project_id", "figure", "value"],
    )
    op.create_table(
        "report_summaries",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("report_hash", sa.String(length=64), nullable=False),
        sa.Column("guarantee_kind", sa.String(length=64), nullable=True),
        sa.Column("unit", sa.String(length=64), nullable=True),
        sa.Column("summary", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_report_summaries_experiment_id"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_report_summaries_project_id"
        ),
        sa.PrimaryKeyConstraint("experiment_id", name="pk_report_summaries"),
    )
    op.create_index(
        "ix_report_summaries_project_id_experiment_id",
        "report_summaries",
        ["project_id", "experiment_id"],
    )
    index_stored_reports(op.get_bind())
