"""How small a declared group may be that is shown."""

from sqlalchemy.orm import Session

from api.services.disclosure import floor_of
from api.shared.resources import Resources
from fedaudit.spec.disclosure import least_group_size
from models.repositories import FederationRepository


def shown_group_size(
    resources: Resources, session: Session, project_id: str, federation_id: str | None
) -> int:
    """The least rows that the service, and the policies of the federation and of its content's
    owner, allow at this moment."""
    across = resources.settings.budgets_across
    federations = FederationRepository(session, project_id, across=across)
    policies = [] if federation_id is None else federations.disclosures(federation_id)
    return least_group_size(floor_of(resources.settings), policies)
