"""The figures by which a report is found, taken from its document."""

from collections.abc import Mapping
from typing import Any

from fedaudit.reports.document.report_figures import ReportFigure, figures_of, parsed
from models.values import IndexedFigure, ReportIndex


def report_index(document: Mapping[str, Any]) -> ReportIndex:
    """The index of a report document. Raises ValueError where it does not have that form."""
    report = parsed(document)
    return ReportIndex(
        guarantee_kind=report.guarantee.kind,
        in_force=report.guarantee.in_force is True,
        unit=report.guarantee.unit,
        summary={
            "verdict": report.verdict,
            "degenerate": report.utility.degenerate,
            "guarantee": report.guarantee.model_dump(exclude={"statement"}),
        },
        figures=[_indexed(one) for one in figures_of(report)],
    )


def _indexed(one: ReportFigure) -> IndexedFigure:
    return IndexedFigure(
        figure=one.figure,
        attribute=one.attribute or "",
        observer=one.observer or "",
        delta=one.delta,
        adjacency=one.adjacency,
        value=one.value,
        reason=one.reason,
    )
