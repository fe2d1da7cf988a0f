"""Contents that no project has any more."""

from collections.abc import Collection

from sqlalchemy import select

from models.repositories.base import Repository
from models.tables.federations import Federation

_GONE = ("deleted", "erased")


class GoneContentRepository(Repository):
    """Looks at the federations of all projects."""

    def among(self, fingerprints: Collection[str]) -> set[str]:
        """Those of the contents that every project that had them deleted or erased."""
        statement = select(Federation.fingerprint, Federation.status).where(
            Federation.fingerprint.in_(fingerprints)
        )
        found = self.session.execute(statement).all()
        held = {fingerprint for fingerprint, status in found if status not in _GONE}
        return {fingerprint for fingerprint, _ in found} - held
