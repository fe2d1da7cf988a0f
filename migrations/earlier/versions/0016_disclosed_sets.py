"""What reports disclosed of data is remembered, and what a run withholds because of it.

Reports and profiles that were made before are not entered: which rows they disclosed is not stored.

Revision ID: 0016
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0016"
down_revision = "0015"

_WITHHELD = "withheld_attributes"


def upgrade() -> None:
    """Makes the two tables, and adds the column to experiments."""
    create_table(
        "disclosure_memories",
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("profile_cuts", sa.JSON(), nullable=False),
        key=("fingerprint",),
    )
    create_table(
        "disclosed_sets",
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("numbering", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("favourable_digest", sa.String(64), nullable=False),
        sa.Column("bits", sa.LargeBinary(), nullable=False),
        sa.Column("favourable_bits", sa.LargeBinary(), nullable=False),
        sa.Column("disclosed_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["fingerprint"],
            ["disclosure_memories.fingerprint"],
            name=op.f("fk_disclosed_sets_fingerprint_disclosure_memories"),
        ),
        key=("fingerprint", "numbering", "digest", "favourable_digest"),
    )
    op.add_column("experiments", sa.Column(_WITHHELD, sa.JSON(none_as_null=True), nullable=True))
