"""What attacks on an experiment found. Confidential: it follows from training data."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.openapi import Responses, problems
from api.schemas.experiments import AttackList
from api.services.attacks.stored_attacks import FILE_TYPE, attack_file, attack_list, file_response
from api.services.audit_log import note_export
from api.shared.resources import Shared
from api.shared.security import LedgerReader

router = APIRouter(prefix="/experiments/{experiment_id}/attacks", tags=["attacks"])

FILE_RESPONSES: Responses = {
    **problems(404, 410),
    200: {
        "description": "The file.",
        "content": {FILE_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    },
}


@router.get("", responses=problems(404))
def get_attacks(experiment_id: str, caller: LedgerReader, resources: Shared) -> AttackList:
    """The attacks of the experiment's report, with their files."""
    return attack_list(resources, caller, experiment_id)


@router.get("/{position}/{name}", response_class=Response, responses=FILE_RESPONSES)
def get_attack_file(
    experiment_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    caller: LedgerReader,
    resources: Shared,
) -> Response:
    """One file of an attack, such as the scores of every record."""
    found = attack_file(resources, caller, experiment_id, position=position, name=name)
    note_export(resources, caller, experiment_id, f"attacks/{position}/{name}")
    return file_response(found, f"{experiment_id}-{position}-{name}")
