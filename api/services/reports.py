"""Stored reports: listed, compared, and signed off."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from api.http.answers import sorted_key_type
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
from api.services.dispatch import IdempotentRequest
from api.services.lookups import (
    find_experiment,
    find_judged,
    find_report,
    find_stored_report,
    judged_document,
    list_page,
    note,
)
from api.shared.resources import Resources
from api.shared.security import Call, Caller
from fedaudit.ledger.bundle import claim_lines
from fedaudit.ledger.statements import Concern
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.comparison.compared_reports import compare_reports
from fedaudit.reports.comparison.fronts import Comparison
from fedaudit.reports.figures import FAIRNESS, LargestGap, largest_gap, parsed
from fedaudit.reports.verdict.verdict import CONCERN_WORDS, concerns_of
from fedaudit.spec.errors import error_at
from fedaudit.stored import IndexedFigure
from models.clock import utc_now
from models.repositories import ReportListRepository, SignOffRepository
from models.tables.experiments import Experiment, Report, SignOff
from models.values import ListedReport
from models.values import ReportFilters as StoredFilters

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
    figures = ReportListRepository(session, project_id).figures(ids)
    signed = SignOffRepository(session, project_id).newest_of(ids)
    return [
        _body(one, list(figures[one.experiment_id]), signed.get(one.experiment_id)) for one in items
    ]


def _body(one: ListedReport, figures: list[IndexedFigure], sign_off: SignOff | None) -> ReportBody:
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
            "experiment": of_row(
                ListedExperiment, one, id=one.experiment_id, tags=sorted(set(one.tags))
            ),
            "verdict": None,
            "guarantee": None,
            **(one.summary or {}),
            "gate_outcome": one.gate_outcome,
            "sign_off": newest,
            "largest_gap": gap,
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


def claims_file(call: Call, experiment_id: str) -> bytes:
    """What a report claims, a line each; empty for reports of before there were claims. Raises
    ProblemError where there is no report."""
    with call.reading() as session:
        return claim_lines(find_stored_report(session, call.caller, experiment_id).claims or ())


def sign_off_report(
    call: Call, experiment_id: str, asked: SignOffRequest, idempotency: IdempotentRequest
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
                "the API key names no person, so no person would be accountable for the sign-off; "
                "make one that does: fedaudit keys create --person NAME",
            )
        earlier = idempotency.earlier(session, call.caller)
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
            raise error_at("/note", message)
        sign_offs = SignOffRepository(session, call.project_id)
        number = sign_offs.next_number(SignOff, experiment_id)
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
        idempotency.claim(session, call.caller, str(number))
        about: dict[str, Any] = {
            "number": number,
            "decision": asked.decision,
            "report_hash": report.report_hash,
        }
        owner = {"experiment_id": experiment_id, "project_id": call.project_id}
        stated = {"statement": statement.fields(), "created_at": utc_now(), **about}
        added = sign_offs.store(SignOff(**owner, **stated))
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
