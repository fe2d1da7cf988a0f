"""Pages of a project's files of parameters, and what starts from them."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from api.http.cursors import decode_cursor, encode_cursor
from api.schemas.base import PageParameters
from api.schemas.experiments import ArtifactPage, ArtifactUser, ListedArtifact
from api.schemas.people import ActorBody
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.base import Text
from models.repositories import ArtifactRepository
from models.tables.federations import Artifact
from models.values import ArtifactUse

_ROUTE = "artifacts"
_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])
_USERS_SHOWN = 20


def artifact_page(resources: Resources, caller: Caller, parameters: PageParameters) -> ArtifactPage:
    """Newest first. Raises ProblemError for a cursor of another list."""
    cursor = decode_cursor(_ROUTE, parameters.cursor, _KEY)
    with resources.database.read() as session:
        artifacts = ArtifactRepository(session, caller.project_id)
        page = artifacts.list(cursor=cursor, limit=parameters.limit)
        uses = artifacts.uses([row.sha256 for row in page.items])
    return ArtifactPage(
        items=[_listed(row, uses.get(row.sha256, ())) for row in page.items],
        next_cursor=encode_cursor(_ROUTE, page.next_cursor),
    )


def _listed(row: Artifact, uses: Sequence[ArtifactUse]) -> ListedArtifact:
    return ListedArtifact(
        id=row.sha256,
        name=row.name,
        size_bytes=row.size_bytes,
        hypotheses=row.hypotheses,
        parameters=row.parameters,
        created_at=row.created_at,
        created_by=None if row.created_by is None else ActorBody(**row.created_by),
        uses=len(uses),
        used_by=[
            ArtifactUser(id=one.id, name=one.name, status=one.status) for one in uses[:_USERS_SHOWN]
        ],
    )
