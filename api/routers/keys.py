"""The project's API keys."""

from fastapi import APIRouter, Response

from api.http.bodies import JsonBody, validated
from api.http.problems import not_found
from api.openapi import problems, request_body
from api.schemas.keys import KeyBody, KeyList, KeyRequest, NewKeyBody
from api.shared.resources import Shared
from api.shared.security import Administrator
from models.identifiers import is_id
from models.repositories import ApiKeyRepository

router = APIRouter(prefix="/api-keys", tags=["keys"])


@router.get("", responses=problems())
def list_keys(caller: Administrator, resources: Shared) -> KeyList:
    """Every key of the project, without its secret."""
    with resources.database.read() as session:
        keys = ApiKeyRepository(session).list(caller.project_id)
    return KeyList(items=[KeyBody.of(key) for key in keys])


@router.post("", status_code=201, responses=problems(415), openapi_extra=request_body(KeyRequest))
def create_key(caller: Administrator, value: JsonBody, resources: Shared) -> NewKeyBody:
    """Make a key of this project; its secret is shown this once."""
    asked = validated(KeyRequest, value)
    with resources.database.write() as session:
        key, plain = ApiKeyRepository(session).create(
            project_id=caller.project_id, name=asked.name, scopes=list(dict.fromkeys(asked.scopes))
        )
    return NewKeyBody(**KeyBody.of(key).model_dump(), key=plain)


@router.delete("/{key_id}", status_code=204, responses=problems(404))
def revoke_key(key_id: str, caller: Administrator, resources: Shared) -> Response:
    """End a key at once."""
    with resources.database.write() as session:
        if not (is_id(key_id) and ApiKeyRepository(session).revoke(caller.project_id, key_id)):
            raise not_found("key in force")
    return Response(status_code=204)
