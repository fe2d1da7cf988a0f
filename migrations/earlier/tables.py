"""Tables as the revisions make them, with names of keys, references and indices by one rule."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from alembic import op


def create_table(
    table: str,
    *columns: sa.schema.SchemaItem,
    key: Sequence[str],
    references: Mapping[str, str] | None = None,
    unique: Sequence[Sequence[str]] = (),
    indices: Sequence[Sequence[str]] = (),
) -> None:
    """Makes a table with its primary `key`; `references`: a foreign column of each, keyed by
    the column; `unique` and `indices`: the columns of each."""
    op.create_table(
        table,
        *columns,
        *(
            sa.ForeignKeyConstraint([column], [foreign], name=f"fk_{table}_{column}")
            for column, foreign in (references or {}).items()
        ),
        sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"),
        *(sa.UniqueConstraint(*one, name=f"uq_{table}_{'_'.join(one)}") for one in unique),
    )
    for one in indices:
        op.create_index(f"ix_{table}_{'_'.join(one)}", table, list(one))
