"""Figures of reports, one row each, so that reports are found by any of them.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.stored_reports import index_stored_reports
from migrations.earlier.tables import create_table

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Creates the tables, and fills them from the reports that are stored."""
    create_table(
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
        key=("experiment_id", "figure", "attribute", "observer"),
        references={"experiment_id": "experiments.id", "project_id": "projects.id"},
        indices=[("project_id", "figure", "value")],
    )
    create_table(
        "report_summaries",
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("report_hash", sa.String(length=64), nullable=False),
        sa.Column("guarantee_kind", sa.String(length=64), nullable=True),
        sa.Column("unit", sa.String(length=64), nullable=True),
        sa.Column("summary", sa.JSON(none_as_null=True), nullable=True),
        key=("experiment_id",),
        references={"experiment_id": "experiments.id", "project_id": "projects.id"},
        indices=[("project_id", "experiment_id")],
    )
    index_stored_reports(op.get_bind())
