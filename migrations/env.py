"""Alembic's entry: runs the revisions on the connection that `migrations.revisions` gives it."""

from alembic import context

from models.tables.base import Base


def run() -> None:
    """Runs the revisions within the caller's transaction."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        # SQLite's too: `models.database` begins its transactions itself.
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
