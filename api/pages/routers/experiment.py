"""One experiment: where it stands, its newest figures and curves, its end."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse

from api.http.answers import SmallInteger
from api.pages.live.curves import curves
from api.pages.live.ending import why_ended
from api.pages.live.finished import ending_words, final_gaps, with_final_figures
from api.pages.live.readings import GapReadings, Reading, as_json, gap_readings, readings
from api.pages.live.time_left import time_left
from api.pages.session import COOKIE, ExperimentsForm, ExperimentsVisitor, Visitor
from api.pages.spec_form.preview import as_yaml
from api.pages.spec_form.sheet import ONCE, is_once, new_once
from api.pages.templates import page
from api.services.attacks.judged_reports import judged_document
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.experiments import EventLog
from api.services.lookups import find_experiment, gone_words
from api.services.report_pages import LiveFigures, live_figures
from api.services.submission import RETRIED, Submitted, cancel, retry
from api.shared.data_faults import shown_detail
from api.shared.resources import Shared
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.charts.chart import Chart
from fedaudit.reports.charts.running import running_charts
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted
from models.clock import utc_now
from models.repositories import (
    ExperimentRepository,
    FederationRepository,
    ReportRepository,
    SweepRepository,
    WebSessionRepository,
)
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment, Sweep

router = APIRouter(prefix="/experiments/{experiment_id}")

_REFRESH_SECONDS = 5


@dataclass(frozen=True)
class _Found:
    """An experiment with what its page shows beside it."""

    row: Experiment
    tags: list[str]
    spec: ExperimentSpec
    live: LiveFigures
    report: dict[str, Any] | None
    """None until it has one, and for visitors who may not read reports."""
    federation: str | None
    """The name of its data, for visitors who may read federations."""
    sweep: Sweep | None
    """That it is a cell of."""


@router.get("")
def experiment_page(
    request: Request,
    experiment_id: str,
    visitor: ExperimentsVisitor,
    resources: Shared,
    refresh: Annotated[str | None, Query()] = None,
) -> HTMLResponse:
    """The experiment as it is now. Without scripts the page reloads itself while it runs."""
    with resources.database.read() as session:
        found = _find(session, visitor, experiment_id)
        gone = gone_words(session, visitor.caller.project_id, "model", experiment_id)
    row, kind = found.row, mechanism_of(found.spec).guarantee_kind
    ended = row.status in ENDED
    shown, gaps = _figures(found.row, found.spec, found.live, found.report)
    return page(
        request,
        "experiment.html",
        visitor=visitor,
        experiment=row,
        detail=shown_detail(row.status_reason, row.status_detail, caller=visitor.caller),
        tags=found.tags,
        federation=found.federation,
        sweep=found.sweep,
        ended=ended,
        why=why_ended(row.status_reason) if row.status in RETRIED else None,
        may_cancel=not ended and row.status != "cancelling" and visitor.may("experiments:write"),
        may_retry=row.status in RETRIED and visitor.may("experiments:write"),
        once=new_once(),
        guarantee_kind=kind,
        readings=shown,
        gaps=gaps,
        pace="" if ended else _pace(row),
        how_it_ended=None if found.report is None else ending_words(found.report),
        charts=_charts(found),
        every=found.live.every,
        gates=found.spec.gates,
        report=found.report,
        gone_model=gone,
        document=as_yaml(row.spec),
        refresh_seconds=None if ended or refresh == "no" else _REFRESH_SECONDS,
    )


@router.get("/figures")
def experiment_figures(
    experiment_id: str,
    visitor: ExperimentsVisitor,
    resources: Shared,
    after: Annotated[SmallInteger, Query()] = 0,
) -> JSONResponse:
    """The state and the figures of the rounds above `after`, for the page's own script."""
    with resources.database.read() as session:
        row = find_experiment(session, visitor.caller, experiment_id)
        live = live_figures(session, row, after=after)
        report = _report(session, visitor, row)
    shown, found = _figures(row, parse_admitted(row.spec), live, report)
    gaps = [reading for one in found for reading in one.gaps]
    return JSONResponse(
        {
            "status": row.status,
            "round": row.rounds_done,
            "rounds": row.rounds_total,
            "pace": _pace(row),
            "best": None if report is None else report["utility"]["best_round"],
            "last": live.series.rounds[-1] if live.series.rounds else after,
            "readings": as_json([*shown, *gaps]),
            "curves": curves(live.series),
        },
        headers={"Cache-Control": "no-store"},
    )


def _pace(row: Experiment) -> str:
    return time_left(row.started_at, utc_now(), done=row.rounds_done, rounds=row.rounds_total)


def _event_log(
    experiment_id: str, request: Request, visitor: ExperimentsVisitor, resources: Shared
) -> EventLog:
    token = request.cookies[COOKIE]
    with resources.database.read() as session:
        found = find_experiment(session, visitor.caller, experiment_id)
    return EventLog(
        resources,
        visitor.caller.project_id,
        found.id,
        in_force=lambda session: WebSessionRepository(session).find(token) is not None,
    )


async def _place(visitor: ExperimentsVisitor, resources: Shared) -> AsyncIterator[None]:
    async with resources.streams.place(visitor.caller.key_id):
        yield


@router.get("/stream", response_class=EventSourceResponse, dependencies=[Depends(_place)])
async def experiment_stream(
    log: Annotated[EventLog, Depends(_event_log)],
    after: Annotated[SmallInteger, Query()] = 0,
    last_event_id: Annotated[SmallInteger, Header()] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """The experiment's events above `after`; a browser that connects again names the last one."""
    async for message in log.follow(max(after, last_event_id)):
        yield message


@router.post("/cancel")
def post_cancel(experiment_id: str, form: ExperimentsForm, resources: Shared) -> RedirectResponse:
    """Ask for the experiment's end."""
    cancelled = cancel(resources, form.visitor.caller, experiment_id)
    return _to(cancelled.experiment.id)


@router.post("/retry")
async def post_retry(
    request: Request,
    experiment_id: str,
    form: ExperimentsForm,
    resources: Shared,
    background: BackgroundTasks,
) -> RedirectResponse:
    """Queue the spec once more; the same form queues it only once."""
    caller, once = form.visitor.caller, form.text(ONCE)
    key = once if is_once(once) else None

    def queued() -> Submitted:
        with resources.database.read() as session:
            row = find_experiment(session, caller, experiment_id)
        idempotency = IdempotentRequest.of(key, f"POST /experiments/{row.id}/retry", None)
        return retry(resources, caller, row, idempotency)

    submitted = await resources.loads.run(caller.project_id, queued, request=request)
    if submitted.unit_message is not None:
        background.add_task(dispatch, resources, submitted.unit_message)
    answer = _to(submitted.experiment.id)
    answer.background = background
    return answer


def _find(session: Session, visitor: Visitor, experiment_id: str) -> _Found:
    project_id = visitor.caller.project_id
    row = find_experiment(session, visitor.caller, experiment_id)
    federation = None
    if visitor.may("federations:read"):
        federation = FederationRepository(session, project_id).get(row.federation_id)
    cell = SweepRepository(session, project_id).cell_of(row.id)
    return _Found(
        row=row,
        tags=list(ExperimentRepository(session, project_id).tags([row.id])[row.id]),
        spec=parse_admitted(row.spec),
        live=live_figures(session, row),
        report=_report(session, visitor, row),
        federation=None if federation is None else federation.name,
        sweep=None if cell is None else cell[0],
    )


def _report(session: Session, visitor: Visitor, row: Experiment) -> dict[str, Any] | None:
    """None until there is one, and for visitors who may not read reports."""
    if row.status not in ENDED or not visitor.may("reports:read"):
        return None
    found = ReportRepository(session, visitor.caller.project_id).get(row.id)
    return None if found is None else judged_document(session, found)


def _figures(
    row: Experiment, spec: ExperimentSpec, live: LiveFigures, report: dict[str, Any] | None
) -> tuple[list[Reading], list[GapReadings]]:
    """Of the newest rounds; with a report those of its best round, which the report states."""
    newest = readings(row, live, mechanism_of(spec).guarantee_kind)
    if report is None:
        return newest, gap_readings(row, live)
    return with_final_figures(newest, report), final_gaps(report)


def _charts(found: _Found) -> list[Chart]:
    inputs, report = found.row.mechanism_inputs, found.report
    return running_charts(
        found.live.series,
        delta=None if inputs is None else inputs["delta"],
        best=None if report is None else report["utility"]["best_round"],
    )


def _to(experiment_id: str) -> RedirectResponse:
    return RedirectResponse(f"/experiments/{experiment_id}", 303)
