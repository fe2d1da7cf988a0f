"""Stored reports: listed, compared, signed off; as a page or a PDF, with the curves of rounds."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from markupsafe import Markup
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse

from api.http.bodies import sorted_key_type
from api.http.problems import ProblemError, conflict, invalid
from api.schemas.base import UtcTime, of_row
from api.schemas.people import NewestSignOff, SignOffRequest
from api.schemas.reports import (
    ListedExperiment,
    ListedFigure,
    ReportBody,
    ReportFilters,
    ReportPage,
)
from api.services.attacks import find_judged, judged_document
from api.services.dispatch import IdempotentRequest, earlier_result
from api.services.lookups import find_experiment, find_report, list_page, note
from api.shared.resources import Resources
from api.shared.security import Call, Caller
from fedaudit.ledger.statements import Concern
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.charts.line_chart import Series, series_of
from fedaudit.reports.comparison.compared_reports import compare_reports
from fedaudit.reports.comparison.fronts import Comparison
from fedaudit.reports.figures import FAIRNESS, LargestGap, largest_gap, parsed
from fedaudit.reports.verdict.verdict import CONCERN_WORDS, concerns_of
from fedaudit.spec.errors import FieldError, InvalidInputError
from infrastructure.storage import StorageError, report_pdf_key
from models.clock import utc_now
from models.database import Database
from models.repositories import (
    ExperimentRepository,
    FairnessRepository,
    LaterAttacksRepository,
    ReportListRepository,
    RoundRepository,
    SignOffRepository,
)
from models.tables.experiments import Experiment, LaterAttacks, Report, SignOff
from models.values import FairnessRow, IndexedFigure, ListedReport, RoundRow
from models.values import ReportFilters as StoredFilters

if TYPE_CHECKING:
    from fedaudit.reports.page.html import Link
    from fedaudit.reports.page.later_attempts import LaterAttempt


log = structlog.get_logger()

MAX_ROUNDS = 2000
"""Rounds read for a series: a page is requested again and again."""
_AT_ONCE = 1000
_MAX_ATTRIBUTES = 100
_SAYING_REASONS = ("not-repeated", "no-model", "ledger-altered")
"""Ends of later attacks whose stored detail quotes no data."""

Row = TypeVar("Row", RoundRow, FairnessRow)


@dataclass(frozen=True)
class LiveFigures:
    """The rounds that are drawn, and the newest of them separately."""

    series: Series
    newest: RoundRow | None
    """The last round; None where there is none yet."""
    validated: RoundRow | None
    """The last round that was validated; None where none was."""
    fairness: Sequence[FairnessRow]
    """The gaps of each attribute, in that round."""


def live_figures(session: Session, experiment: Experiment) -> LiveFigures:
    """The public figures of the rounds so far; counts of groups are not shown."""
    id_, project_id, done = experiment.id, experiment.project_id, experiment.rounds_done
    between = experiment.spec["training"]["stopping"]["validate_every"]
    validated = done if done == experiment.rounds_total else done - done % between
    rounds = RoundRepository(session, project_id)
    fairness: list[FairnessRow] = []
    if validated:
        found = FairnessRepository(session, project_id).after(id_, validated - 1, _MAX_ATTRIBUTES)
        fairness = [row for row in found if row.round == validated]

    def row(number: int) -> RoundRow | None:
        found = number and rounds.after(id_, number - 1, 1)
        return found[0] if found else None

    return LiveFigures(
        series=_series(session, experiment),
        newest=row(done),
        validated=row(validated),
        fairness=fairness,
    )


def _series(session: Session, experiment: Experiment) -> Series:
    """The public figures of an experiment's rounds, without counts of groups; of very many, as many
    as a page can draw: the first, the last and those between that a number divides."""
    id_, project_id, done = experiment.id, experiment.project_id, experiment.rounds_done
    every = _spaced(done, experiment.spec["training"]["stopping"]["validate_every"])
    among = None if every == 1 else [1, *range(every, done, every), done]
    rounds, fairness = RoundRepository(session, project_id), FairnessRepository(session, project_id)

    def fairness_behind(last: FairnessRow | None) -> list[FairnessRow]:
        round_, attribute = (0, None) if last is None else (last.round, last.attribute)
        place: dict[str, Any] = {"after_attribute": attribute, "counts": False, "among": among}
        return fairness.after(id_, round_, _AT_ONCE, **place)

    def rounds_behind(last: RoundRow | None) -> list[RoundRow]:
        return rounds.after(id_, 0 if last is None else last.round, _AT_ONCE, among=among)

    return series_of(_all(rounds_behind), _all(fairness_behind), every=every)


def _spaced(rounds: int, between: int) -> int:
    """A multiple of the interval between validations, so that validated rounds are not left out."""
    if rounds <= MAX_ROUNDS:
        return 1
    return between * -(-rounds // (MAX_ROUNDS * between))


def _all(behind: Callable[[Row | None], list[Row]]) -> list[Row]:
    """The rows, page after page."""
    found: list[Row] = []
    while page := behind(found[-1] if found else None):
        found += page
        if len(page) < _AT_ONCE:
            break
    return found


def stored_page(
    database: Database,
    caller: Caller,
    experiment_id: str,
    *,
    links: "Sequence[Link]" = (),
    tail: Markup | None = None,
) -> HTMLResponse:
    """The report with the curves of its rounds, between `links` and `tail`; the page loads and runs
    nothing. Raises ProblemError where the caller's project has no such report."""
    page = page_html(database, caller, experiment_id, links=links, tail=tail)
    return page_response(page, has_forms=tail is not None)


def page_response(page: str, *, has_forms: bool = False) -> HTMLResponse:
    """A report's page with the policy under which it loads and runs nothing."""
    # Imported here because most calls do not need templates.
    from fedaudit.reports.page.html import style_hash

    # Only the service's own additions have a form.
    forms = "'self'" if has_forms else "'none'"
    policy = (
        f"default-src 'none'; style-src {style_hash()}; img-src data:; base-uri 'none'; "
        f"form-action {forms}; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    if has_forms:
        # Else browsers hide the form's origin, and it would be taken for another site's.
        headers["Referrer-Policy"] = "same-origin"
    return HTMLResponse(page, headers=headers)


def page_html(
    database: Database,
    caller: Caller,
    experiment_id: str,
    *,
    links: "Sequence[Link]" = (),
    tail: Markup | None = None,
) -> str:
    """The page's HTML. Raises ProblemError as above."""
    from fedaudit.reports.page.html import render
    from fedaudit.reports.page.later_attempts import later_attempts

    with database.read() as session:
        report = find_report(session, caller, experiment_id)
        series = _series(session, find_experiment(session, caller, experiment_id))
        rows = LaterAttacksRepository(session, caller.project_id).list(experiment_id)
    later = later_attempts(report.document, [_attempt(row) for row in rows])
    return render(report.document, series, links=links, tail=tail, later=later)


def _attempt(row: LaterAttacks) -> "LaterAttempt":
    from fedaudit.reports.page.later_attempts import LaterAttempt

    by, statement = row.created_by, row.statement
    # All readers see the same page, and a detail may quote the data.
    said = row.status_reason in _SAYING_REASONS
    return LaterAttempt(
        number=row.number,
        status=row.status,
        reason=row.status_detail if said else row.status_reason,
        kinds=[one["kind"] for one in row.asked],
        asked_by=by["person"] or f"the key {by['key_name']}",
        asked_at=row.created_at.isoformat(),
        finished_at=None if row.finished_at is None else row.finished_at.isoformat(),
        basis=None if statement is None else statement["basis"],
        sections=[] if statement is None else statement["attacks"],
    )


def stored_pdf(call: Call, experiment_id: str) -> bytes:
    """The PDF. It is printed once and then kept beside
    the uploaded files; the version before it is removed. Raises ProblemError where the caller's
    project has no such report, and where printing fails."""
    # Imported here because most calls need no templates.
    from fedaudit.reports.page.pdf import paper_page

    page = page_html(call.resources.database, call.caller, experiment_id)
    digest = hashlib.sha256(paper_page(page).encode()).hexdigest()
    key = report_pdf_key(experiment_id, digest)
    try:
        if call.resources.storage.holds(key):
            with call.resources.storage.local(key) as path:
                return path.read_bytes()
    except StorageError as error:
        log.warning("printed report not read", detail=str(error))
    pdf = call.resources.printer.pdf(page)
    # A failure to keep it is no reason to refuse what was printed.
    try:
        with call.resources.storage.writer(key) as writer:
            writer.write(pdf)
        for superseded in call.resources.storage.beside(key):
            call.resources.storage.delete(superseded)
    except StorageError as error:
        log.warning("printed report not kept", detail=str(error))
    return pdf


_UNREADABLE = "the stored report could not be read when the list was made; see its verification"
_MOST_SIGN_OFFS = 1000


def report_page(resources: Resources, project_id: str, parameters: ReportFilters) -> ReportPage:
    """The reports that pass the filters. Raises ProblemError for a cursor of another list, and for
    sorting by a fairness figure where the attribute is ambiguous."""
    names = StoredFilters.__dataclass_fields__
    filters = StoredFilters(**{name: getattr(parameters, name) for name in names})
    with resources.database.read() as session:
        reports = ReportListRepository(session, project_id)
        attribute = _sorted_attribute(reports, parameters)
        return list_page(
            ReportPage,
            f"reports:{parameters.sort}:{attribute}:{parameters.observer}",
            parameters,
            partial(reports.list, filters, sort=parameters.sort, attribute=attribute),
            partial(_bodies, session, project_id),
            key=sorted_key_type(parameters.sort_key, UtcTime, "finished_at"),
        )


def largest_gaps(
    resources: Resources, project_id: str, ids: list[str]
) -> dict[str, LargestGap | None]:
    """The largest gap in the report of each of these experiments that has one."""
    with resources.database.read() as session:
        figures = ReportListRepository(session, project_id).figures(ids)
    return {id_: largest_gap(of) for id_, of in figures.items()}


def _sorted_attribute(reports: ReportListRepository, parameters: ReportFilters) -> str:
    """The attribute of the figure that is sorted by; empty where the figure has none."""
    if parameters.sort_key not in FAIRNESS:
        return ""
    if parameters.attribute is not None:
        return parameters.attribute
    found = reports.attributes(parameters.sort_key)
    if len(found) > 1:
        message = (
            f"the reports measure {parameters.sort_key} for {len(found)} attributes; give one of "
            f"{', '.join(found)}"
        )
        raise invalid("/query/attribute", message)
    return found[0] if found else ""


def _bodies(session: Session, project_id: str, items: Sequence[ListedReport]) -> list[ReportBody]:
    ids = [one.experiment_id for one in items]
    tags = ExperimentRepository(session, project_id).tags(ids)
    figures = ReportListRepository(session, project_id).figures(ids)
    signed = SignOffRepository(session, project_id).newest_of(ids)
    return [
        _body(one, list(tags[id_]), list(figures[id_]), signed.get(id_))
        for one in items
        for id_ in (one.experiment_id,)
    ]


def _body(
    one: ListedReport, tags: list[str], figures: list[IndexedFigure], sign_off: SignOff | None
) -> ReportBody:
    reasons, newest, gap = dict[str, str](), None, largest_gap(figures)
    if one.gate_outcome is None:
        reasons["gate_outcome"] = "its spec has no gates"
    if sign_off is None:
        reasons["sign_off"] = "not signed off yet"
    else:
        with suppress(ValueError):
            newest = NewestSignOff.of(sign_off)
        if newest is None:
            reasons["sign_off"] = "the stored sign-off cannot be read; see the verification"
    if gap is None:
        why = "no attribute has a difference between groups; `figures` say why for each"
        reasons["largest_gap"] = why
    if one.summary is None:
        reasons |= dict.fromkeys(("verdict", "guarantee"), _UNREADABLE)
    return ReportBody.model_validate(
        {
            "experiment": of_row(ListedExperiment, one, id=one.experiment_id, tags=tags),
            "verdict": None,
            "guarantee": None,
            **(one.summary or {}),
            "gate_outcome": one.gate_outcome,
            "sign_off": newest,
            "largest_gap": None if gap is None else vars(gap),
            "figures": [
                of_row(
                    ListedFigure,
                    figure,
                    attribute=figure.attribute or None,
                    observer=figure.observer or None,
                )
                for figure in figures
            ],
            "report_hash": one.report_hash,
            "href": f"/v1/experiments/{one.experiment_id}/report",
            "reasons": reasons,
        }
    )


def comparison_of(
    call: Call,
    experiment_ids: Sequence[str],
    *,
    fairness: str | None = None,
    utility: str | None = None,
) -> Comparison:
    """The comparison of experiments of the caller's project, in this order. Raises ProblemError
    where one of them does not exist, has no report, or has one that was altered so much that it
    cannot be parsed."""
    reports = []
    for id_ in experiment_ids:
        with call.reading() as session:
            try:
                reports.append(parsed(find_judged(session, call.caller, id_)))
            except ProblemError as error:
                raise ProblemError(error.status, error.slug, f"{id_}: {error.detail}") from None
            except ValueError:
                detail = f"{id_}: the stored report cannot be read; see its verification"
                raise conflict(detail) from None
    return compare_reports(reports, fairness=fairness, utility=utility)


def sign_off_report(
    call: Call, experiment_id: str, asked: SignOffRequest, idempotency: IdempotentRequest | None
) -> SignOff:
    """Store a sign-off of the experiment's report, which a worker's process signs afterwards.
    Raises ProblemError without such a report, where another one was read, and for a key without a
    person; InvalidInputError where the report demands a note."""
    with call.writing() as session:
        report = find_report(session, call.caller, experiment_id)
        if call.caller.person is None:
            raise ProblemError(
                403,
                "forbidden",
                "the API key names no person, so nobody would be accountable for the sign-off; "
                "make one that does: fedaudit keys create --person NAME",
            )
        earlier = earlier_result(session, call.caller, idempotency)
        if earlier is not None:
            found = SignOffRepository(session).get(experiment_id, int(earlier))
            if found is None:
                raise LookupError(f"sign-off {earlier} of {experiment_id} was stored and is lost")
            return found
        if asked.report_hash not in (None, report.report_hash):
            raise conflict(f"the report has the hash {report.report_hash}, another one was read")
        concerns = _concerns(session, report)
        if concerns and not asked.note:
            why = " and ".join(CONCERN_WORDS[one] for one in concerns)
            message = f"is needed, because {why}: say why it is signed off as it is"
            raise InvalidInputError([FieldError("/note", message)])
        sign_offs = SignOffRepository(session, call.project_id)
        number = sign_offs.next_number(experiment_id)
        if number > _MOST_SIGN_OFFS:
            raise conflict(f"the report has {_MOST_SIGN_OFFS} sign-offs already")
        statement = Statement(
            experiment_id=experiment_id,
            number=number,
            report_hash=report.report_hash,
            decision=asked.decision,
            note=asked.note,
            role=asked.role or call.caller.person.role,
            concerns=tuple(concerns),
            person=call.caller.person.name,
            key_id=call.caller.key_id,
            key_name=call.caller.key_name,
            by_submitter=_by_submitter(
                find_experiment(session, call.caller, experiment_id), call.caller
            ),
            signed_off_at=utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
        if idempotency is not None:
            idempotency.claim(session, call.caller, str(number))
        about: dict[str, Any] = {
            "number": number,
            "decision": asked.decision,
            "report_hash": report.report_hash,
        }
        owner = {"experiment_id": experiment_id, "project_id": call.project_id}
        stated = {"statement": statement.fields(), "created_at": utc_now(), **about}
        added = sign_offs.add(SignOff(**owner, **stated))
        note(session, call.caller, "report.signed-off", experiment_id, **about)
        return added


def sign_offs_of(session: Session, caller: Caller, experiment_id: str) -> list[SignOff]:
    """The report's sign-offs, oldest first. Raises ProblemError without such a report."""
    find_report(session, caller, experiment_id)
    return list(SignOffRepository(session, caller.project_id).list(experiment_id))


def _concerns(session: Session, report: Report) -> list[Concern]:
    """The report's concerns, with those that attacks raised since it was signed."""
    try:
        return concerns_of(judged_document(session, report))
    except (KeyError, TypeError):
        detail = "the stored report cannot be read; its verification says what was altered"
        raise conflict(detail) from None


def _by_submitter(experiment: Experiment, caller: Caller) -> bool | None:
    """Whether the submitter signs off, against the four-eyes principle: by the key, or by the name,
    which two keys may share. None where no name is recorded: such a key may be anyone's."""
    submitter = experiment.created_by
    if submitter is not None and submitter["key_id"] == caller.key_id:
        return True
    if submitter is None or submitter["person"] is None or caller.person is None:
        return None
    return str(submitter["person"]).casefold() == caller.person.name.casefold()
