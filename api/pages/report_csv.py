"""The list of reports as a table, read page by page while it is sent."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from api.http.bodies import validated
from api.pages.report_rows import report_row
from api.pages.wording import iso
from api.schemas.reports import ReportBody, ReportParameters
from api.services.reports import report_page
from api.shared.resources import Resources
from fedaudit.spreadsheet import plain_text

_AT_ONCE = 500
COLUMNS = (
    *("id", "name", "federation_id", "federation", "finished_at", "submitted_by", "key"),
    *("verdict", "degenerate", "guarantee", "largest_gap", "gap_metric", "gap_attribute"),
    *("unmeasured", "gate_outcome", "sign_off", "signed_off_by", "signed_off_at", "report_hash"),
)


def report_csv(
    resources: Resources, project_id: str, asked: Mapping[str, str], *, names: Mapping[str, str]
) -> Iterator[str]:
    """The lines, the column names first. `names`: of federations, by id.

    Raises InvalidInputError for filters that the list refuses, before the first line.
    """
    first = _parameters(asked, cursor=None)
    return _lines(resources, project_id, asked, first, names)


def _lines(
    resources: Resources,
    project_id: str,
    asked: Mapping[str, str],
    parameters: ReportParameters,
    names: Mapping[str, str],
) -> Iterator[str]:
    yield _line(COLUMNS)
    while True:
        found = report_page(resources, project_id, parameters)
        yield "".join(_line(_cells(one, names)) for one in found.items)
        if found.next_cursor is None:
            return
        parameters = _parameters(asked, cursor=found.next_cursor)


def _parameters(asked: Mapping[str, str], *, cursor: str | None) -> ReportParameters:
    given: dict[str, Any] = {**asked, "limit": _AT_ONCE}
    given.pop("cursor", None)
    return validated(ReportParameters, given if cursor is None else {**given, "cursor": cursor})


def _cells(report: ReportBody, names: Mapping[str, str]) -> list[object]:
    experiment, gap = report.experiment, report.largest_gap
    row = report_row(report, names.get(experiment.federation_id))
    by = experiment.created_by
    return [
        experiment.id,
        plain_text(experiment.name),
        experiment.federation_id,
        plain_text(row.federation or ""),
        "" if experiment.finished_at is None else iso(experiment.finished_at),
        "" if by is None or by.person is None else plain_text(by.person),
        "" if by is None else plain_text(by.key_name),
        plain_text(row.verdict),
        {True: "yes", False: "no", None: "not known"}[report.degenerate],
        row.guarantee,
        *(
            ("", "", "", "")
            if gap is None
            else (
                gap.value,
                gap.figure,
                plain_text(gap.attribute),
                plain_text(", ".join(gap.unmeasured)),
            )
        ),
        report.gate_outcome or "no gates",
        *(
            ("", "", "")
            if report.sign_off is None
            else (
                report.sign_off.decision,
                plain_text(report.sign_off.person),
                iso(report.sign_off.signed_off_at),
            )
        ),
        report.report_hash,
    ]


def _line(cells: "tuple[str, ...] | list[object]") -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()
