"""The report of a run, its fairness figures computed a second time from the rows."""

from typing import Any

from fedaudit.reports.assemble import assemble
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.training.base.round_records import FinalResult


def checked_report(material: ReportMaterial, result: FinalResult) -> dict[str, Any]:
    """The report document of a run that came to its end, not yet signed.

    Raises FiguresDisagreeError where the fairness figures do not follow from the rows that were
    scored.
    """
    # Only now: it imports pandas and scikit-learn, which nothing else in this room needs.
    from fedaudit.reports.sections.cross_check import cross_checked

    return cross_checked(assemble(material), result.predicted, counts=result.fairness)
