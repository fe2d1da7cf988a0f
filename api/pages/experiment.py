"""One experiment: its state, its newest figures and curves, its end, and later attacks."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.problems import ProblemError
from api.pages.live import (
    GapReadings,
    Reading,
    ending_words,
    final_gaps,
    gap_readings,
    readings,
    time_left,
    why_ended,
    with_final_figures,
)
from api.pages.spec_preview import as_yaml
from api.pages.visits import ExperimentsForm, ExperimentsVisit, Visit, faults_by_field
from api.services.attacks import ask_for_attacks, cancel_attacks, judged_document, later_list
from api.services.clients import shown_clients
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_experiment, find_report, gone_words
from api.services.report_pages import LiveFigures, live_figures
from api.services.submission import RETRIED, Submitted, cancel, retry
from api.shared.data_faults import shown_detail
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.charts.report_charts import running_charts
from fedaudit.reports.report import has_present_form
from fedaudit.reports.verdict.release import answer_of
from fedaudit.spec.attacks.attack_spec import attack_titles
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted
from models.clock import utc_now
from models.repositories import (
    ExperimentRepository,
    FederationRepository,
    ReportRepository,
    SweepRepository,
)
from models.tables.experiments import Experiment
from models.vocabulary import ENDED, OPEN

router = APIRouter(prefix="/experiments/{experiment_id}")

_REFRESH_SECONDS = 5


@router.get("")
def experiment_page(
    experiment_id: str, visit: ExperimentsVisit, refresh: Annotated[str | None, Query()] = None
) -> HTMLResponse:
    """The experiment as it is now; the page looks again by itself until it has ended."""
    with visit.reading() as session:
        row = find_experiment(session, visit.caller, experiment_id)
        gone = gone_words(session, visit.project_id, "model", experiment_id)
        tags = ExperimentRepository(session, visit.project_id).tags([row.id])[row.id]
        federation = None
        if visit.may("federations:read"):
            federation = FederationRepository(session, visit.project_id).get(row.federation_id)
        cell = SweepRepository(session, visit.project_id).cell_of(row.id)
        live = live_figures(session, row)
        report = _report(session, visit, row)
        clients = shown_clients(session, visit.caller, row)
    ended, spec = row.status in ENDED, parse_admitted(row.spec)
    shown, gaps = _figures(row, live, report)
    return visit.page(
        "experiment.html",
        experiment=row,
        answer=None if report is None else answer_of(report),
        detail=shown_detail(row.status_reason, row.status_detail, caller=visit.caller),
        tags=list(tags),
        federation=None if federation is None else federation.name,
        sweep=None if cell is None else cell[0],
        ended=ended,
        why=why_ended(row.status_reason) if row.status in RETRIED else None,
        may_cancel=not ended and row.status != "cancelling" and visit.may("experiments:write"),
        may_retry=row.status in RETRIED and visit.may("experiments:write"),
        guarantee_kind=mechanism_of(spec).guarantee_kind,
        readings=shown,
        gaps=gaps,
        pace="" if ended else _pace(row),
        how_it_ended=None if report is None else ending_words(report),
        charts=running_charts(
            live.series,
            delta=None if row.mechanism_inputs is None else row.mechanism_inputs["delta"],
            best=_best(report),
        ),
        every=live.series.every,
        gates=spec.gates,
        report=report,
        clients=clients,
        experiment_id=row.id,
        gone_model=gone,
        document=as_yaml(row.spec),
        refresh_seconds=None if ended or refresh == "no" else _REFRESH_SECONDS,
    )


@router.post("/cancel")
def post_cancel(experiment_id: str, form: ExperimentsForm) -> RedirectResponse:
    """Ask for the experiment's end."""
    cancelled = cancel(form.resources, form.caller, experiment_id)
    return form.to(f"/experiments/{cancelled.experiment.id}")


@router.post("/retry")
async def post_retry(experiment_id: str, form: ExperimentsForm) -> RedirectResponse:
    """Queue the spec once more; the same form queues it only once."""

    def queued() -> Submitted:
        with form.reading() as session:
            row = find_experiment(session, form.caller, experiment_id)
        again = IdempotentRequest.of(form.once, f"POST /experiments/{row.id}/retry", None)
        return retry(form.resources, form.caller, row, again)

    submitted = await form.run(queued)
    return form.to(f"/experiments/{submitted.experiment.id}", submitted.unit_message)


def _report(session: Session, visit: Visit, row: Experiment) -> dict[str, Any] | None:
    """None until there is one that this version reads, and for visitors who may read none."""
    if row.status not in ENDED or not visit.may("reports:read"):
        return None
    found = ReportRepository(session, visit.project_id).get(row.id)
    if found is None or not has_present_form(found.document):
        return None
    return judged_document(session, found)


def _figures(
    row: Experiment, live: LiveFigures, report: dict[str, Any] | None
) -> tuple[list[Reading], list[GapReadings]]:
    """Of the newest rounds; with a report those of its best round, which the report states."""
    newest = readings(row, live, mechanism_of(parse_admitted(row.spec)).guarantee_kind)
    if report is None:
        return newest, gap_readings(row, live)
    return with_final_figures(newest, report), final_gaps(report)


def _pace(row: Experiment) -> str:
    return time_left(row.started_at, utc_now(), done=row.rounds_done, rounds=row.rounds_total)


def _best(report: dict[str, Any] | None) -> Any:
    return None if report is None else report["utility"]["best_round"]


_NUMBERS = {"canaries": "count", "membership": "shadows", "gradient-leakage": "images"}
"""What an attack of a kind counts, as a spec names it."""
_METHODS = [
    ("", "as usual for the kind"),
    *((one, f"membership: {one}") for one in ("threshold", "likelihood-ratio", "relative")),
    *(
        (one, f"gradient-leakage: {one}")
        for one in ("lbfgs", "adam-cosine", "first-layer", "features")
    ),
]
_SHOWN_ABOVE = (409, 410, 429)


@router.get("/attacks")
def attacks_page(experiment_id: str, visit: ExperimentsVisit) -> HTMLResponse:
    """The attacks after the report, and the form; the page reloads itself while one is open."""
    return _attacks(visit, experiment_id, {})


@router.post("/attacks")
async def post_attack(experiment_id: str, form: ExperimentsForm) -> Response:
    """Ask for one attack; the same form does it once. A faulty form is shown again."""
    # The run's data are loaded, which may take long.
    return await form.run(partial(_answer, form, experiment_id))


@router.post("/attacks/later/{later_id}/cancel")
def post_cancel_attacks(
    experiment_id: str, later_id: str, form: ExperimentsForm
) -> RedirectResponse:
    """Ask for their end; what they have found by then stays."""
    cancel_attacks(form.resources, form.caller, experiment_id, later_id)
    return form.to(f"/experiments/{experiment_id}/attacks")


def _answer(form: Visit, experiment_id: str) -> Response:
    typed, address = form.texts("kind", "method", "number"), f"/experiments/{experiment_id}/attacks"
    with form.reading() as session:
        mechanism = find_experiment(session, form.caller, experiment_id).mechanism
    value = {"attacks": [_attack(typed, mechanism)]}
    again = IdempotentRequest.of(form.once, f"POST {address}", value)
    try:
        asked = ask_for_attacks(form.resources, form.caller, experiment_id, value, again)
    except InvalidInputError as error:
        return _attacks(
            form, experiment_id, typed, faults=faults_by_field(error, _field_of), status=422
        )
    except ProblemError as error:
        if error.status not in _SHOWN_ABOVE:
            raise
        faults = {"": error.detail}
        return _attacks(form, experiment_id, typed, faults=faults, status=error.status)
    return form.to(address, asked.unit_message)


def _attack(typed: dict[str, str], mechanism: str) -> dict[str, Any]:
    """What was typed, as a spec has it; empty fields are left out."""
    kind, number = typed["kind"], typed["number"]
    value: dict[str, Any] = {"kind": kind}
    if kind == "canaries":
        # Another unit than the mechanism's is refused in any case.
        value["unit"] = "record" if mechanism == "record-personalised" else "client"
    if typed["method"]:
        value["method"] = typed["method"]
    if number:
        whole = number.isdecimal() and len(number) < 10
        value[_NUMBERS.get(kind, "number")] = int(number) if whole else number
    return value


def _field_of(pointer: str) -> str:
    names = {"kind": "kind", "method": "method", **dict.fromkeys(_NUMBERS.values(), "number")}
    return names.get(pointer.rpartition("/")[2], "")


def _attacks(
    visit: Visit,
    experiment_id: str,
    typed: dict[str, str],
    *,
    faults: dict[str, str] | None = None,
    status: int = 200,
) -> HTMLResponse:
    with visit.reading() as session:
        experiment = find_experiment(session, visit.caller, experiment_id)
        find_report(session, visit.caller, experiment_id)
    asked = later_list(visit.resources, visit.caller, experiment_id).items
    is_open = any(one.status in OPEN for one in asked)
    return visit.page(
        "attacks.html",
        status=status,
        experiment=experiment,
        # What attacks found is for readers of reports.
        asked=asked if visit.may("reports:read") else [],
        open_ones=OPEN,
        going_on=is_open,
        may_ask=visit.may("experiments:write") and not is_open,
        kinds=[(kind, title.partition(":")[0]) for kind, title in attack_titles().items()],
        questions=attack_titles().values(),
        methods=_METHODS,
        typed=typed,
        faults=faults or {},
        refresh_seconds=_REFRESH_SECONDS if is_open and visit.request.method == "GET" else None,
    )
