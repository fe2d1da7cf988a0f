"""Ledgers of trainings that run elsewhere, whose rounds are declared here."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import TypeAdapter

from api.http.answers import Linked, decode_cursor, encode_cursor, json_answer
from api.http.bodies import JsonBody, validated
from api.openapi import Responses, problems, request_body
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.ledger_bodies import DeclaredLedgerList, LedgerBody, PostedRounds, ReservationBody
from api.services.dispatch import IdempotentRequest
from api.services.ledgers.ledger_opening import open_ledger
from api.services.ledgers.ledger_shown import posted_round, shown_ledger, summary
from api.services.ledgers.round_posting import post_rounds
from api.services.ledgers.round_reservation import release_round, reserve_round
from api.shared.resources import Shared
from api.shared.security import ExperimentsReader, ExperimentsWriter
from fedaudit.spec.base import Text
from fedaudit.spec.declared_ledgers import MAX_ROUND, LedgerTerms, ReservationRequest, RoundsRequest
from models.repositories import DeclaredLedgerRepository

router = APIRouter(prefix="/ledgers", tags=["ledgers"])

Number = Annotated[int, Path(ge=1, le=MAX_ROUND, description="The round.")]

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])
_LOCATION = {"Location": {"description": "The ledger.", "schema": {"type": "string"}}}
_OPENED: Responses = {201: {"description": "A new ledger.", "headers": _LOCATION}}


@router.post(
    "",
    status_code=201,
    responses={**problems(409, 415), **_OPENED},
    openapi_extra=request_body(LedgerTerms),
)
def create_ledger(
    caller: ExperimentsWriter,
    value: JsonBody,
    resources: Shared,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> LedgerBody:
    """Open a ledger for a training that runs elsewhere, such as in Flower, Opacus or NVFlare.

    Its terms say what every figure is a figure of, and never change. All that it states is as the
    trainer declares it.
    """
    terms = validated(LedgerTerms, value)
    idempotency = IdempotentRequest.of(idempotency_key, "POST /v1/ledgers", value)
    made = open_ledger(resources, caller, terms, idempotency)
    response.headers["Location"] = f"/v1/ledgers/{made.id}"
    return shown_ledger(resources, caller, made.id)


@router.get("", responses=problems())
def list_ledgers(
    caller: ExperimentsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    linked: Linked[DeclaredLedgerList],
) -> DeclaredLedgerList:
    """The project's ledgers, newest first."""
    cursor = decode_cursor("ledgers", parameters.cursor, _KEY)
    with resources.database.read() as session:
        page = DeclaredLedgerRepository(session, caller.project_id).list(
            cursor=cursor, limit=parameters.limit
        )
    return linked(
        DeclaredLedgerList(
            items=[summary(row) for row in page.items],
            next_cursor=encode_cursor("ledgers", page.next_cursor),
        )
    )


@router.get("/{ledger_id}", responses=problems(404))
def get_ledger(ledger_id: str, caller: ExperimentsReader, resources: Shared) -> LedgerBody:
    """One ledger, and what its rounds come to."""
    return shown_ledger(resources, caller, ledger_id)


@router.post(
    "/{ledger_id}/rounds",
    responses=problems(404, 409, 415),
    openapi_extra=request_body(RoundsRequest),
)
def declare_rounds(
    ledger_id: str, caller: ExperimentsWriter, value: JsonBody, resources: Shared
) -> PostedRounds:
    """Declare rounds that ran: all of them are entered, or none.

    Numbers ascend and may leave gaps, which stay on record. The same round with the same content
    changes nothing and is answered alike; with another content it is refused.
    """
    terms, rows = post_rounds(resources, caller, ledger_id, value)
    return PostedRounds(ledger_id=ledger_id, rounds=[posted_round(terms, row) for row in rows])


@router.post(
    "/{ledger_id}/rounds/{number}/reservation",
    response_model=ReservationBody,
    responses=problems(404, 409, 415),
    openapi_extra=request_body(ReservationRequest),
)
def reserve_declared_round(
    ledger_id: str, number: Number, caller: ExperimentsWriter, value: JsonBody, resources: Shared
) -> Response:
    """Ask, before anybody trains, whether a round may run, and with whom.

    What is admitted is held until the round is declared, for a day at most, and replaces what was
    held for the same round.
    """
    return json_answer(reserve_round(resources, caller, ledger_id, number, value))


@router.delete("/{ledger_id}/rounds/{number}/reservation", status_code=204, responses=problems(404))
def release_reservation(
    ledger_id: str, number: Number, caller: ExperimentsWriter, resources: Shared
) -> None:
    """Give back what is held for a round that will not run."""
    release_round(resources, caller, ledger_id, number)
