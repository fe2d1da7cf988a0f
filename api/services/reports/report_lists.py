"""Pages of a project's reports, found and sorted by any figure."""

from typing import Any

from pydantic import FiniteFloat, TypeAdapter
from sqlalchemy.orm import Session

from api.http.cursors import decode_cursor, encode_cursor
from api.http.problems import invalid
from api.schemas.base import UtcTime
from api.schemas.people import NewestSignOff
from api.schemas.reports import ListedFigure, ReportBody, ReportFilters, ReportPage
from api.shared.resources import Resources
from fedaudit.reports.document.largest_gap import LargestGap, largest_gap
from fedaudit.reports.document.report_figures import FAIRNESS
from fedaudit.spec.base import Text
from models.repositories import ExperimentRepository, ReportListRepository, SignOffRepository
from models.tables.reports import SignOff
from models.values import IndexedFigure, ListedReport
from models.values import ReportFilters as StoredFilters

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
    if sort_key == "created_at":
        return TypeAdapter(tuple[Text])
    if sort_key == "finished_at":
        return TypeAdapter(tuple[UtcTime | None, Text])
    return TypeAdapter(tuple[FiniteFloat | None, Text])
