"""What attacks on an experiment found, and attacks beside its report, which stays as it was signed.

Confidential: what they find follows from training data.
"""

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Path, Response

from api.http.answers import as_file
from api.http.bodies import JsonBody
from api.openapi import BINARY, contents, problems, request_body
from api.schemas.base import IdempotencyHeader
from api.schemas.experiments import AttackList, AttacksRequest, LaterAttacksBody, LaterAttacksList
from api.services.attacks import (
    FILE_TYPE,
    ask_for_attacks,
    attack_file,
    attack_list,
    cancel_attacks,
    later_body,
    later_list,
)
from api.services.audit_log import note_export
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.lookups import find_later_attacks
from api.shared.security import ExperimentsWriter, LedgerReader, ReportsReader

router = APIRouter(prefix="/experiments/{experiment_id}/attacks", tags=["attacks"])

FILE_RESPONSES = contents("The file.", FILE_TYPE, BINARY, 404, 410)
_LOCATION = {"Location": {"description": "What is asked for.", "schema": {"type": "string"}}}


@router.post(
    "",
    status_code=202,
    responses={
        **problems(404, 409, 415, 429),
        202: {"description": "To be carried out by a worker.", "headers": _LOCATION},
    },
    openapi_extra=request_body(AttacksRequest),
)
async def attack_experiment(
    *,
    experiment_id: str,
    call: ExperimentsWriter,
    value: JsonBody,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> LaterAttacksBody:
    """Attack an experiment that has succeeded. Nothing is charged, and its report stays as it is.

    Whatever is found counts like an attack of the report, whenever somebody judges the experiment.
    """
    route = f"POST /v1/experiments/{experiment_id}/attacks"
    idempotency = IdempotentRequest.of(idempotency_key, route, value)
    # The run's data are loaded, which may take long.
    asked = await call.resources.loads.run(
        call.project_id, partial(ask_for_attacks, call, experiment_id, value, idempotency)
    )
    if asked.unit is not None:
        background.add_task(dispatch, call.resources, asked.unit)
    response.headers["Location"] = f"/v1/experiments/{experiment_id}/attacks/later/{asked.row.id}"

    def answer() -> LaterAttacksBody:
        with call.reading() as session:
            return later_body(session, call, asked.row)

    return await run_sync(answer)


@router.get("/later", responses=problems(404))
def list_later_attacks(experiment_id: str, call: ReportsReader) -> LaterAttacksList:
    """Every request for attacks after the report was signed, whatever became of it."""
    return later_list(call, experiment_id)


@router.get("/later/{later_id}", responses=problems(404))
def get_later_attacks(experiment_id: str, later_id: str, call: ReportsReader) -> LaterAttacksBody:
    """One request for attacks, and what they found."""
    with call.reading() as session:
        row = find_later_attacks(session, call.caller, experiment_id, later_id)
        return later_body(session, call, row)


@router.post("/later/{later_id}/cancel", responses=problems(404, 409))
def cancel_later_attacks(
    experiment_id: str, later_id: str, call: ExperimentsWriter
) -> LaterAttacksBody:
    """Ask for their end. What they have found by then stays, and counts."""
    row = cancel_attacks(call, experiment_id, later_id)
    with call.reading() as session:
        return later_body(session, call, row)


@router.get(
    "/later/{later_id}/{position}/{name}", response_class=Response, responses=FILE_RESPONSES
)
def get_later_attack_file(
    *,
    experiment_id: str,
    later_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    call: LedgerReader,
) -> Response:
    """One file of an attack, such as the scores of every record."""
    found = attack_file(call, experiment_id, position=position, name=name, later_id=later_id)
    form = f"attacks/later/{later_id}/{position}/{name}"
    note_export(call, experiment_id, form)
    return as_file(found, f"{experiment_id}-{later_id}-{position}-{name}", FILE_TYPE)


@router.get("", name="list_attacks", responses=problems(404))
def get_attacks(experiment_id: str, call: LedgerReader) -> AttackList:
    """The attacks of the experiment's report, with their files."""
    return attack_list(call, experiment_id)


@router.get("/{position}/{name}", response_class=Response, responses=FILE_RESPONSES)
def get_attack_file(
    experiment_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    call: LedgerReader,
) -> Response:
    """One file of an attack, such as the scores of every record."""
    found = attack_file(call, experiment_id, position=position, name=name)
    note_export(call, experiment_id, f"attacks/{position}/{name}")
    return as_file(found, f"{experiment_id}-{position}-{name}", FILE_TYPE)
