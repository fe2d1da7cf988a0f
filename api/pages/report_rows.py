"""Reports as their list shows them: a line each, with what one decides by."""

import re
from dataclasses import dataclass

from api.pages.experiment_rows import Shown, shown_gap
from api.schemas.reports import ReportBody
from fedaudit.reports.comparison.parts import ComparedGuarantee
from fedaudit.reports.sections.guarantee import guarantee_words

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_UNREADABLE = "cannot be read"
UNBOUNDED = "unbounded"
"""The label of a run without protection: nothing bounds what it reveals."""


@dataclass(frozen=True)
class ReportRow:
    """One line. Without a gap, the report's reasons say why."""

    report: ReportBody
    verdict: str
    """The first sentence."""
    guarantee: str
    guarantee_style: str
    gap: Shown | None
    federation: str | None
    """The name of its data, where the visitor may know it."""


def report_row(report: ReportBody, federation: str | None) -> ReportRow:
    """The line of a report."""
    gap = report.largest_gap
    return ReportRow(
        report=report,
        verdict=first_sentence(report.verdict) if report.verdict else _UNREADABLE,
        guarantee=_UNREADABLE if report.guarantee is None else guarantee_label(report.guarantee),
        guarantee_style=_style(report.guarantee),
        gap=None if gap is None else shown_gap(gap),
        federation=federation,
    )


def first_sentence(text: str) -> str:
    """The text up to its first full stop; one within a number ends nothing."""
    return _END.split(text, maxsplit=1)[0]


def guarantee_label(guarantee: ComparedGuarantee) -> str:
    """In words; a run without protection is unbounded, which no reader takes for zero."""
    if guarantee.kind == "none":
        return UNBOUNDED
    return guarantee_words(guarantee.model_dump())


def _style(guarantee: ComparedGuarantee | None) -> str:
    if guarantee is None or guarantee.kind == "none":
        return "none"
    return guarantee.kind if guarantee.in_force else "suspended"
