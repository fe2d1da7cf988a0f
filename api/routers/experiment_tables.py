"""Tables that the rounds of an experiment leave: figures, the ledger, fairness."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import orjson
from fastapi import Depends
from starlette.responses import Response

from api.http import answers
from api.http.problems import ProblemError
from api.openapi import BINARY, TEXT, Router, contents, contents_by, problems
from api.schemas.base import PageParameters, Parameters
from api.schemas.experiment_tables import (
    ClientPage,
    FairnessFilters,
    FairnessPage,
    FairnessParameters,
    LedgerFilters,
    LedgerPage,
    LedgerParameters,
    RoundPage,
)
from api.services.clients import client_lines
from api.services.lookups import find_experiment, find_report, names_of, note_export, refuse_gone
from api.services.tables import (
    BEGINNING,
    MEDIA_TYPES,
    Form,
    LedgerTable,
    export,
    fairness_table,
    group_lines,
    ledger_table,
    page_reasons,
    read_page,
    round_table,
)
from api.shared.resources import Resources
from api.shared.security import Call, ExperimentsReader, LedgerReader
from fedaudit.spec.base import Text
from infrastructure.storage import file_key

router = Router(prefix="/experiments/{experiment_id}", tags=["records"])

_FORMS: dict[str, Form] = {media_type: form for form, media_type in MEDIA_TYPES.items()}
_NEEDS_LEDGER_SCOPE = "the counts are confidential and need the scope ledger:read"

_AFTER_ROUND = answers.key_type(tuple[answers.SmallInteger] | None, answers.SmallInteger)
_AFTER_CLIENT = answers.key_type(answers.SmallInteger)
_AFTER_ENTRY = answers.key_type(
    tuple[answers.SmallInteger, answers.SmallInteger, Text, Text] | None, answers.SmallInteger
)
_AFTER_ATTRIBUTE = answers.key_type(tuple[answers.SmallInteger, Text] | None, answers.SmallInteger)

LEDGER_FILE = contents_by(
    "The whole table.",
    {
        form: (media_type, BINARY if form == "parquet" else TEXT)
        for form, media_type in MEDIA_TYPES.items()
    },
)
_RECORD_TABLE = contents("The whole table.", MEDIA_TYPES["csv"], TEXT)


async def _asked_form(accept: answers.Accept) -> Form | None:
    return _FORMS.get(answers.preferred(accept, (answers.JSON, *_FORMS)))


AskedForm = Annotated[Form | None, Depends(_asked_form)]
"""The file that is asked for; None where it is a page of JSON."""


@router.get("/rounds", response_model=RoundPage)
def list_rounds(
    *, experiment_id: str, call: ExperimentsReader, parameters: PageParameters, form: AskedForm
) -> RoundPage | Response:
    """The figures of each round, in order."""
    if form is not None:
        return export_rounds(experiment_id, form, call, parameters)
    start = answers.decode_cursor("rounds", parameters.cursor, _AFTER_ROUND) or BEGINNING
    with call.reading() as session:
        found = find_experiment(session, call.caller, experiment_id)
        table = round_table(call.project_id, found.id)
        page = read_page(table, session, start=start, limit=parameters.limit)
    following = answers.encode_cursor("rounds", page.next)
    return RoundPage.model_validate({"items": page.lines, "next_cursor": following})


@router.get("/rounds.{form}", responses=LEDGER_FILE)
def export_rounds(
    experiment_id: str, form: Form, call: ExperimentsReader, _parameters: Parameters
) -> Response:
    """The figures of every round as a file."""
    found = call.find(find_experiment, experiment_id)
    return export(round_table(call.project_id, found.id), call.resources.database, form)


@router.get("/clients", responses=problems(409))
def list_clients(experiment_id: str, call: LedgerReader, parameters: PageParameters) -> ClientPage:
    """What each client paid and how the model does on its rows, once there is a report.

    Confidential: it names clients. 409 where nothing is kept of them.
    """
    start = answers.decode_cursor("clients", parameters.cursor, _AFTER_CLIENT) or (0,)
    with call.reading() as session:
        report = find_report(session, call.caller, experiment_id)
        found = client_lines(session, report, start=start[0], limit=parameters.limit)
    end = start[0] + len(found.lines)
    more = (end,) if end < found.clients else None
    return ClientPage.model_validate(
        {
            "items": found.lines,
            "next_cursor": answers.encode_cursor("clients", more),
            "figure": found.figure,
        }
    )


@router.get("/privacy-ledger", response_model=LedgerPage)
def list_ledger(
    *, experiment_id: str, call: LedgerReader, parameters: LedgerParameters, form: AskedForm
) -> Response:
    """What each round cost each subject."""
    if form is not None:
        return export_ledger(experiment_id, form, call, parameters)
    table = partial(_ledger_table, call, experiment_id, parameters)
    return ledger_page(call.resources, "ledger", parameters, table)


@router.get("/privacy-ledger.{form}", responses=LEDGER_FILE)
def export_ledger(
    experiment_id: str, form: Form, call: LedgerReader, filters: LedgerFilters
) -> Response:
    """What each round cost each subject, as a file of all that the filters let through."""
    table = _ledger_table(call, experiment_id, filters)
    note_export(call, experiment_id, form)
    return export(table, call.resources.database, form)


@router.get("/fairness", response_model=FairnessPage)
def list_fairness(
    *, experiment_id: str, call: ExperimentsReader, parameters: FairnessParameters, form: AskedForm
) -> FairnessPage | Response:
    """The gaps between groups in each round; the counts behind them with the scope ledger:read."""
    if form is not None:
        return export_fairness(experiment_id, form, call, parameters)
    start = answers.decode_cursor("fairness", parameters.cursor, _AFTER_ATTRIBUTE) or BEGINNING
    with call.reading() as session:
        experiment = find_experiment(session, call.caller, experiment_id)
        table = fairness_table(call.project_id, experiment.id, parameters)
        page = read_page(table, session, start=start, limit=parameters.limit)
    groups = None
    if call.caller.may("ledger:read"):
        groups = [line for row in page.begun for line in group_lines(row, experiment.attributes)]
    return FairnessPage.model_validate(
        {
            "items": page.lines,
            "groups": groups,
            "groups_reason": _NEEDS_LEDGER_SCOPE if groups is None else None,
            "next_cursor": answers.encode_cursor("fairness", page.next),
        }
    )


@router.get("/fairness.{form}", responses=LEDGER_FILE)
def export_fairness(
    experiment_id: str, form: Form, call: ExperimentsReader, filters: FairnessFilters
) -> Response:
    """The gaps between groups in every round, as a file; never the counts."""
    found = call.find(find_experiment, experiment_id)
    table = fairness_table(call.project_id, found.id, filters)
    return export(table, call.resources.database, form)


@router.get("/record-table", responses=_RECORD_TABLE)
def get_record_table(experiment_id: str, call: LedgerReader, _parameters: Parameters) -> Response:
    """What every single record spent, as CSV: only of a `record-personalised` run.

    Confidential. A line a record: its client, row, budget, rate, whether it was left out, and its
    epsilon against each observer, empty where nothing was noised.
    """
    with call.reading() as session:
        experiment = find_experiment(session, call.caller, experiment_id)
        refuse_gone(session, call.project_id, "record-table", experiment.id)
    key = file_key("record-table", experiment.project_id, experiment.id)
    why = None
    if experiment.status != "succeeded":
        why = f"it is {experiment.status}"
    elif not call.resources.storage.holds(key):
        why = "its run left none, as those of record-personalised do"
    if why is not None:
        raise ProblemError("not-found", f"the experiment has no record table: {why}")
    table = call.resources.storage.blocks(key)
    note_export(call, experiment_id, "record-table")
    return answers.as_file(table, f"{experiment_id}-record-table.csv", MEDIA_TYPES["csv"])


def _ledger_table(call: Call, experiment_id: str, filters: LedgerFilters) -> LedgerTable:
    with call.reading() as session:
        found = find_experiment(session, call.caller, experiment_id)
        names = names_of(session, found)
    return ledger_table(call.project_id, found.id, names, filters, salt=found.ledger_salt)


def ledger_page(
    resources: Resources, route: str, parameters: LedgerParameters, table: Callable[[], LedgerTable]
) -> Response:
    """A page of a ledger's lines; `route` is that of its cursors. `table` may refuse, and does so
    after a faulty cursor."""
    start = answers.decode_cursor(route, parameters.cursor, _AFTER_ENTRY) or BEGINNING
    asked = table()
    with resources.database.read() as session:
        page = read_page(asked, session, start=start, limit=parameters.limit)
    # Fields as `LedgerPage` has them: to check a thousand lines takes longer than to find them.
    salt = asked.salt
    value = {
        "items": page.lines,
        "next_cursor": answers.encode_cursor(route, page.next),
        "salt": None if salt is None else salt.hex(),
        "reasons": page_reasons(page.lines, salt=salt),
    }
    return Response(orjson.dumps(value), media_type=answers.JSON)
