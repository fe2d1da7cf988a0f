"""The schema's versions. Only `upgrade` and `downgrade` change a database's schema."""

from migrations.revisions import current, downgrade, upgrade

__all__ = ["current", "downgrade", "upgrade"]
