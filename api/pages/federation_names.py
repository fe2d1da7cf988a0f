"""What the data are called, for those who may know."""

from api.pages.session import Visitor
from api.shared.resources import Resources
from models.repositories import FederationRepository

_NEWEST = 200


def federation_names(resources: Resources, visitor: Visitor) -> dict[str, str]:
    """The names of the newest federations by their ids; none without `federations:read`."""
    if not visitor.may("federations:read"):
        return {}
    with resources.database.read() as session:
        rows = FederationRepository(session, visitor.caller.project_id).list(limit=_NEWEST)
    return {row.id: row.name for row in rows.items}
