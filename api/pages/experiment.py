"""One experiment: its state, its newest figures and curves, and its end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.pages.spec_preview import as_yaml
from api.pages.visits import ExperimentsForm, ExperimentsVisit, Visit, as_picture
from api.pages.wording import NONE, cost, figure, small_number
from api.services.clients import shown_clients
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_experiment, gone_words, judged_document
from api.services.report_pages import LiveFigures, live_figures
from api.services.submission import RETRIED, Submitted, cancel, retry
from api.shared.data_faults import shown_detail
from fedaudit.number_text import FigureTable, interval_text
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.charts.drawing import Chart
from fedaudit.reports.charts.report_charts import round_charts
from fedaudit.reports.page.picture_files import PictureForm
from fedaudit.reports.report import has_present_form, section_rows
from fedaudit.reports.sections.part import FigureRow
from fedaudit.reports.sections.ranking import weighted_words
from fedaudit.reports.verdict.release import answer_of, training_words
from fedaudit.spec.metrics import ROUND_METRICS
from fedaudit.spec.parse import parse_admitted
from fedaudit.stored import RoundRow
from models.repositories import FederationRepository, ReportRepository, SweepRepository
from models.tables.experiments import Experiment
from models.tables.experiments import Report as StoredReport
from models.values import ENDED, utc_now

Report = Mapping[str, Any]

_NO_ROUND = "no round is stored yet"
_NOT_VALIDATED = "no round was validated yet"
_LEAKAGE_RESTS_ON = {
    "formal": "formal, within the fixed radius",
    "heuristic": "heuristic: the papers' convention, not proven",
    "none": "nothing is proven",
}
_WHY_ENDED = {
    "worker-lost": (
        "Its workers were lost, again and again.",
        "Retry it. If it happens again, look for workers that run out of memory.",
    ),
    "worker-error": (
        "A worker failed on it.",
        "The worker's log has the details. Retry it once the cause is repaired.",
    ),
    "invalid-data": (
        "The data could not be used with this spec.",
        "Correct the data or the spec, and submit it again.",
    ),
    "diverged": ("Its training did not converge.", ""),
    "figures-disagree": (
        "Its fairness figures, computed a second time from the rows, came out differently.",
        "Nothing was published. Please report it, with the attribute and the figure named here.",
    ),
    "budget-exhausted": (
        "The federation's budget had no room left while it ran.",
        "Raise the budget, or ask for fewer rounds or more noise.",
    ),
    "cancelled-by-caller": (
        "A user cancelled it.",
        "What it had spent stays spent. Retry queues the same spec once more.",
    ),
}


def tiles(experiment: Experiment, live: LiveFigures, report: Report | None) -> list[FigureRow]:
    """The costs so far, the loss and, of classifiers, the accuracy: of the newest rounds, or as the
    report states them of the best round."""
    names = {"validation_loss": "Validation loss"}
    if experiment.spec["training"]["loss"] == "cross-entropy":
        names["accuracy"] = "Accuracy"
    costs = [_of_round(live.newest, *one, _NO_ROUND) for one in _costs(experiment)]
    if report is not None:
        # A round may be validated on a sample, and the last is seldom the best.
        final = {one.name: one for one in section_rows(report)["utility"]}
        if (accuracy := final.get("accuracy")) and (weighted := weighted_words(report)):
            final["accuracy"] = replace(accuracy, note=weighted)
        # A figure that is missing for the same reason as one before it has no row.
        missing = {name: FigureRow(label, NONE, name=name) for name, label in names.items()}
        return [*costs, *(final.get(name, missing[name]) for name in names)]
    why = _NO_ROUND if live.newest is None else _NOT_VALIDATED
    return [*costs, *(_of_round(live.validated, *one, None, why) for one in names.items())]


def gap_table(experiment: Experiment, live: LiveFigures, report: Report | None) -> FigureTable:
    """The gaps between the groups of each attribute, in the experiment's order: of the newest
    validated round, or as the report states them."""
    rounds = {row.attribute: {one["metric"]: one for one in row.figures} for row in live.fairness}
    known = {name: rounds.get(name, {}) for name in experiment.attributes}
    if report is not None:
        known = {one["attribute"]: one["metrics"] for one in report["fairness"]}
    none = {"value": None, "reason": _NOT_VALIDATED}
    rows = []
    for attribute, own in known.items():
        gaps = [own.get(metric, none) for metric in ROUND_METRICS]
        why = dict.fromkeys(one["reason"] for one in gaps if one["value"] is None)
        rows.append((attribute, *map(_gap, gaps), "; ".join(filter(None, why))))
    head = [metric.replace("_", " ").capitalize() for metric in ROUND_METRICS]
    return FigureTable(("Attribute", *head, "Note"), rows)


def _gap(found: Mapping[str, Any]) -> str:
    value, interval = figure(found["value"]), found.get("interval")
    if interval is None:
        return value
    return f"{value} ({interval_text(interval)}, {figure(100 * interval['level'])} %)"


def _costs(experiment: Experiment) -> list[tuple[str, str, str]]:
    """The names of costs in rounds, their labels, and what they rest on."""
    if (inputs := experiment.mechanism_inputs) is not None:
        delta, adjacency = small_number(inputs["delta"]), adjacency_words(inputs["adjacency"])
        terms = f"at delta = {delta}, {adjacency}, against the observer that learns most"
        return [("epsilon_max", "Epsilon, largest", terms)]
    if experiment.noise_multiplier is None:
        return [("epsilon_max", "Privacy cost", "")]
    rests_on = _LEAKAGE_RESTS_ON[mechanism_of(parse_admitted(experiment.spec)).guarantee_kind]
    return [
        ("leakage_max", "Leakage, largest", rests_on),
        ("leakage_median", "Leakage, median", "of a training client"),
    ]


def _of_round(
    row: RoundRow | None, name: str, label: str, terms: str | None, missing: str
) -> FigureRow:
    """A figure of a round. `terms`: what a cost rests on, None for other figures; `missing`: why
    there is none where the round does not say."""
    if row is None or getattr(row, name) is None:
        why = missing if row is None else row.reasons.get(name, missing)
        return FigureRow(label, NONE, why, name)
    value = getattr(row, name)
    if terms is None:
        return FigureRow(label, figure(value), f"in round {row.round}", name)
    # Rounds that were lost with a worker are charged and have no row.
    return FigureRow(label, cost(value), f"after round {row.round}; {terms}", name)


def time_left(started_at: datetime | None, now: datetime, *, done: int, rounds: int) -> str:
    """Since when a run trains, and how long its other rounds take at that pace; empty before the
    first round. The pace is that of all rounds so far, waiting included. Training may stop early,
    so the time left is the most that it takes at this pace."""
    if started_at is None or done < 1 or now < started_at:
        return ""
    elapsed = now - started_at
    words = f"running for {_length(elapsed)}"
    if done >= rounds:
        return f"{words}, the report is being made"
    return f"{words}, at this pace at most {_length(elapsed * (rounds - done) / done)} more"


def _length(time: timedelta) -> str:
    seconds = max(round(time.total_seconds()), 1)
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


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
        federation = None
        if visit.may("federations:read"):
            federation = FederationRepository(session, visit.project_id).get(row.federation_id)
        place = SweepRepository(session, visit.project_id).places([row.id]).get(row.id)
        live = live_figures(session, row)
        stored, report = _report(session, visit, row)
        clients = shown_clients(session, visit.caller, stored)
    ended, spec = row.status in ENDED, parse_admitted(row.spec)
    reason = row.status_reason or "no reason was stored"
    pace = time_left(row.started_at, utc_now(), done=row.rounds_done, rounds=row.rounds_total)
    return visit.page(
        "experiment.html",
        experiment=row,
        answer=None if report is None else answer_of(report),
        detail=shown_detail(row.status_reason, row.status_detail, caller=visit.caller),
        tags=sorted(set(row.spec["tags"])),
        federation=None if federation is None else federation.name,
        sweep=place,
        ended=ended,
        why=_WHY_ENDED.get(reason, (f"It ended: {reason}.", "")) if row.status in RETRIED else None,
        may_cancel=not ended and row.status != "cancelling" and visit.may("experiments:write"),
        may_retry=row.status in RETRIED and visit.may("experiments:write"),
        guarantee_kind=mechanism_of(spec).guarantee_kind,
        tiles=tiles(row, live, report),
        gaps=gap_table(row, live, report),
        pace="" if ended else pace,
        how_it_ended=None if report is None else f"{training_words(report)}.",
        charts=_charts(row, live, report),
        gates=spec.gates,
        report=report,
        clients=clients,
        experiment_id=row.id,
        gone_model=gone,
        document=as_yaml(row.spec),
        refresh_seconds=None if ended or refresh == "no" else _REFRESH_SECONDS,
    )


@router.get("/charts/{name}.{form}")
def experiment_picture(
    experiment_id: str, name: str, form: PictureForm, visit: ExperimentsVisit
) -> Response:
    """A chart of the page, as a file."""
    with visit.reading() as session:
        row = find_experiment(session, visit.caller, experiment_id)
        _, report = _report(session, visit, row)
        charts = _charts(row, live_figures(session, row), report)
    return as_picture(charts, name, form)


@router.post("/cancel")
def post_cancel(experiment_id: str, form: ExperimentsForm) -> RedirectResponse:
    """Ask for the experiment's end."""
    return form.to(f"/experiments/{cancel(form, experiment_id).id}")


@router.post("/retry")
async def post_retry(experiment_id: str, form: ExperimentsForm) -> RedirectResponse:
    """Queue the spec once more; the same form queues it only once."""

    def queued() -> Submitted:
        row = form.find(find_experiment, experiment_id)
        again = IdempotentRequest.of(form.once, f"POST /experiments/{row.id}/retry", None)
        return retry(form, row, again)

    submitted = await form.run(queued)
    return form.to(f"/experiments/{submitted.row.id}", *submitted.units)


def _report(
    session: Session, visit: Visit, row: Experiment
) -> tuple[StoredReport | None, dict[str, Any] | None]:
    """The report as it is stored, and as it is judged by now; None until there is one that this
    version reads. Visitors who may read none get the first alone, for what else is kept with it."""
    found = ReportRepository(session, visit.project_id).get(row.id) if row.status in ENDED else None
    if found is None or not has_present_form(found.document):
        return None, None
    return found, judged_document(session, found) if visit.may("reports:read") else None


def _charts(row: Experiment, live: LiveFigures, report: dict[str, Any] | None) -> Sequence[Chart]:
    delta = None if row.mechanism_inputs is None else row.mechanism_inputs["delta"]
    best = None if report is None else report["utility"]["best_round"]
    return round_charts(live.series, list(live.series.gaps), delta=delta, best=best).every
