"""Sweeps: many experiments as one request.

Revision ID: 0030
"""

import sqlalchemy as sa

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Makes the tables."""
    create_table(
        "sweeps",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("cells", sa.Integer(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.JSON(), nullable=False),
        key=("id",),
        references={"project_id": "projects.id"},
        indices=[("project_id", "id")],
    )
    create_table(
        "sweep_cells",
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("sweep_id", sa.String(36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("newest", sa.Boolean(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        key=("experiment_id",),
        references={
            "sweep_id": "sweeps.id",
            "project_id": "projects.id",
            "experiment_id": "experiments.id",
        },
        indices=[("sweep_id", "position")],
    )
