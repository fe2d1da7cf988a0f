"""Sweeps: the list, one with its table, and its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request
from pydantic import TypeAdapter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.answers import decode_cursor, encode_cursor
from api.pages.session import ExperimentsForm, ExperimentsVisitor, ReportsVisitor, Visitor
from api.pages.spec_form.preview import as_yaml
from api.pages.spec_form.sheet import ONCE, is_once, new_once
from api.pages.templates import page
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.sweeps import (
    SubmittedSweep,
    cancel_sweep,
    find_sweep,
    listed_bodies,
    retry_sweep,
    sweep_body,
    table_of,
)
from api.shared.resources import Shared
from fedaudit.reports.charts.chart import Chart
from fedaudit.spec.base import Text
from fedaudit.sweeps.cost_lines import cost_cautions, cost_lines
from fedaudit.sweeps.leading_figures import leading_figures, measured_figures
from fedaudit.sweeps.spread_chart import spread_chart
from fedaudit.sweeps.sweep_table import SweepTable
from fedaudit.sweeps.table_lines import as_csv, as_markdown, figure_words
from fedaudit.sweeps.varied_fields import value_words, varied_fields
from models.repositories import SweepRepository
from models.repositories.experiments import ENDED

router = APIRouter(prefix="/sweeps")

_ON_A_PAGE = 25
_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])
_REFRESH_SECONDS = 5
_TRIED_AGAIN = ("failed", "cancelled")


@dataclass(frozen=True)
class _TableView:
    """The table as the page shows it."""

    table: SweepTable
    fields: dict[str, list[str]]
    """What varies, but for the seed, and its value in each row."""
    leading: list[str]
    rest: list[str]
    """Figures behind a click."""
    choices: list[tuple[str, str]]
    """What can be drawn."""
    figure: str | None
    """The one that is."""
    chart: Chart | None


@router.get("")
def sweeps_list(
    request: Request,
    visitor: ExperimentsVisitor,
    resources: Shared,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
) -> HTMLResponse:
    """The project's sweeps, newest first."""
    after = decode_cursor("sweeps", cursor, _KEY)
    with resources.database.read() as session:
        sweeps = SweepRepository(session, visitor.caller.project_id)
        found = sweeps.list(cursor=after, limit=_ON_A_PAGE)
        items = listed_bodies(session, visitor.caller, found.items)
    return page(
        request,
        "sweeps.html",
        visitor=visitor,
        sweeps=items,
        first_page="/sweeps" if cursor else None,
        next_cursor=encode_cursor("sweeps", found.next_cursor),
    )


@router.get("/{sweep_id}")
def sweep_page(
    *,
    request: Request,
    sweep_id: str,
    visitor: ExperimentsVisitor,
    resources: Shared,
    figure: Annotated[str | None, Query(max_length=400)] = None,
    refresh: Annotated[str | None, Query()] = None,
) -> HTMLResponse:
    """A sweep as it is now; the page looks again by itself until all cells have ended."""
    with resources.database.read() as session:
        row = find_sweep(session, visitor.caller, sweep_id)
        sweep = sweep_body(session, visitor.caller, row)
        may_read = visitor.may("reports:read")
        table = table_of(session, visitor.caller, row) if may_read else None
    ended = sweep.status in ENDED
    statuses, may_write = sweep.progress.statuses, visitor.may("experiments:write")
    return page(
        request,
        "sweep.html",
        visitor=visitor,
        sweep=sweep,
        fields=_fields([cell.values for cell in sweep.cells]),
        ended=ended,
        may_cancel=may_write and not ended and sweep.status != "cancelling",
        may_retry=may_write and any(statuses.get(one) for one in _TRIED_AGAIN),
        once=new_once(),
        costs=list(cost_lines(sweep.costs)),
        cautions=list(cost_cautions(sweep.facts)),
        view=None if table is None else _view(table, figure),
        figure_words=figure_words,
        document=as_yaml(sweep.asked),
        refresh_seconds=None if ended or refresh == "no" else _REFRESH_SECONDS,
    )


@router.get("/{sweep_id}/table.csv")
def sweep_table_csv(sweep_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The table as a file for spreadsheets."""
    return _file(visitor, resources, sweep_id, "csv")


@router.get("/{sweep_id}/table.md")
def sweep_table_markdown(sweep_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The table as Markdown."""
    return _file(visitor, resources, sweep_id, "md")


@router.post("/{sweep_id}/cancel")
def post_sweep_cancel(sweep_id: str, form: ExperimentsForm, resources: Shared) -> RedirectResponse:
    """Ask for the end of every cell."""
    return _to(cancel_sweep(resources, form.visitor.caller, sweep_id).id)


@router.post("/{sweep_id}/retry")
async def post_sweep_retry(
    request: Request,
    sweep_id: str,
    form: ExperimentsForm,
    resources: Shared,
    background: BackgroundTasks,
) -> RedirectResponse:
    """Queue the cells once more that did not succeed; the same form queues them only once."""
    caller, once = form.visitor.caller, form.text(ONCE)
    key = once if is_once(once) else None

    def queued() -> SubmittedSweep:
        idempotency = IdempotentRequest.of(key, f"POST /sweeps/{sweep_id}/retry", None)
        return retry_sweep(resources, caller, sweep_id, idempotency)

    submitted = await resources.loads.run(caller.project_id, queued, request=request)
    for message in submitted.messages:
        background.add_task(dispatch, resources, message)
    answer = _to(submitted.sweep.id)
    answer.background = background
    return answer


def _view(table: SweepTable, figure: str | None) -> _TableView:
    measured = measured_figures(table)
    leading = leading_figures(table, measured)
    chosen = figure if figure in measured else next((one for one in measured), None)
    return _TableView(
        table=table,
        fields=_fields([row["values"] for row in table["rows"]]),
        leading=leading,
        rest=[name for name in measured if name not in leading],
        choices=[(name, name) for name in measured],
        figure=chosen,
        chart=None if chosen is None else spread_chart(table, chosen),
    )


def _fields(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {path: [*map(value_words, values)] for path, values in varied_fields(rows).items()}


def _file(visitor: Visitor, resources: Shared, sweep_id: str, form: str) -> Response:
    with resources.database.read() as session:
        sweep = find_sweep(session, visitor.caller, sweep_id)
        found = table_of(session, visitor.caller, sweep)
    text = as_csv(found) if form == "csv" else as_markdown(found)
    headers = {
        "Content-Disposition": f'attachment; filename="sweep-{sweep.id}.{form}"',
        "Cache-Control": "no-store",
    }
    return Response(
        text, media_type="text/csv" if form == "csv" else "text/markdown", headers=headers
    )


def _to(sweep_id: str) -> RedirectResponse:
    return RedirectResponse(f"/sweeps/{sweep_id}", 303)
