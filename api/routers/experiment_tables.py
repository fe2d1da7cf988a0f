"""What the rounds of an experiment leave: figures, the ledger, fairness."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from pydantic import TypeAdapter
from starlette.responses import Response, StreamingResponse

from api.http.answers import (
    Accept,
    Linked,
    LinkedAnswer,
    SmallInteger,
    WrittenPage,
    decode_cursor,
    encode_cursor,
    preferred,
)
from api.openapi import Responses, problems
from api.schemas.base import PageParameters, Parameters
from api.schemas.experiment_tables import (
    FairnessFilters,
    FairnessPage,
    FairnessParameters,
    LedgerFilters,
    LedgerPage,
    LedgerParameters,
    RoundPage,
)
from api.services.audit_log import note_export
from api.services.lookups import find_experiment, names_of, refuse_gone
from api.services.result_files import record_table_of
from api.services.tables import (
    BEGINNING,
    MEDIA_TYPES,
    FairnessTable,
    Form,
    LedgerTable,
    Position,
    RoundTable,
    export,
    group_lines,
    page_reasons,
    read_page,
)
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsReader, LedgerReader
from fedaudit.spec.base import Text

router = APIRouter(prefix="/experiments/{experiment_id}", tags=["records"])

_FORMS: dict[str, Form] = {media_type: form for form, media_type in MEDIA_TYPES.items()}
_NEEDS_LEDGER_SCOPE = "the counts are confidential and need the scope ledger:read"

_AFTER_ROUND: TypeAdapter[Any] = TypeAdapter(tuple[tuple[SmallInteger] | None, SmallInteger])
_AFTER_ENTRY: TypeAdapter[Any] = TypeAdapter(
    tuple[tuple[SmallInteger, SmallInteger, Text, Text] | None, SmallInteger]
)
_AFTER_ATTRIBUTE: TypeAdapter[Any] = TypeAdapter(
    tuple[tuple[SmallInteger, Text] | None, SmallInteger]
)

_FILE: Responses = {
    200: {
        "description": "The whole table.",
        "content": {
            media_type: {
                "schema": {"type": "string", "format": "binary"}
                if form == "parquet"
                else {"type": "string"}
            }
            for media_type, form in _FORMS.items()
        },
    }
}
LEDGER_FILE = {**problems(404), **_FILE}
_RECORD_TABLE: Responses = {
    **problems(404),
    200: {
        "description": "The whole table.",
        "content": {MEDIA_TYPES["csv"]: {"schema": {"type": "string"}}},
    },
}


@router.get("/rounds", response_model=RoundPage, responses=LEDGER_FILE)
def list_rounds(
    *,
    experiment_id: str,
    caller: ExperimentsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    accept: Accept,
    linked: Linked[RoundPage],
) -> RoundPage | StreamingResponse:
    """The figures of each round, in order. CSV, NDJSON and Parquet carry all of them."""
    form = asked_form(accept)
    if form is not None:
        return _rounds_file(resources, caller, experiment_id, form)
    start = _start_of("rounds", parameters, _AFTER_ROUND)
    with resources.database.read() as session:
        table = RoundTable(caller.project_id, find_experiment(session, caller, experiment_id).id)
        page = read_page(table, session, start=start, limit=parameters.limit)
    found = RoundPage.model_validate(
        {"items": page.lines, "next_cursor": encode_cursor("rounds", page.next)}
    )
    return linked(found)


@router.get("/rounds.{form}", response_class=StreamingResponse, responses=LEDGER_FILE)
def export_rounds(
    experiment_id: str,
    form: Form,
    caller: ExperimentsReader,
    _parameters: Annotated[Parameters, Query()],
    resources: Shared,
) -> StreamingResponse:
    """The figures of every round as a file."""
    return _rounds_file(resources, caller, experiment_id, form)


@router.get("/privacy-ledger", response_model=LedgerPage, responses=LEDGER_FILE)
def list_ledger(
    *,
    experiment_id: str,
    caller: LedgerReader,
    parameters: Annotated[LedgerParameters, Query()],
    resources: Shared,
    accept: Accept,
    linked: LinkedAnswer,
) -> Response:
    """What each round cost each subject. Files carry all that the filters let through."""
    form = asked_form(accept)
    if form is not None:
        return _ledger_file(resources, caller, experiment_id, form, parameters)
    table = partial(_ledger_table, resources, caller, experiment_id, parameters)
    return linked(ledger_page(resources, "ledger", parameters, table))


@router.get("/privacy-ledger.{form}", response_class=StreamingResponse, responses=LEDGER_FILE)
def export_ledger(
    experiment_id: str,
    form: Form,
    caller: LedgerReader,
    filters: Annotated[LedgerFilters, Query()],
    resources: Shared,
) -> StreamingResponse:
    """What each round cost each subject, as a file."""
    return _ledger_file(resources, caller, experiment_id, form, filters)


@router.get("/fairness", response_model=FairnessPage, responses=LEDGER_FILE)
def list_fairness(
    *,
    experiment_id: str,
    caller: ExperimentsReader,
    parameters: Annotated[FairnessParameters, Query()],
    resources: Shared,
    accept: Accept,
    linked: Linked[FairnessPage],
) -> FairnessPage | StreamingResponse:
    """The gaps between groups in each round; the counts behind them with the scope ledger:read."""
    form = asked_form(accept)
    if form is not None:
        return _fairness_file(resources, caller, experiment_id, form, parameters)
    start = _start_of("fairness", parameters, _AFTER_ATTRIBUTE)
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        table = FairnessTable(caller.project_id, experiment.id, parameters)
        page = read_page(table, session, start=start, limit=parameters.limit)
    groups = None
    if caller.may("ledger:read"):
        groups = [line for row in page.begun for line in group_lines(row, experiment.attributes)]
    found = FairnessPage.model_validate(
        {
            "items": page.lines,
            "groups": groups,
            "groups_reason": _NEEDS_LEDGER_SCOPE if groups is None else None,
            "next_cursor": encode_cursor("fairness", page.next),
        }
    )
    return linked(found)


@router.get("/fairness.{form}", response_class=StreamingResponse, responses=LEDGER_FILE)
def export_fairness(
    experiment_id: str,
    form: Form,
    caller: ExperimentsReader,
    filters: Annotated[FairnessFilters, Query()],
    resources: Shared,
) -> StreamingResponse:
    """The gaps between groups in every round, as a file; never the counts."""
    return _fairness_file(resources, caller, experiment_id, form, filters)


@router.get("/record-table", response_class=StreamingResponse, responses=_RECORD_TABLE)
def get_record_table(
    experiment_id: str,
    caller: LedgerReader,
    _parameters: Annotated[Parameters, Query()],
    resources: Shared,
) -> StreamingResponse:
    """What every single record spent, as CSV: only of a `record-personalised` run.

    Confidential. A line a record: its client, row, budget, rate, whether it was left out, and its
    epsilon against each observer, empty where nothing was noised.
    """
    with resources.database.read() as session:
        found = find_experiment(session, caller, experiment_id)
        refuse_gone(session, caller.project_id, "record-table", found.id)
    table = record_table_of(resources.storage, found)
    note_export(resources, caller, found.id, "record-table")
    name = f'attachment; filename="{found.id}-record-table.csv"'
    return StreamingResponse(
        table, media_type=MEDIA_TYPES["csv"], headers={"Content-Disposition": name}
    )


def _rounds_file(
    resources: Resources, caller: Caller, experiment_id: str, form: Form
) -> StreamingResponse:
    with resources.database.read() as session:
        found = find_experiment(session, caller, experiment_id)
    table = RoundTable(caller.project_id, found.id)
    name = f"{found.id}-rounds"
    return export(table, resources.database, what="rounds", form=form, file_name=name)


def _ledger_file(
    resources: Resources, caller: Caller, experiment_id: str, form: Form, filters: LedgerFilters
) -> StreamingResponse:
    table = _ledger_table(resources, caller, experiment_id, filters)
    note_export(resources, caller, experiment_id, form)
    name = f"{experiment_id}-privacy-ledger"
    return export(table, resources.database, what="ledger", form=form, file_name=name)


def _fairness_file(
    resources: Resources, caller: Caller, experiment_id: str, form: Form, filters: FairnessFilters
) -> StreamingResponse:
    with resources.database.read() as session:
        found = find_experiment(session, caller, experiment_id)
    table = FairnessTable(caller.project_id, found.id, filters)
    name = f"{found.id}-fairness"
    return export(table, resources.database, what="fairness", form=form, file_name=name)


def _ledger_table(
    resources: Resources, caller: Caller, experiment_id: str, filters: LedgerFilters
) -> LedgerTable:
    with resources.database.read() as session:
        found = find_experiment(session, caller, experiment_id)
        names = names_of(session, found)
    return LedgerTable(caller.project_id, found.id, names, filters, salt=found.ledger_salt)


def asked_form(accept: str) -> Form | None:
    """The file that is asked for; None where it is a page of JSON."""
    return _FORMS.get(preferred(accept, ("application/json", *_FORMS)))


def ledger_page(
    resources: Resources, route: str, parameters: LedgerParameters, table: Callable[[], LedgerTable]
) -> WrittenPage:
    """A page of a ledger's lines; `route` is that of its cursors. `table` may refuse, and does so
    after a faulty cursor."""
    start = _start_of(route, parameters, _AFTER_ENTRY)
    asked = table()
    with resources.database.read() as session:
        page = read_page(asked, session, start=start, limit=parameters.limit)
    following = encode_cursor(route, page.next)
    # Fields as `LedgerPage` has them: to check a thousand lines takes longer than to find them.
    salt = asked.salt
    value = {
        "items": page.lines,
        "salt": None if salt is None else salt.hex(),
        "reasons": page_reasons(page.lines, salt=salt),
        "next_cursor": following,
    }
    return WrittenPage(orjson.dumps(value), following)


def _start_of(route: str, parameters: PageParameters, kind: TypeAdapter[Any]) -> Position:
    decoded: Position | None = decode_cursor(route, parameters.cursor, kind)
    return BEGINNING if decoded is None else decoded
