"""Databases of earlier versions, made from those of this one."""

from alembic import command

from migrations.revisions import alembic_config, locked


def downgrade(url: str, revision: str) -> None:
    """Takes a database that the revisions made back to `revision` (`base`: without any table)."""
    with locked(url) as connection:
        command.downgrade(alembic_config(connection), revision)
