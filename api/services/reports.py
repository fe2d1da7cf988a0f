"""Stored reports: listed, compared, and signed off."""

from collections.abc import Sequence
from typing import Any

from pydantic import FiniteFloat, TypeAdapter
from sqlalchemy.orm import Session

from api.http.answers import decode_cursor, encode_cursor
from api.http.problems import ProblemError, invalid
from api.schemas.base import UtcTime
from api.schemas.people import NewestSignOff, SignOffRequest
from api.schemas.reports import ListedFigure, ReportBody, ReportFilters, ReportPage
from api.services.attacks.judged_reports import find_judged, judged_document
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_experiment, find_report
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.sign_offs import Concern
from fedaudit.ledger.sign_offs import SignOff as Statement
from fedaudit.reports.comparison.compared_reports import Comparison, compare_reports
from fedaudit.reports.document.largest_gap import LargestGap, largest_gap
from fedaudit.reports.document.report_figures import FAIRNESS, parsed
from fedaudit.reports.verdict.concerns import CONCERN_WORDS, concerns_of
from fedaudit.spec.base import Text
from fedaudit.spec.errors import FieldError, InvalidInputError
from models.clock import utc_now
from models.report_values import IndexedFigure, ListedReport
from models.report_values import ReportFilters as StoredFilters
from models.repositories import (
    AuditLogRepository,
    ExperimentRepository,
    ReportListRepository,
    SignOffRepository,
)
from models.tables.experiments import Experiment
from models.tables.reports import Report
from models.tables.sign_offs import SignOff

_UNREADABLE = "the stored report could not be read when the list was made; see its verification"
_NO_GATES = "its spec has no gates"
_NOT_SIGNED_OFF = "nobody has signed it off"
_ALTERED = "the stored sign-off cannot be read; see the verification"
_NO_GAP = "no attribute has a difference between groups; `figures` say why for each"


def report_page(resources: Resources, project_id: str, parameters: ReportFilters) -> ReportPage:
    """The reports that pass the filters.

    Raises ProblemError for a cursor of another list, and for sorting by a fairness figure where the
    attribute is ambiguous.
    """
    with resources.database.read() as session:
        reports = ReportListRepository(session, project_id)
        attribute = _sorted_attribute(reports, parameters)
        route = f"reports:{parameters.sort}:{attribute}:{parameters.observer}"
        page = reports.list(
            _stored(parameters),
            cursor=decode_cursor(route, parameters.cursor, _key_of(parameters.sort_key)),
            limit=parameters.limit,
            sort=parameters.sort,
            attribute=attribute,
        )
        items = _bodies(session, project_id, page.items)
    return ReportPage(items=items, next_cursor=encode_cursor(route, page.next_cursor))


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


def _stored(parameters: ReportFilters) -> StoredFilters:
    names = set(StoredFilters.__dataclass_fields__)
    return StoredFilters(**{name: getattr(parameters, name) for name in names})


def _bodies(session: Session, project_id: str, items: list[ListedReport]) -> list[ReportBody]:
    ids = [one.experiment_id for one in items]
    tags = ExperimentRepository(session, project_id).tags(ids)
    figures = ReportListRepository(session, project_id).figures(ids)
    signed = SignOffRepository(session, project_id).newest_of(ids)
    return [
        _body(
            one,
            list(tags[one.experiment_id]),
            list(figures[one.experiment_id]),
            signed.get(one.experiment_id),
        )
        for one in items
    ]


def _body(
    one: ListedReport, tags: list[str], figures: list[IndexedFigure], sign_off: SignOff | None
) -> ReportBody:
    reasons = {} if one.gate_outcome is not None else {"gate_outcome": _NO_GATES}
    newest = None if sign_off is None else _newest(sign_off)
    if sign_off is None:
        reasons["sign_off"] = _NOT_SIGNED_OFF
    elif newest is None:
        reasons["sign_off"] = _ALTERED
    gap = largest_gap(figures)
    if gap is None:
        reasons["largest_gap"] = _NO_GAP
    if one.summary is None:
        reasons |= dict.fromkeys(("verdict", "guarantee"), _UNREADABLE)
    return ReportBody.model_validate(
        {
            "experiment": {
                "id": one.experiment_id,
                "name": one.name,
                "status": one.status,
                "created_at": one.created_at,
                "finished_at": one.finished_at,
                "created_by": one.created_by,
                "tags": tags,
                "federation_id": one.federation_id,
            },
            "verdict": None,
            "guarantee": None,
            **(one.summary or {}),
            "gate_outcome": one.gate_outcome,
            "sign_off": newest,
            "largest_gap": None if gap is None else vars(gap),
            "figures": [_figure(figure) for figure in figures],
            "report_hash": one.report_hash,
            "href": f"/v1/experiments/{one.experiment_id}/report",
            "reasons": reasons,
        }
    )


def _newest(row: SignOff) -> NewestSignOff | None:
    try:
        return NewestSignOff.of(row)
    except ValueError:
        return None


def _figure(one: IndexedFigure) -> ListedFigure:
    return ListedFigure(
        figure=one.figure,
        attribute=one.attribute or None,
        observer=one.observer or None,
        delta=one.delta,
        adjacency=one.adjacency,
        value=one.value,
        reason=one.reason,
    )


def _key_of(sort_key: str) -> TypeAdapter[Any]:
    """The type of the cursors of a list with this order."""
    if sort_key == "name":
        return TypeAdapter(tuple[Text, Text])
    if sort_key in ("created_at", "finished_at"):
        return TypeAdapter(tuple[UtcTime | None, Text])
    return TypeAdapter(tuple[FiniteFloat | None, Text])


def comparison_of(
    resources: Resources,
    caller: Caller,
    experiment_ids: Sequence[str],
    *,
    fairness: str | None = None,
    utility: str | None = None,
) -> Comparison:
    """The comparison of experiments of the caller's project, in this order.

    Raises ProblemError where one of them does not exist, has no report, or has one that was altered
    so much that it cannot be parsed.
    """
    reports = []
    for experiment_id in experiment_ids:
        with resources.database.read() as session:
            try:
                reports.append(parsed(find_judged(session, caller, experiment_id)))
            except ProblemError as error:
                raise ProblemError(
                    error.status, error.slug, f"{experiment_id}: {error.detail}"
                ) from None
            except ValueError:
                raise ProblemError(
                    409,
                    "conflict",
                    f"{experiment_id}: the stored report cannot be read; see its verification",
                ) from None
    return compare_reports(reports, fairness=fairness, utility=utility)


_MOST = 1000
_NOBODY = (
    "the API key names no person, so nobody could be held to the sign-off; make one that does: "
    "fedaudit keys create --person NAME"
)


def sign_off_report(
    resources: Resources,
    caller: Caller,
    experiment_id: str,
    asked: SignOffRequest,
    idempotency: IdempotentRequest | None,
) -> SignOff:
    """Store a sign-off of the experiment's report.

    Raises ProblemError without such a report, where another one was read, and for a key without a
    person; InvalidInputError where the report demands a note.
    """
    with resources.database.write() as session:
        report = find_report(session, caller, experiment_id)
        if caller.person is None:
            raise ProblemError(403, "forbidden", _NOBODY)
        if idempotency is not None:
            earlier = idempotency.lookup(session, caller)
            if earlier is not None:
                return _earlier(session, experiment_id, int(str(earlier.resource_id)))
        if asked.report_hash not in (None, report.report_hash):
            detail = f"the report has the hash {report.report_hash}, another one was read"
            raise ProblemError(409, "conflict", detail)
        concerns = _concerns(session, report)
        if concerns and not asked.note:
            why = " and ".join(CONCERN_WORDS[one] for one in concerns)
            message = f"is needed, because {why}: say why it is signed off as it is"
            raise InvalidInputError([FieldError("/note", message)])
        sign_offs = SignOffRepository(session, caller.project_id)
        number = sign_offs.next_number(experiment_id)
        if number > _MOST:
            raise ProblemError(409, "conflict", f"the report has {_MOST} sign-offs already")
        statement = Statement(
            experiment_id=experiment_id,
            number=number,
            report_hash=report.report_hash,
            decision=asked.decision,
            note=asked.note,
            role=asked.role or caller.person.role,
            concerns=tuple(concerns),
            person=caller.person.name,
            key_id=caller.key_id,
            key_name=caller.key_name,
            by_submitter=_by_submitter(find_experiment(session, caller, experiment_id), caller),
            signed_off_at=utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
        if idempotency is not None:
            idempotency.claim(session, caller, str(number), status_code=201)
        added = sign_offs.add(
            experiment_id,
            caller.project_id,
            number=number,
            report_hash=report.report_hash,
            decision=asked.decision,
            statement=statement.fields(),
        )
        AuditLogRepository(session, caller.project_id).enter(
            "report.signed-off",
            experiment_id,
            by=caller.actor,
            number=number,
            decision=asked.decision,
            report_hash=report.report_hash,
        )
        return added


def sign_offs_of(session: Session, caller: Caller, experiment_id: str) -> list[SignOff]:
    """The report's sign-offs, oldest first. Raises ProblemError without such a report."""
    find_report(session, caller, experiment_id)
    return list(SignOffRepository(session, caller.project_id).list(experiment_id))


def _earlier(session: Session, experiment_id: str, number: int) -> SignOff:
    found = SignOffRepository(session).get(experiment_id, number)
    if found is None:
        raise LookupError(f"sign-off {number} of {experiment_id} was stored and is not there")
    return found


def _concerns(session: Session, report: Report) -> list[Concern]:
    """Also those that attacks raised since it was signed."""
    try:
        return concerns_of(judged_document(session, report))
    except (KeyError, TypeError):
        detail = "the stored report cannot be read; its verification says what was altered"
        raise ProblemError(409, "conflict", detail) from None


def _by_submitter(experiment: Experiment, caller: Caller) -> bool | None:
    """Four eyes are two people: told by the key, and by the name, which two keys may share. Unknown
    where nobody was recorded: a key that names nobody may be anybody's, also the signer's."""
    submitter = experiment.created_by
    if submitter is not None and submitter["key_id"] == caller.key_id:
        return True
    if submitter is None or submitter["person"] is None or caller.person is None:
        return None
    return str(submitter["person"]).casefold() == caller.person.name.casefold()
