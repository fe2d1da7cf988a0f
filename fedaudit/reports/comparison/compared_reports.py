"""Compare several reports: their figures, differences between their specs, and Pareto fronts."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.comparison.best_of_row import with_best
from fedaudit.reports.comparison.figure_rows import figure_rows
from fedaudit.reports.comparison.fronts import fronts
from fedaudit.reports.comparison.parts import ComparedExperiment, ComparedGuarantee, Comparison
from fedaudit.reports.comparison.spec_differences import spec_differences
from fedaudit.reports.comparison.warnings import warnings
from fedaudit.reports.figures import parsed
from fedaudit.reports.report import Report

__all__ = ["Comparison", "compare", "compare_reports"]

_NO_GATES = "its spec has no gates"


def compare(
    documents: Sequence[Mapping[str, Any]],
    *,
    fairness: str | None = None,
    utility: str | None = None,
) -> Comparison:
    """Compare several report documents, in the given order.

    `fairness` and `utility` name the figures of the fronts' axes. By default a front uses the first
    of equalized odds, demographic parity and the loss gap that has a value, and accuracy where all
    have one, else the validation loss. Raises ValueError for a document that does not have the form
    of a report.
    """
    reports = [parsed(document) for document in documents]
    return compare_reports(reports, fairness=fairness, utility=utility)


def compare_reports(
    reports: Sequence[Report], *, fairness: str | None = None, utility: str | None = None
) -> Comparison:
    """Like `compare`, for reports that have been parsed."""
    made, without = fronts(reports, fairness=fairness, utility=utility)
    return Comparison(
        experiments=[_experiment(report) for report in reports],
        figures=with_best(figure_rows(reports), reports),
        spec_differences=spec_differences([report.spec for report in reports]),
        warnings=warnings(reports),
        fronts=made,
        without_front=without,
    )


def _experiment(report: Report) -> ComparedExperiment:
    return ComparedExperiment(
        id=report.experiment.id,
        name=report.experiment.name,
        spec_hash=report.experiment.spec_hash,
        verdict=report.verdict,
        degenerate=report.utility.degenerate,
        guarantee=ComparedGuarantee(**report.guarantee.model_dump(exclude={"statement"})),
        gate_outcome=report.gate_outcome,
        gate_outcome_reason=_NO_GATES if report.gate_outcome is None else None,
        data_fingerprint=report.provenance.data_fingerprint,
    )
