"""One sweep: its cells, its table, and its end."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.pages.chosen_axes import ChosenAxes
from api.pages.spec_preview import as_yaml
from api.pages.visits import (
    ExperimentsForm,
    ExperimentsVisit,
    ReportsVisit,
    as_picture,
    for_visitors,
)
from api.routers.sweeps import cancel_sweep, export_sweep_table, get_sweep, retry_sweep, table_of
from api.services.dispatch import IdempotentRequest, Queued
from fedaudit.reports.charts.report_charts import CHOSEN
from fedaudit.reports.page.picture_files import PictureForm
from fedaudit.sweeps.sweep_costs import cost_cautions, cost_lines
from fedaudit.sweeps.sweep_table import (
    SweepTable,
    figure_words,
    leading_figures,
    measured_figures,
    points_of,
    value_words,
    varied_fields,
)
from models.tables.experiments import Sweep
from models.values import ENDED

router = APIRouter(prefix="/sweeps/{sweep_id}")

_REFRESH_SECONDS = 5
_TRIED_AGAIN = ("failed", "cancelled")


@router.get("")
def sweep_page(
    sweep_id: str, visit: ExperimentsVisit, asked: Annotated[ChosenAxes, Query()]
) -> HTMLResponse:
    """A sweep as it is now; the page reloads itself until all cells have ended."""
    sweep = get_sweep(sweep_id, visit)
    table = table_of(sweep_id, visit) if visit.may("reports:read") else None
    ended = sweep.status in ENDED
    statuses, may_write = sweep.progress.statuses, visit.may("experiments:write")
    return visit.page(
        "sweep.html",
        sweep=sweep,
        fields=_fields([cell.values for cell in sweep.cells]),
        ended=ended,
        may_cancel=may_write and not ended and sweep.status != "cancelling",
        may_retry=may_write and any(statuses.get(one) for one in _TRIED_AGAIN),
        costs=list(cost_lines(sweep.costs)),
        cautions=list(cost_cautions(sweep.facts, sweep.costs)),
        view=None if table is None else _view(table, asked),
        figure_words=figure_words,
        document=as_yaml(sweep.asked),
        refresh_seconds=None if ended or asked.refresh == "no" else _REFRESH_SECONDS,
    )


router.add_api_route("/table.{form}", for_visitors(export_sweep_table, "reports:read"))


@router.get("/picture.{form}")
def sweep_picture(
    sweep_id: str, form: PictureForm, visit: ReportsVisit, asked: Annotated[ChosenAxes, Query()]
) -> Response:
    """What the page draws, as a file."""
    picture = _view(table_of(sweep_id, visit), asked)["picture"] or {}
    return as_picture([picture.get("chart")], CHOSEN, form)


@router.post("/cancel")
def post_sweep_cancel(sweep_id: str, form: ExperimentsForm) -> RedirectResponse:
    """Ask for the end of every cell."""
    return form.to(f"/sweeps/{cancel_sweep(sweep_id, form).id}")


@router.post("/retry")
async def post_sweep_retry(sweep_id: str, form: ExperimentsForm) -> RedirectResponse:
    """Queue the failed and cancelled cells once more; the same form queues them only once."""

    def queued() -> Queued[Sweep]:
        again = IdempotentRequest.of(form.once, f"POST /sweeps/{sweep_id}/retry", None)
        return retry_sweep(form, sweep_id, again)

    submitted = await form.run(queued)
    return form.to(f"/sweeps/{submitted.row.id}", *submitted.units)


def _view(table: SweepTable, asked: ChosenAxes) -> dict[str, Any]:
    """The table as the page shows it, and the picture that was asked for."""
    measured = measured_figures(table)
    leading = leading_figures(table, measured)
    return {
        "table": table,
        "fields": _fields([row["values"] for row in table["rows"]]),
        "leading": leading,
        "rest": [name for name in measured if name not in leading],
        "picture": asked.picture(points_of(table), measured, preferred="noise_multiplier"),
    }


def _fields(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {path: [*map(value_words, values)] for path, values in varied_fields(rows).items()}
