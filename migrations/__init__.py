"""The schema's versions. Only `upgrade` changes a database's schema."""

from migrations.revisions import current, upgrade

__all__ = ["current", "upgrade"]
