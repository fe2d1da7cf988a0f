"""Sweeps: many experiments as one request.

Revision ID: 0030
"""

import sqlalchemy as sa
from alembic import op

from models.tables.base import UtcDateTime

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("cells", sa.Integer(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_sweeps_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
    )
    op.create_index("ix_sweeps_project_id_id", "sweeps", ["project_id", "id"])
    op.create_table(
        "sweep_cells",
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("sweep_id", sa.String(36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("newest", sa.Boolean(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_sweep_cells_sweep_id")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_sweep_cells_project_id")
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name=op.f("fk_sweep_cells_experiment_id")
        ),
        sa.PrimaryKeyConstraint("experiment_id", name=op.f("pk_sweep_cells")),
    )
    op.create_index("ix_sweep_cells_sweep_id_position", "sweep_cells", ["sweep_id", "position"])
