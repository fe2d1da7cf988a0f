"""The report of a run, its fairness figures computed a second time from the rows."""

from dataclasses import replace
from typing import Any, assert_never

from fedaudit.fairness.published_counts import ExactCounts, NoisedCounts, RoundedCounts
from fedaudit.reports.report import assemble
from fedaudit.reports.report_progress import Progressed, unfollowed
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.reports.sections.material import ReportMaterial
from fedaudit.reports.sections.published_fairness import exact_sections
from fedaudit.training.base.round_records import FinalResult


def checked_report(
    material: ReportMaterial, result: FinalResult, *, progressed: Progressed = unfollowed
) -> dict[str, Any]:
    """The report document of a run that came to its end, not yet signed.

    `progressed` is called between its parts. Raises FiguresDisagreeError where the fairness figures
    do not follow from the rows that were scored.
    """
    material = replace(material, progressed=progressed)
    # Only now: it imports pandas and scikit-learn, which nothing else in this room needs.
    from fedaudit.reports.sections.cross_check import cross_checked

    match material.published:
        case ExactCounts():
            report = assemble(material)
            return cross_checked(report, result.predicted, counts=result.fairness)
        case RoundedCounts() | NoisedCounts():
            _check_unpublished(material, result)
            return assemble(material)
        case _:
            assert_never(material.published)


def _check_unpublished(material: ReportMaterial, result: FinalResult) -> None:
    """That exact figures follow from the rows, where other figures are published.

    Raises FiguresDisagreeError without the figures: the reason why a run failed is published.
    """
    from fedaudit.reports.sections.cross_check import cross_checked

    sections = exact_sections(material)
    exact = {"fairness": [one.model_dump(mode="json") for one in sections]}
    try:
        cross_checked(exact, result.predicted, counts=result.fairness)
    except FiguresDisagreeError:
        raise FiguresDisagreeError(
            "a fairness figure differs from what Fairlearn computes from the rows; which one is "
            "not stated, since figures of the held-out people are protected"
        ) from None
