"""The lists: experiments and reports with filters, and everything else newest first.

Filters are GET forms; pages go by cursor.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.bodies import validated
from api.pages.templates import home
from api.pages.visits import AnyVisit, ExperimentsVisit, FederationsVisit, ReportsVisit, Visit
from api.pages.wording import cost, figure, small_number
from api.routers.audits import list_audits
from api.routers.experiments import experiment_page
from api.routers.federations import list_federations
from api.routers.ledgers import list_ledgers
from api.routers.reports import list_reports
from api.routers.sweeps import list_sweeps
from api.schemas.base import Page, PageParameters
from api.schemas.experiments import ExperimentBody, ExperimentParameters, Status
from api.schemas.federations import FederationParameters
from api.schemas.reports import ReportBody, ReportParameters
from api.shared.security import require
from fedaudit.fairness.gaps import NARROW, gap_size
from fedaudit.number_text import UNBOUNDED
from fedaudit.privacy.guarantees.cost_sentences import level_words
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import MECHANISMS, mechanism_of
from fedaudit.reports.figures import LargestGap, largest_gap
from fedaudit.reports.sections.guarantee import guarantee_words
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.parse import parse_admitted
from models.repositories import AuditRepository, ReportListRepository
from models.values import ENDED

_UNREADABLE = "cannot be read"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NOT_USEFUL = frozenset(
    {
        "model-decides-nothing",
        "model-not-shown-useful",
        "model-too-good",
        "threshold-misplaced",
        "training-diverged",
    }
)
"""Reasons for an answer that take an accuracy its meaning."""


@dataclass(frozen=True)
class Shown:
    """A figure, and what it is; `share` of 1 draws a bar."""

    text: str
    remark: str
    share: float | None = None


def experiment_row(
    experiment: ExperimentBody, federation: str | None, gap: LargestGap | None = None
) -> dict[str, Any]:
    """The line of an experiment; `gap` is its report's largest, where it has a report, and
    `federation` the name of its data, for visitors who may read federations. A missing figure is
    None, and `reason` says why; `progress` is None once it has ended."""
    mechanism, done = mechanism_of(parse_admitted(experiment.spec)), experiment.progress
    return {
        "experiment": experiment,
        "guarantee": mechanism.guarantee_kind,
        "cost": _cost(experiment, mechanism),
        "gap": None if gap is None else _largest_gap(gap),
        "utility": _utility(experiment),
        "reason": _MISSING[experiment.status],
        "progress": None if experiment.status in ENDED else done.round / max(done.rounds, 1),
        "federation": federation,
    }


def report_row(report: ReportBody, federation: str | None) -> dict[str, Any]:
    """The line of a report. Without a gap, the report's reasons say why."""
    gap, guarantee = report.largest_gap, report.guarantee
    if guarantee is None:
        label, style = _UNREADABLE, "none"
    elif guarantee.kind == "none":  # no reader takes this word for zero
        label, style = UNBOUNDED, "none"
    else:
        label = guarantee_words(guarantee.model_dump())
        style = guarantee.kind if guarantee.in_force else "suspended"
    # A full stop within a number ends no sentence.
    verdict = _SENTENCE_END.split(report.verdict, maxsplit=1)[0] if report.verdict else _UNREADABLE
    if report.answer is not None and report.answer.reasons:
        verdict = report.answer.reasons[0].text
    return {
        "report": report,
        "verdict": verdict,
        "guarantee": label,
        "guarantee_style": style,
        "gap": None if gap is None else _largest_gap(gap),
        "federation": federation,
    }


_MISSING: dict[Status, str] = {
    **dict.fromkeys(("queued", "running", "cancelling"), "not yet"),
    "succeeded": "no figure",
    **dict.fromkeys(("failed", "cancelled"), "no report"),
}
"""Why a figure is missing. A failed run may still have spent privacy budget."""


def _largest_gap(gap: LargestGap) -> Shown:
    words = gap.figure.removesuffix("_difference").replace("_", " ")
    remark = f"{words} by {gap.attribute}"
    if gap.unmeasured:
        remark += f"; none for {', '.join(gap.unmeasured)}"
    # A list has no interval, without which a small gap is not shown to be narrow.
    if gap.value > NARROW and (size := gap_size(gap.figure, gap.value)):
        remark += f"; {size}"
    return Shown(figure(gap.value), remark, share=gap.value if gap.value <= 1 else None)


def _cost(experiment: ExperimentBody, mechanism: PrivacyMechanism) -> Shown | None:
    figures = experiment.figures
    if figures.epsilon_max is not None:
        words = level_words(
            figures.epsilon_max,
            delta=figures.delta or 0.0,
            kind=mechanism.guarantee_kind,
            in_force=mechanism.noise_is_secret,
        )
        if isinstance(mechanism.spec.model.start, ArtifactStart):
            words = f"of what it adds alone: {words}"
        remark = f"at δ = {small_number(figures.delta)}; {words}"
        return Shown(f"ε ≤ {cost(figures.epsilon_max)}", remark)
    if figures.leakage_max is not None:
        return Shown(cost(figures.leakage_max), "leakage, largest")
    return None


def _utility(experiment: ExperimentBody) -> Shown | None:
    figures, answer = experiment.figures, experiment.answer
    if figures.accuracy is not None:
        found = {one.code for one in answer.reasons} if answer else set()
        remark = "accuracy" if found.isdisjoint(_NOT_USEFUL) else "accuracy, not shown to be useful"
        return Shown(figure(figures.accuracy), remark)
    if figures.validation_loss is not None:
        return Shown(figure(figures.validation_loss), "validation loss")
    return None


router = APIRouter()

_ON_A_PAGE, _FEDERATIONS_ON_A_PAGE = 25, 24
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_STATES = ("running", "queued", "succeeded", "failed", "cancelled")
_SORTS = (
    ("-created_at", "Newest first"),
    ("created_at", "Oldest first"),
    ("name", "Name"),
    ("-finished_at", "Ended last"),
)
_EXPERIMENT_SORTS = (
    *_SORTS,
    ("leakage_max", "Smallest leakage"),
    ("equalized_odds_difference", "Smallest equalized-odds gap"),
    ("demographic_parity_difference", "Smallest demographic-parity gap"),
    ("-accuracy", "Largest accuracy"),
    ("validation_loss", "Smallest validation loss"),
)
_OUTCOMES = ("pass", "fail", "insufficient_evidence")
_LABELS = (
    ("", "any"),
    ("formal", "formal"),
    ("formal within the radius", "formal within the radius"),
    ("heuristic", "heuristic"),
    ("none", UNBOUNDED),
)
_IN_FORCE = (("", "any"), ("true", "in force"), ("false", "not in force"))
_SIGN_OFFS = (
    ("", "any"),
    ("none", "not signed off"),
    ("approved", "approved"),
    ("needs-changes", "needs changes"),
    ("rejected", "rejected"),
)
# Filters that a click unfolds; their form keeps all others.
_OF_EXPERIMENTS = ("name", "tag", "mechanism", "federation_id", "alarm", "sort")
_OF_REPORTS = (
    *("search", "person", "federation_id", "label", "in_force"),
    *("finished_after", "finished_before", "sign_off", "sort"),
)


@router.get("/")
def experiments_list(visit: AnyVisit) -> Response:
    """The project's experiments; a key that may not read them opens its first page instead."""
    if not visit.may("experiments:read") and (better := home(visit.caller)) is not None:
        return RedirectResponse(better.path, status_code=303)
    require(visit.caller, "experiments:read")
    asked = visit.asked()
    parameters = validated(ExperimentParameters, {"limit": _ON_A_PAGE, **asked})
    found = experiment_page(visit, parameters)
    names = visit.federation_names()
    with visit.reading() as session:
        reports = ReportListRepository(session, visit.project_id)
        figures = reports.figures([one.id for one in found.items])
    return visit.page(
        "experiments.html",
        rows=[
            experiment_row(one, names.get(one.federation_id), largest_gap(figures.get(one.id, ())))
            for one in found.items
        ],
        **_filtering("/", asked, found.next_cursor, folded=_OF_EXPERIMENTS),
        states=_choice("/", asked, "status", _STATES),
        mechanisms=[("", "any"), *((one.facts.name, one.facts.label) for one in MECHANISMS)],
        federations=[("", "any"), *names.items()],
        sorts=_EXPERIMENT_SORTS,
    )


@router.get("/experiments")
def experiments_address() -> RedirectResponse:
    """The list, where it is looked for beside its items."""
    return RedirectResponse("/", status_code=303)


@router.get("/reports")
def reports_list(visit: ReportsVisit) -> HTMLResponse:
    """The project's reports, for readers who decide by them."""
    asked = visit.asked()
    # A day as an upper bound includes the whole of it.
    upper = {
        name: f"{value}T23:59:59.999999Z"
        for name, value in asked.items()
        if name.endswith("_before") and _DAY.fullmatch(value)
    }
    parameters = validated(ReportParameters, {"limit": _ON_A_PAGE, **asked, **upper})
    found = list_reports(visit, parameters)
    names = visit.federation_names()
    with visit.reading() as session:
        reports = ReportListRepository(session, visit.project_id)
        people, federations = reports.people(), reports.federations()
    return visit.page(
        "reports.html",
        rows=[report_row(one, names.get(one.experiment.federation_id)) for one in found.items],
        **_filtering("/reports", asked, found.next_cursor, folded=_OF_REPORTS),
        outcomes=_choice("/reports", asked, "gate_outcome", _OUTCOMES),
        labels=_LABELS,
        in_force=_IN_FORCE,
        sign_off_states=_SIGN_OFFS,
        sorts=_SORTS,
        people=[("", "any person"), *((name, name) for name in people)],
        federations=[("", "any"), *((id_, names.get(id_, id_)) for id_ in federations)],
    )


def _filters(asked: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in asked.items() if name not in ("cursor", "limit")}


def _filtering(
    path: str, asked: Mapping[str, str], next_cursor: str | None, folded: Sequence[str] = ()
) -> dict[str, Any]:
    filters = _filters(asked)
    following = None if next_cursor is None else _address(path, {**filters, "cursor": next_cursor})
    return {
        "filters": filters,
        "hidden_filters": sum(name in filters for name in folded),
        "kept_filters": {name: text for name, text in filters.items() if name not in folded},
        "first_page": _address(path, filters) if "cursor" in asked else None,
        "next_page": following,
    }


def _choice(
    path: str, asked: Mapping[str, str], name: str, values: Sequence[str]
) -> list[tuple[str, str]]:
    """The values of a filter with the list's address for each, "any" first."""
    return [(value, _address(path, {**_filters(asked), name: value})) for value in ("", *values)]


def _address(path: str, parameters: Mapping[str, str]) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path


@router.get("/federations")
def federations_list(visit: FederationsVisit) -> HTMLResponse:
    """The project's federations, newest first."""
    parameters = {"limit": _FEDERATIONS_ON_A_PAGE, **visit.asked()}
    found = list_federations(visit, validated(FederationParameters, parameters))
    return _newest(visit, "federations", found)


@router.get("/sweeps")
def sweeps_list(visit: ExperimentsVisit) -> HTMLResponse:
    """The project's sweeps, without their cells."""
    return _newest(visit, "sweeps", list_sweeps(visit, _place(visit)))


@router.get("/audits")
def audits_list(visit: ExperimentsVisit) -> HTMLResponse:
    """The project's audits of predictions."""
    found = list_audits(visit, _place(visit))
    with visit.reading() as session:
        audits = AuditRepository(session, visit.project_id)
        degenerate = audits.degenerate([one.id for one in found.items])
    return _newest(visit, "audits", found, degenerate=degenerate)


@router.get("/ledgers")
def ledgers_list(visit: ExperimentsVisit) -> HTMLResponse:
    """The project's ledgers of trainings elsewhere."""
    return _newest(visit, "ledgers", list_ledgers(visit, _place(visit)))


def _place(visit: Visit) -> PageParameters:
    """The page that is asked for, of a list without filters."""
    return validated(PageParameters, {"limit": _ON_A_PAGE, "cursor": visit.asked().get("cursor")})


def _newest(visit: Visit, name: str, found: Page[Any], **more: Any) -> HTMLResponse:
    """A list by the template of its name, newest first."""
    shown = {name: found.items, **_filtering(f"/{name}", visit.asked(), found.next_cursor), **more}
    return visit.page(f"{name}.html", **shown)
