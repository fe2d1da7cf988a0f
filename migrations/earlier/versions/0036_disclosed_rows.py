"""What was disclosed is found by rows, whatever file they are in.

Rows of images were numbered client by client whatever the spec made of the file, but what was
disclosed of them was kept apart by the spec. It is kept together from here on.

Revision ID: 0036
"""

import hashlib

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table

revision = "0036"
down_revision = "0035"

_OTHERS = ("rows of the file", "rows by what they hold")
_OF_CLIENTS = "rows of clients"


def upgrade() -> None:
    """Makes the table, and gives all sets of images one numbering."""
    create_table(
        "disclosure_anchors",
        sa.Column("anchor", sa.String(16), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["fingerprint"],
            ["disclosure_memories.fingerprint"],
            name=op.f("fk_disclosure_anchors_fingerprint_disclosure_memories"),
        ),
        key=("anchor", "fingerprint"),
    )
    sets = sa.table(
        "disclosed_sets",
        *map(sa.column, ("fingerprint", "numbering", "digest", "favourable_digest")),
    )
    other = sets.alias()
    of_images = [one.c.numbering.not_in(map(_named, _OTHERS)) for one in (sets, other)]
    twice = sa.exists().where(
        of_images[1],
        *(other.c[name] == sets.c[name] for name in ("fingerprint", "digest", "favourable_digest")),
        other.c.numbering < sets.c.numbering,
    )
    op.execute(sets.delete().where(of_images[0], twice))
    op.execute(sets.update().where(of_images[0]).values(numbering=_named(_OF_CLIENTS)))


def _named(numbering: str) -> str:
    return hashlib.sha256(numbering.encode()).hexdigest()
